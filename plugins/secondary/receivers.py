"""Threads that ask primaries and receive from them, at the process's priority: a primary gives up on a server that does not read for some seconds."""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
from collections import defaultdict
from collections.abc import Callable

from fastdns.telemetry.log import Log

__all__ = ["PRIMARY_MOST", "Receivers"]

#: Zones that are asked about at once, of all primaries and of one. BIND sends ten at most by default (transfers-out).
MOST = 64
PRIMARY_MOST = 8
#: A primary of which no zone is asked about has a thread beyond `MOST`, up to so many: those that hold theirs hold back zones of their own only.
SURE_MOST = 512

log = Log("plugin/secondary")

Job = Callable[[], object]


class Receivers:
    """A thread for each job. A primary that does not answer holds back zones of its own only. Of jobs that wait, those of the smallest zones are first.

    A new thread has the niceness of the one that starts it, so `start` must be called by a thread that is not niced; `submit` may be called by any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._admitted: queue.SimpleQueue[tuple[str, Job]] = queue.SimpleQueue()
        self._waiting: dict[str, list[tuple[int, int, Job]]] = {}
        self._active: defaultdict[str, int] = defaultdict(int)
        self._all = 0
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that starts the others; only the first call does."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="secondary", daemon=True)
                thread.start()
                self._thread = thread

    def submit(self, primary: str, size: int, job: Job) -> None:
        """Run a job that talks with this primary about a zone of this size (records; 0: not known)."""
        self.start()
        with self._lock:
            heapq.heappush(self._waiting.setdefault(primary, []), (size, next(self._numbers), job))
            self._admit(primary)

    def _admit(self, primary: str) -> bool:
        jobs = self._waiting.get(primary)
        active = self._active.get(primary, 0)
        if not jobs or active >= PRIMARY_MOST or self._all >= (MOST if active else SURE_MOST):
            return False
        self._active[primary] += 1
        self._all += 1
        self._admitted.put((primary, heapq.heappop(jobs)[2]))
        if not jobs:
            del self._waiting[primary]
        return True

    def _serve(self) -> None:
        while True:
            primary, job = self._admitted.get()
            try:
                threading.Thread(target=self._run, args=(primary, job), name="secondary", daemon=True).start()
            except RuntimeError as error:  # no thread can be started
                log.error(f"{error}")
                self._run(primary, job)
            del job

    def _run(self, primary: str, job: Job) -> None:
        try:
            job()
        finally:
            with self._lock:
                self._all -= 1
                self._active[primary] -= 1
                if not self._active[primary]:
                    del self._active[primary]
                if not self._admit(primary):
                    any(self._admit(other) for other in tuple(self._waiting))
