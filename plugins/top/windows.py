"""The last minute, ten minutes and hour: tables of spans of time, merged when they are read.

What workers have counted goes into the span of 15 seconds that is open. When a span ends it is kept, and is added to the open span of the next length.
A window is its open span, those kept of its length, and the open ones of shorter lengths, which that one does not have yet.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fastdns import control
from fastdns.plugins.top._tables import Tables, TableSet
from fastdns.telemetry import metrics

if TYPE_CHECKING:
    from fastdns.plugins.top._tables import Row

__all__ = ["TABLES", "WINDOWS", "Merged", "Windows"]

#: In the order of `TopTable`.
TABLES = (
    "names",
    "domains",
    "clients",
    "nxdomain_names",
    "nxdomain_clients",
    "search_waste",
    "large_answers",
    "slow_upstream_names",
    "servfail_causes",
    "aaaa_waste",
)
#: Seconds of a window, with seconds of its spans and how many ended ones are kept.
WINDOWS = {60: (15, 3), 600: (120, 4), 3600: (600, 5)}
SECONDS = 15.0


class Merged(NamedTuple):
    """A table of a window."""

    total: int
    #: The most that a key may have that is not among the rows.
    error: int
    #: Key and what is known of it, to count and error: the true number is from ``count - error`` to ``count``, but for sampling.
    rows: list[tuple[bytes, bytes, int, int]]


class Span:
    """Spans of one length: the open one, and the last that have ended."""

    def __init__(self, seconds: int, kept: int, now: float) -> None:
        self.seconds = seconds
        self.open = TableSet()
        self.began = now
        #: With their beginnings, oldest first.
        self.ended: deque[tuple[TableSet, float]] = deque(maxlen=kept)

    def end(self, now: float) -> TableSet:
        """Keep the open span, which is the result, and open another."""
        ended = self.open
        reused = self.ended[0][0] if len(self.ended) == self.ended.maxlen else None
        if reused is not None:
            self.ended.popleft()
            reused.clear()
        self.ended.append((ended, self.began))
        self.open = reused or TableSet()
        self.began = now
        return ended


class Windows:
    """What the process remembers, for all server blocks with *top* together, from `acquire` to `release`. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._tables = Tables()
        self._spans: list[Span] = []
        self._timer: control.Timer | None = None
        #: Called after each span of 15 seconds.
        self.listeners: list[Callable[[], None]] = []

    def acquire(self) -> None:
        """Somebody wants it remembered: before a configuration serves."""
        with self._lock:
            self._users += 1

    def begin(self) -> None:
        """Count, if that does not go on already. The workers are there by now. MemoryError."""
        with self._lock:
            if self._spans:
                return
            self._tables.begin(metrics.workers())
            now = time.monotonic()
            self._spans = [Span(seconds, kept, now) for seconds, kept in WINDOWS.values()]
            self._timer = control.every(SECONDS, self.turn)

    def release(self) -> bool:
        """End that once the last one does so: nothing is remembered then. Was it the last?"""
        with self._lock:
            self._users -= 1
            if self._users:
                return False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._tables.close()
            self._spans = []
            return True

    def turn(self) -> None:
        """End the spans whose time is over."""
        with self._lock:
            if not self._spans:
                return
            now = time.monotonic()
            self._tables.drain(self._spans[0].open)
            for at, span in enumerate(self._spans):
                # Timers may be late, and never early.
                if now - span.began < span.seconds - SECONDS / 2:
                    break
                ended = span.end(now)
                if at + 1 < len(self._spans):
                    self._spans[at + 1].open.merge(ended)
            listeners = list(self.listeners)
        for listener in listeners:
            listener()

    def read(self, window: int) -> tuple[float, float, dict[str, Merged]]:
        """The seconds that the window has at present, the least share of queries that has counted in it, and its tables.

        KeyError for a window that is not of `WINDOWS`, ValueError where nothing counts.
        """
        wanted = WINDOWS[window][0]
        with self._lock:
            if not self._spans:
                raise ValueError("top has not started")
            self._tables.drain(self._spans[0].open)
            longest = next(span for span in self._spans if span.seconds == wanted)
            sets = [found for found, _ in longest.ended]
            sets += [span.open for span in self._spans if span.seconds <= wanted]
            began = longest.ended[0][1] if longest.ended else longest.began
            read = [found.read() for found in sets]
            sampled = 1 / max(found.weight() for found in sets)
        return time.monotonic() - began, sampled, {name: _merge([tables[at] for tables in read]) for at, name in enumerate(TABLES)}


def _merge(tables: list[tuple[int, int, list[Row]]]) -> Merged:
    """A key that one of the tables has not may have been there as often as its least frequent row."""
    absent = sum(least for _, least, _ in tables)
    rows: dict[tuple[int, bytes], tuple[bytes, int, int]] = {}
    for _, least, found in tables:
        for hashed, key, known, count, error in found:
            before, counted, wrong = rows.get((hashed, key), (b"", absent, absent))
            rows[hashed, key] = (known or before, counted + count - least, wrong + error - least)
    return Merged(
        sum(total for total, _, _ in tables),
        absent,
        # By what is certain: else rare keys that take each other's rows would come first.
        sorted(((key, known, count, wrong) for (_, key), (known, count, wrong) in rows.items()), key=lambda row: row[3] - row[2]),
    )
