"""Signal handlers. They run on the main thread, which only waits for signals once the server has started.

What can take long runs on two other threads, which are there from the start: a signal finds them where no thread can be made any more.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, Protocol

from fastdns.server import early
from fastdns.system import watchdog
from fastdns.telemetry.log import Log

__all__ = ["install", "limit_end", "wait"]

log = Log()

FORCE_QUIT = 2

#: Seconds that the end of the process may take, but for what its hooks wait.
END_SECONDS = 20.0
#: The same for SIGQUIT, which waits for nothing.
QUIT_SECONDS = 1.0

#: Seconds after which a dead child that no thread has waited for counts as an orphan.
REAP_SECONDS = 5.0

#: Both ends of the pipe that wakes the main thread.
_wake: tuple[int, int] = (-1, -1)
_reaper: threading.Timer | None = None


class Signalled(Protocol):
    """The process that signals act on. Methods may be called from any thread. `reload` and `upgrade` wait until the process serves."""

    def stop(self, name: str, graceful: bool) -> None: ...
    def reload(self) -> None: ...
    def upgrade(self) -> None: ...
    def exit(self, status: int) -> None: ...


def install(process: Signalled) -> None:
    """Install the handlers of the process. Must be called from the main thread."""
    global _wake
    interrupted = threading.Event()
    stop = _thread("stop")
    reload = _thread("reload")

    def interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            log.info("SIGINT: Force quit")
            process.exit(FORCE_QUIT)
        interrupted.set()
        log.info("SIGINT: Shutting down")
        stop(lambda: process.stop("SIGINT", False))

    def terminate(number: int, frame: FrameType | None) -> None:
        log.info("SIGTERM: Shutting down servers then terminating")
        stop(lambda: process.stop("SIGTERM", True))

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
    signal.signal(signal.SIGUSR1, lambda number, frame: reload(process.reload))
    signal.signal(signal.SIGUSR2, lambda number, frame: reload(process.upgrade))
    if os.getpid() == 1:
        signal.signal(signal.SIGCHLD, lambda number, frame: _reap())
    watchdog.watch(signal.SIGQUIT, QUIT_SECONDS)
    limit_end(0.0)
    for number in early.take():
        signal.raise_signal(number)


def limit_end(seconds: float) -> None:
    """The process is killed when it has not ended so many seconds, and END_SECONDS, after SIGTERM or SIGINT: without memory or the GIL nothing ends it."""
    watchdog.watch(signal.SIGTERM, END_SECONDS + seconds)
    watchdog.watch(signal.SIGINT, END_SECONDS + seconds)


def wait(look: Callable[[], object], seconds: float) -> NoReturn:
    """Wait for signals for ever; their handlers run here. ``look`` is called each so many seconds."""
    waiting = select.poll()
    waiting.register(_wake[0], select.POLLIN)
    due = time.monotonic() + seconds
    while True:
        try:
            if waiting.poll(max(0.0, due - time.monotonic()) * 1000):
                os.read(_wake[0], 64)
            if time.monotonic() >= due:
                due = time.monotonic() + seconds
                look()
        except (ImportError, MemoryError, OSError, RuntimeError) as error:  # of a handler: the server goes on
            log.error(f"Signal: {type(error).__name__}: {error}")


def _thread(name: str) -> Callable[[Callable[[], object]], None]:
    """Start a thread that runs actions one after the other. An action that waits already does not wait twice."""
    actions: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    waiting: dict[Callable[[], object], None] = {}

    def put(action: Callable[[], object]) -> None:
        if action not in waiting:
            waiting[action] = None
            actions.put(action)

    def run() -> None:
        while True:
            try:
                action = actions.get()
                waiting.pop(action, None)
                action()
            except BaseException as error:  # the thread is the only one that can reload or end the process
                log.error(f"{name}: {type(error).__name__}: {error}")

    threading.Thread(target=run, name=name, daemon=True).start()
    return put


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
