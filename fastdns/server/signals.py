"""Signal handlers. They run on the main thread, which only waits for signals once the server has started."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, Protocol

from fastdns.telemetry.log import Log

__all__ = ["install", "wait"]

log = Log()

FORCE_QUIT = 2

#: Seconds after which a dead child that no thread has waited for counts as an orphan.
REAP_SECONDS = 5.0

#: Both ends of the pipe that wakes the main thread.
_wake: tuple[int, int] = (-1, -1)
_reaper: threading.Timer | None = None


class Signalled(Protocol):
    """The process that signals act on. Methods may be called from any thread."""

    def stop(self, name: str, graceful: bool) -> None: ...
    def reload(self) -> None: ...
    def upgrade(self) -> None: ...
    def exit(self, status: int) -> None: ...


def install(process: Signalled) -> None:
    """Install the handlers of the process. Must be called from the main thread."""
    global _wake
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            log.info("SIGINT: Force quit")
            process.exit(FORCE_QUIT)
        interrupted.set()
        log.info("SIGINT: Shutting down")
        _beside(process.stop, "SIGINT", False)

    def terminate(number: int, frame: FrameType | None) -> None:
        log.info("SIGTERM: Shutting down servers then terminating")
        _beside(process.stop, "SIGTERM", True)

    def leave(number: int, frame: FrameType | None) -> None:
        log.info("SIGQUIT: Quitting process immediately")
        process.exit(0)

    # The C handler may run on any thread; the octet that it writes here wakes the main thread.
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    _wake = (reader, writer)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGQUIT, leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda number, frame: _beside(process.reload))
    signal.signal(signal.SIGUSR2, lambda number, frame: _beside(process.upgrade))
    if os.getpid() == 1:
        signal.signal(signal.SIGCHLD, lambda number, frame: _reap())


def wait() -> NoReturn:
    """Wait for signals for ever; their handlers run here."""
    while True:
        os.read(_wake[0], 64)


def _beside(action: Callable[..., object], *arguments: object) -> None:
    """Run a function that can take long on a new thread, so that the next signal is handled at once."""
    threading.Thread(target=action, args=arguments, name="lifecycle", daemon=True).start()


def _reap() -> None:
    """As PID 1 of a container, reap orphans. Children that a thread of the process waits for are left alone for some time."""
    global _reaper
    if _reaper is None or not _reaper.is_alive():
        _reaper = threading.Timer(REAP_SECONDS, _collect)
        _reaper.daemon = True
        _reaper.start()


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
