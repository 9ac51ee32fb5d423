"""``cancel``: a time limit for what the plugins below may wait for."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Nanoseconds. A little more than a client's usual 5 seconds, so that its own time runs out first.
TIMEOUT = 5_001_000_000


def setup(controller: Controller) -> None:
    """``cancel [TIMEOUT]``."""
    timeout = parse(controller)
    from fastdns.plugins.cancel._cancel import Cancel

    controller.config.add_handler(Cancel(timeout))


def parse(controller: Controller) -> int:
    """The limit in nanoseconds. Raises CorefileError."""
    timeout = TIMEOUT
    while controller.next():
        arguments = controller.args(0, 1)
        timeout = TIMEOUT
        if arguments:
            try:
                timeout = controller.duration(arguments[0])
            except ValueError:
                raise CorefileError(f"invalid duration: {quoted(arguments[0])}") from None
            if timeout <= 0:
                raise CorefileError(f"invalid negative duration: {quoted(arguments[0])}")
    return timeout
