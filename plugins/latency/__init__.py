"""latency: how long a worker may gather UDP queries, so that it wakes up less often."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Nanoseconds: below the first a worker sleeps for longer than told, and clients notice the second.
LEAST = 10_000
MOST = 10_000_000


def setup(controller: Controller) -> None:
    """``latency BUDGET``."""
    controller.config.latency = parse(controller)


def parse(controller: Controller) -> int:
    """The budget in nanoseconds. Raises CorefileError."""
    controller.next()
    arguments = controller.remaining_args()
    if len(arguments) != 1 or controller.next():
        raise controller.arg_err()
    try:
        budget = controller.duration(arguments[0])
    except ValueError as error:
        raise CorefileError(f"invalid latency budget: {error}") from None
    if not LEAST <= budget <= MOST:
        raise CorefileError(f"latency budget must be in range [10us, 10ms]: {arguments[0]}")
    return budget
