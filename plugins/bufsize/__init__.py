"""bufsize: limits the size of UDP replies that clients ask for."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Octets. What passes almost every path unfragmented (DNS flag day 2020).
SIZE = 1232
LEAST, MOST = 512, 4096


def setup(controller: Controller) -> None:
    """``bufsize [SIZE]``."""
    size = parse(controller)
    from fastdns.plugins.bufsize._bufsize import BufsizeHandler

    controller.config.add_handler(BufsizeHandler("bufsize", size))


def parse(controller: Controller) -> int:
    """The size that the first occurrence gives. Raises CorefileError."""
    controller.next()
    arguments = controller.remaining_args()
    if not arguments:
        return SIZE
    try:
        size = controller.integer(arguments[0])
    except ValueError:
        size = 0
    if len(arguments) > 1 or not LEAST <= size <= MOST:
        error = controller.arg_err()
        raise CorefileError(f"plugin/bufsize: plugin/bufsize: {error}", error.file, error.line)
    return size
