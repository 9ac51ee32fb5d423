"""timeouts: how long the server waits for its clients."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.duration import HOUR, SECOND, format_duration, in_seconds
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``timeouts { read|write|idle DURATION; maxtcpqueries N }``"""
    while controller.next():
        if controller.remaining_args():
            raise _twice(controller.arg_err())
        lines = 0
        while controller.next_block():
            lines += 1
            _option(controller, controller.val())
        if not lines:
            raise _twice(controller.err("timeouts block with no timeouts specified"))


def _option(controller: Controller, name: str) -> None:
    config = controller.config
    value = controller.one_arg()
    if name == "maxtcpqueries":
        config.max_tcp_queries = _queries(controller, value)
        return
    seconds = _duration(controller, value)
    if name == "read":
        config.read_timeout = seconds
    elif name == "write":
        config.write_timeout = seconds
    elif name == "idle":
        config.idle_timeout = seconds
    else:
        raise controller.err(f"unknown option: '{name}'")


def _queries(controller: Controller, text: str) -> int:
    """Queries of a connection; 0 for any number, which is -1 in the Corefile."""
    try:
        number = controller.integer(text)
    except ValueError as error:
        raise controller.err(f"invalid value for maxtcpqueries '{text}': {error}") from None
    if number == 0 or number < -1:
        raise controller.err(f"maxtcpqueries provided '{number}' needs to be -1 (unlimited) or a positive integer")
    return min(max(number, 0), 0xFFFFFFFF)


def _duration(controller: Controller, text: str) -> float:
    """Seconds of a Go duration, or of a bare number of seconds."""
    try:
        nanoseconds = controller.duration(in_seconds(text))
    except ValueError:
        raise controller.err(f"failed to parse duration '{text}'") from None
    if not SECOND <= nanoseconds <= 24 * HOUR:
        raise controller.err(f"timeout provided '{format_duration(nanoseconds)}' needs to be between 1 second and 24 hours")
    return nanoseconds / SECOND


def _twice(error: CorefileError) -> CorefileError:
    """Named twice, as CoreDNS does."""
    return CorefileError(f"plugin/timeouts: plugin/timeouts: {error}", error.file, error.line)
