"""Errors that are alike, counted over a period instead of logged one by one. Matching runs on one thread of its own, never on a worker."""

from __future__ import annotations

import itertools
import threading
import time

from fastdns.corefile.duration import format_duration
from fastdns.expression import regex
from fastdns.plugins.errors import _errors
from fastdns.telemetry.log import Log

__all__ = ["Consolidation", "Group"]

log = Log("plugin/errors")

_numbers = itertools.count(1)
_lock = threading.Lock()
_standing: dict[int, Consolidation] = {}
_thread: threading.Thread | None = None


class Group:
    """Errors that one expression matches."""

    def __init__(self, period: int, expression: str, level: str, show_first: bool) -> None:
        """``period`` in nanoseconds; ``level`` names a method of `Log`."""
        self.period = period
        self.expression = expression
        self.pattern = regex.compile(expression)
        self.put = getattr(log, level)
        self.show_first = show_first
        self.count = 0
        #: Monotonic seconds when the period that runs ends.
        self.end: float | None = None

    def add(self, line: str, now: float) -> None:
        """One more; the first of a period begins it, and is shown where that is wanted."""
        if self.end is None:
            self.end = now + self.period / 1e9
            if self.show_first:
                self.put(line)
        self.count += 1

    def finish(self) -> None:
        """The period is over: tell how many there were."""
        count, self.count, self.end = self.count, 0, None
        if count > self.show_first:
            self.put(f"{count} errors like '{self.expression}' occurred in last {format_duration(self.period)}")


class Consolidation:
    """The groups of one block; the first that matches takes an error."""

    def __init__(self, patterns: list[tuple[int, str, str, bool]]) -> None:
        self.number = next(_numbers)
        self.groups = [Group(*pattern) for pattern in patterns]

    def start(self) -> None:
        global _thread
        with _lock:
            _standing[self.number] = self
            if _thread is None:
                thread = threading.Thread(target=_run, name="errors", daemon=True)
                thread.start()
                _thread = thread

    def stop(self) -> None:
        """Tell what is pending; errors of queries that are still under way are logged one by one."""
        _drain(_errors.take(0))
        with _lock:
            _standing.pop(self.number, None)
            for group in self.groups:
                if group.end is not None:
                    group.finish()

    def add(self, error: str, line: str, now: float) -> None:
        for group in self.groups:
            if group.pattern.search(error):
                group.add(line, now)
                return
        log.error(line)


def _drain(taken: list[tuple[int, str, str]]) -> None:
    now = time.monotonic()
    with _lock:
        for number, error, line in taken:
            consolidation = _standing.get(number)
            if consolidation is None:
                log.error(line)
            else:
                consolidation.add(error, line, now)


def _run() -> None:
    """Take errors, and end periods when they are over. What was lost is reported every second at most."""
    reported, lost = time.monotonic(), 0
    while True:
        with _lock:
            ends = [group.end for one in _standing.values() for group in one.groups if group.end is not None]
        if lost:
            ends.append(reported + 1)
        _drain(_errors.take(max(0.0, min(ends) - time.monotonic()) if ends else -1))
        now = time.monotonic()
        with _lock:
            for consolidation in _standing.values():
                for group in consolidation.groups:
                    if group.end is not None and group.end <= now:
                        group.finish()
        lost += _errors.take_lost()
        if lost and now - reported >= 1:
            log.error(f"{lost} errors were too many at once to be looked at")
            reported, lost = now, 0
