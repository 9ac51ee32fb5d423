"""The thread of a storage: the only one that touches its files.

A file system may hang, such as NFS while its server is away, and with it every thread that touches it, for as long as it likes. That costs one thread per
folder, which does nothing else. Everybody else waits for it for a bounded time.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fastdns import control
from fastdns.telemetry import events
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["HANG_SECONDS", "StorageHangs", "StorageThread", "thread_of"]

Result = TypeVar("Result")

#: Seconds that one function may take until the storage counts as hung.
HANG_SECONDS = 5.0

HUNG = Metric("fastdns_tls_acme_storage_hung", "Whether a function on this storage has not ended in time.", "gauge", ("storage",))

log = Log("plugin/tls")


class StorageHangs(OSError):
    """The storage did not answer in time. What was begun may still be done."""


class StorageThread:
    """Runs functions on one folder, one after the other. From any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        #: Also for timers, whose functions take their turn.
        self.pool = control.Pool("acme-storage", 1, control.NICENESS)
        self._own = threading.local()
        self._lock = threading.Lock()
        #: When the function in progress began (monotonic); 0.0: there is none.
        self._since = 0.0
        self._hung = False

    def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """The function's result or exception. Raises StorageHangs at once while the storage hangs, or when this takes too long."""
        if getattr(self._own, "running", False):
            return function(*args)
        if self.hangs():
            raise self._error()
        future = self.post(function, *args)
        try:
            return future.result(HANG_SECONDS)
        except concurrent.futures.TimeoutError:
            if future.done():  # the function's own
                raise
            future.cancel()  # where it has not begun
            self.hangs()
            raise self._error() from None

    def post(self, function: Callable[..., Result], *args: Any) -> concurrent.futures.Future[Result]:
        """Have the function run, however long it takes until then. Raises RuntimeError when no thread can be started."""
        return self.pool.submit(self.run, function, *args)

    def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """On the thread itself: run a function that counts as one of the storage's."""
        self._own.running = True
        with self._lock:
            self._since = time.monotonic()
        try:
            return function(*args)
        finally:
            with self._lock:
                since, self._since = self._since, 0.0
                hung, self._hung = self._hung, False
            if hung:
                HUNG.set((self.folder,), 0)
                events.note("certificate", self.folder, "the storage answers again")
                log.info(f"The storage {self.folder} answers again, after {time.monotonic() - since:.0f}s")

    def hangs(self) -> bool:
        """Whether the function in progress has taken too long; the first call that finds it logs it. Touches no file."""
        with self._lock:
            found = self._since > 0 and time.monotonic() - self._since >= HANG_SECONDS
            first, self._hung = found and not self._hung, found
            if first:  # within the lock: before the line that it answers again
                HUNG.set((self.folder,), 1)
                events.note("certificate", self.folder, "the storage does not answer")
                log.error(f"The storage {self.folder} has not answered for {HANG_SECONDS:.0f}s; certificates in use stay, and renewals wait for it")
        return found

    def _error(self) -> StorageHangs:
        return StorageHangs(f"the storage {self.folder} does not answer")


_threads: dict[str, StorageThread] = {}


def thread_of(folder: str) -> StorageThread:
    """The process's thread for this folder, which outlives reloads: it may hang. On the main thread."""
    return _threads.setdefault(folder, StorageThread(folder))
