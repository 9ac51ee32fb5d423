"""Things done from time to time: one thread, niced, that calls functions when they are due.

For the short work of the control side: files looked at for changes, weights read again. A function that
blocks holds up the others, so what waits for a network has a thread of its own.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from collections.abc import Callable

from fastdns.telemetry.log import Log

__all__ = ["Task", "every", "renice"]

log = Log()

#: Of the thread: what workers do comes first on a busy machine.
NICENESS = 19

_order = itertools.count()
_changed = threading.Condition()
_due: list[tuple[float, int, Task]] = []
_thread: threading.Thread | None = None


class Task:
    """A function that is called every so many seconds until `cancel`."""

    __slots__ = ("cancelled", "function", "seconds")

    def __init__(self, seconds: float, function: Callable[[], object]) -> None:
        self.seconds = seconds
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        """No further calls; one that is under way goes on."""
        with _changed:
            self.cancelled = True
            _due[:] = [entry for entry in _due if entry[2] is not self]
            heapq.heapify(_due)


def every(seconds: float, function: Callable[[], object]) -> Task:
    """Call a function every ``seconds`` (above 0), first after that time. What it raises is logged, and it is called again.

    Raises ValueError for 0 and less.
    """
    global _thread
    if seconds <= 0:
        raise ValueError(f"every {seconds} seconds")
    task = Task(seconds, function)
    with _changed:
        heapq.heappush(_due, (time.monotonic() + seconds, next(_order), task))
        if _thread is None:
            _thread = threading.Thread(target=_run, name="schedule", daemon=True)
            _thread.start()
        _changed.notify()
    return task


def renice(niceness: int = NICENESS) -> None:
    """Let the calling thread, and only it, stand back behind the workers (Linux: niceness is a thread's own)."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _run() -> None:
    renice()
    while True:
        with _changed:
            while not _due or (wait := _due[0][0] - time.monotonic()) > 0:
                _changed.wait(wait if _due else None)
            _, _, task = heapq.heappop(_due)
        try:
            task.function()
        except Exception as error:
            log.error(f"{getattr(task.function, '__qualname__', task.function)}: {error}")
        with _changed:
            if not task.cancelled:
                heapq.heappush(_due, (time.monotonic() + task.seconds, next(_order), task))
