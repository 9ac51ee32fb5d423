"""Differences between versions of zones, for IXFR (RFC 1995).

A zone has a journal from the first time that somebody transfers it; before, nobody could ask for what has changed since.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass

from fastdns.index.index import Index
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.transfer._difference import Version, difference
from fastdns.plugins.transfer._transfer import Transfer

__all__ = ["give", "publish"]

#: Owner, type, TTL, rdata in wire form.
Row = tuple[bytes, int, int, bytes]

#: Records of all differences of a zone; the oldest go first. A change of more than that is none that IXFR would make smaller.
RECORDS_MOST = 50_000

_journals: weakref.WeakKeyDictionary[Index, Journal] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclass
class Change:
    """From one version to the next."""

    old: Row
    new: Row
    deleted: list[Row]
    added: list[Row]

    @property
    def records(self) -> int:
        return len(self.deleted) + len(self.added) + 2


class Journal:
    """The last changes of a zone, without a gap."""

    def __init__(self) -> None:
        self.changes: deque[Change] = deque()
        self.records = 0

    def note(self, before: Version, after: Version) -> None:
        """A new version serves."""
        old, new = before.soa, after.soa
        found = difference(before, after, RECORDS_MOST) if old is not None and new is not None else None
        if found is None or old is None or new is None or (self.changes and self.changes[-1].new != old):
            self.changes.clear()
            self.records = 0
        if found is None or old is None or new is None or _serial(old) == _serial(new):
            return
        self.changes.append(Change(old, new, *found))
        self.records += self.changes[-1].records
        while self.records > RECORDS_MOST:
            self.records -= self.changes.popleft().records

    def since(self, serial: int, current: int) -> list[Row] | None:
        """What leads from a serial to the current one, as IXFR has it; None: not known."""
        changes = list(self.changes)
        if not changes or _serial(changes[-1].new) != current:
            return None
        starts = [at for at, change in enumerate(changes) if _serial(change.old) == serial]
        if not starts:
            return None
        rows = [changes[-1].new]
        for change in changes[starts[-1] :]:
            rows += [change.old, *change.deleted, change.new, *change.added]
        return [*rows, changes[-1].new]


def publish(zone: Zone, draft: ZoneDraft) -> None:
    """`Zone.publish`, with the difference noted where somebody may ask for it."""
    with _lock:
        journal = _journals.get(zone.index)
    if journal is None or zone.serial is None:
        zone.publish(draft)
        return
    before = Version(zone.index)
    zone.publish(draft)
    journal.note(before, Version(zone.index))


def give(zone: Zone, serial: int | None) -> Transfer:
    """A transfer of the zone: what has changed since ``serial`` where that is known and less than the whole. Raises ValueError while nothing is loaded."""
    with _lock:
        journal = _journals.setdefault(zone.index, Journal())
    current = zone.serial
    if serial is not None and current is not None and serial != current:
        rows = journal.since(serial, current)
        if rows is not None and len(rows) <= zone.index.statistics["records"] + 2:
            return Transfer.of_records(rows)
    whole = Transfer.of_index(zone.index, serial)
    if whole is None:
        raise ValueError("no SOA")
    return whole


def _serial(soa: Row) -> int:
    return int.from_bytes(soa[3][-20:-16], "big")
