"""Signals before the server can act on them.

`install` is the first statement of the entry points, and imports nothing but a part of the interpreter: without handlers SIGUSR1, SIGUSR2 and SIGHUP
end the process. SIGTERM, SIGINT and SIGQUIT end it with status 0: nothing serves yet. What came of the others is kept for `take`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
else:
    import _signal  # the module `signal` takes a millisecond more

__all__ = ["block", "install", "restore", "take", "unblock"]

#: Those that are kept.
KEPT = (_signal.SIGUSR1, _signal.SIGUSR2)
ENDS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGQUIT)

_came: list[int] = []


def install() -> None:
    """Install the handlers, and take the signals that a launcher has blocked until now."""
    for number in KEPT:
        _signal.signal(number, _keep)
    for number in ENDS:
        _signal.signal(number, _end)
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (*KEPT, *ENDS, _signal.SIGHUP))


def restore() -> None:
    """Undo `install`, for commands that serve nothing."""
    for number in (*KEPT, _signal.SIGTERM, _signal.SIGQUIT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def block() -> set[int]:
    """Block the signals in the calling thread, for a process that it starts and that calls `install`. Returns those that it had blocked, for `unblock`."""
    return _signal.pthread_sigmask(_signal.SIG_BLOCK, (*KEPT, *ENDS, _signal.SIGHUP))


def unblock(blocked: set[int]) -> None:
    """Undo `block`."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)


def take() -> list[int]:
    """Return each signal that was kept, once, in their order."""
    came = list(dict.fromkeys(_came))
    _came.clear()
    return came


def _keep(number: int, frame: FrameType | None) -> None:
    _came.append(number)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)
