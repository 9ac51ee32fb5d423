"""Files that are kept for a restart. A failure to write one is a log line when it begins and when it ends, a gauge and a counter.

The server serves on: a kept copy that cannot be written, or read, costs that copy alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from fastdns.system.files import check_folder
from fastdns.telemetry.metrics import Metric

__all__ = ["Keeping", "reason_of"]

LABELS = ("plugin", "file")
FAILING = Metric("fastdns_kept_file_failing", "1 while a file that is kept for a restart cannot be written.", "gauge", LABELS)
FAILURES = Metric("fastdns_kept_file_failures_total", "Counter of failures to write a file that is kept for a restart.", "counter", ("plugin",))

#: Failing files by their labels. Several configurations may keep one file during a reload.
_failing: dict[tuple[str, str], WeakSet[Keeping]] = {}
_lock = threading.Lock()


class Keeping:
    """The state of one kept file. Methods may be called from any thread."""

    def __init__(self, plugin: str, path: str, log: Callable[[str], object], failing: str, again: str) -> None:
        """``failing`` begins the line of a failure, before its reason, and ``again`` is the line of its end. Both go to ``log``."""
        self._labels = plugin, path
        self._log = log
        self._failing = failing
        self._again = again
        #: The reason of the last failure; "": the last write succeeded.
        self.reason = ""
        FAILURES.cell((plugin,), True)

    def failed(self, error: Exception) -> None:
        """Count a failure, and log it if it has another reason than the one before."""
        FAILURES.add(self._labels[:1])
        reason = reason_of(error)
        former, self.reason = self.reason, reason
        if not former:
            with _lock:
                _failing.setdefault(self._labels, WeakSet()).add(self)
                FAILING.watch(self._labels, partial(_value, self._labels))
        if reason != former:
            self._log(f"{self._failing}: {reason}")

    def succeeded(self) -> None:
        """The file was written, or would be if there were something to write."""
        former, self.reason = self.reason, ""
        if former:
            self.withdraw()
            self._log(self._again)

    def check(self, folder: str) -> None:
        """Fail if no file can be made in the folder."""
        try:
            check_folder(folder)
        except OSError as error:
            self.failed(error)

    def withdraw(self) -> None:
        """Take the file out of the gauge: it is not kept any more."""
        with _lock:
            _failing.get(self._labels, WeakSet()).discard(self)


def reason_of(error: Exception) -> str:
    """The reason of a failure for a log line that names the file."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or ("no memory" if isinstance(error, MemoryError) else type(error).__name__)


def _value(labels: tuple[str, str]) -> float:
    """The gauge's value. Raises LookupError, which skips the sample."""
    with _lock:
        if not _failing.get(labels):
            _failing.pop(labels, None)
            FAILING.forget(labels)
            raise LookupError(labels)
    return 1.0
