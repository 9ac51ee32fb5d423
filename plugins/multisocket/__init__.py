"""multisocket: how many sockets a listening address has."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system.host import cpu_count

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

MOST = 1024


def setup(controller: Controller) -> None:
    """``multisocket [N]``."""
    controller.config.sockets = parse(controller)


def parse(controller: Controller) -> int:
    """The number of sockets. Raises CorefileError."""
    controller.next()
    arguments = controller.remaining_args()
    if len(arguments) > 1 or controller.next():
        raise controller.arg_err()
    if not arguments:
        return min(cpu_count(), MOST)
    try:
        sockets = controller.integer(arguments[0])
    except ValueError as error:
        raise CorefileError(f"invalid num sockets: {error}") from None
    if sockets < 1:
        raise CorefileError(f"num sockets can not be zero or negative: {sockets}")
    if sockets > MOST:
        raise CorefileError(f"num sockets exceeds maximum ({MOST}): {sockets}")
    return sockets
