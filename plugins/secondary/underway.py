"""Transfers under way: what each may take of time and memory, and which is given up when all of them have too much."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from fastdns.plugins.secondary._receive import TransferError
from fastdns.system.host import memory_limit
from fastdns.telemetry.metrics import Metric

__all__ = ["GRACE_SECONDS", "OCTETS_DEFAULT", "RATE_LEAST", "UNDER_WAY", "Entry", "UnderWay"]

#: Octets of messages become about five times as many in memory. So the share leaves room for the zones that serve.
MEMORY_SHARE: Final = 8
#: Octets of a transfer where `max_octets` says nothing, and of all transfers under way.
OCTETS_DEFAULT: Final = memory_limit() // MEMORY_SHARE or 4 << 30
#: Seconds that a transfer has in any case, and octets a second that it needs to have more.
GRACE_SECONDS = 60.0
RATE_LEAST = 1024

GIVEN_UP = Metric(
    "fastdns_secondary_transfers_given_up_total",
    "Counter of transfers that exceeded a bound: slow, time, octets, records, memory.",
    "counter",
    ("primary", "reason"),
)


class Entry:
    """A transfer under way. Of its receiver's thread, but for `refused`."""

    def __init__(self, primary: str, most: int, seconds: float, interrupt: Callable[[], object]) -> None:
        self.primary = primary
        self.most = most
        self.interrupt = interrupt
        #: Octets of its messages, and of these by what they take of memory.
        self.received = 0
        self.octets = 0
        #: Why it was given up for others.
        self.refused = ""
        self._began = time.monotonic()
        self._seconds = seconds

    @property
    def deadline(self) -> float:
        """Monotonic: when it is too late for a next message."""
        return self._began + min(self._seconds, GRACE_SECONDS + self.received / RATE_LEAST)

    def late(self) -> TransferError:
        """The error at the deadline."""
        if time.monotonic() >= self._began + self._seconds:
            return self.give_up("time", f"the transfer took too long: more than {self._seconds:g} s (max_time)")
        return self.give_up("slow", f"the transfer is slower than {RATE_LEAST} octets a second after {GRACE_SECONDS:g} s")

    def give_up(self, reason: str, text: str) -> TransferError:
        GIVEN_UP.add((self.primary, reason))
        error = TransferError(text)
        error.bound = reason
        return error


class UnderWay:
    """All transfers of the process. If they have more than ``most`` octets, the largest of the primary that has most is given up. From any thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._entries: set[Entry] = set()
        self._octets = 0
        self._lock = threading.Lock()

    def enter(self, entry: Entry) -> None:
        with self._lock:
            self._entries.add(entry)

    def leave(self, entry: Entry) -> None:
        with self._lock:
            self._entries.discard(entry)
            self._octets -= entry.octets

    def add(self, entry: Entry, octets: int, weight: int = 1) -> None:
        """Octets of a transfer have come, each of which counts ``weight`` times in the sum of all. Raises TransferError: it is given up."""
        entry.received += octets
        if entry.received > entry.most:
            raise entry.give_up("octets", f"too many octets: more than {entry.most} (max_octets)")
        with self._lock:
            entry.octets += octets * weight
            self._octets += octets * weight
            if self._octets > max(self.most, entry.most):
                self._give_up_largest()
        if entry.refused:
            raise entry.give_up("memory", entry.refused)

    def _give_up_largest(self) -> None:
        left = [entry for entry in self._entries if not entry.refused]
        if sum(entry.octets for entry in left) <= self.most:
            return  # those that were given up have not ended
        by_primary: Counter[str] = Counter()
        for entry in left:
            by_primary[entry.primary] += entry.octets
        largest = max(left, key=lambda entry: (by_primary[entry.primary], entry.octets))
        largest.refused = f"all transfers under way have more than {self.most} octets, and those of this primary most"
        largest.interrupt()


UNDER_WAY: Final = UnderWay(OCTETS_DEFAULT)
