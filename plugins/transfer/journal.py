"""Differences between versions of zones, for IXFR (RFC 1995).

A zone has a journal from the first time that somebody transfers it; before, nobody could ask for what has changed since.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import NamedTuple

from fastdns.index.change import ZoneChange
from fastdns.index.index import Index
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.transfer import name_observer
from fastdns.plugins.transfer._difference import Version, difference
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.name_observer import Row
from fastdns.protocol.parameters import TYPE_SOA

__all__ = ["Row", "give", "publish", "size"]

#: Records of all differences of a zone; the oldest go first. A change of more than that is none that IXFR would make smaller.
RECORDS_MOST = 50_000
#: Octets of their names and data.
OCTETS_MOST = 32 << 20

_journals: weakref.WeakKeyDictionary[Index, Journal] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class Change(NamedTuple):
    """From one version to the next."""

    old: Row
    new: Row
    deleted: list[Row]
    added: list[Row]

    @property
    def records(self) -> int:
        return len(self.deleted) + len(self.added) + 2

    @property
    def octets(self) -> int:
        return sum(len(owner) + len(rdata) for rows in (self.deleted, self.added) for owner, _, _, rdata in rows)


class Journal:
    """The last changes of a zone, without a gap."""

    def __init__(self) -> None:
        self.changes: deque[Change] = deque()
        self.records = self.octets = 0

    def note(self, old: Row | None, new: Row | None, found: tuple[list[Row], list[Row]] | None) -> None:
        """A new version serves; ``found`` is what was deleted and added, None that it is not known."""
        if found is None or old is None or new is None or (self.changes and self.changes[-1].new != old):
            self.changes.clear()
            self.records = self.octets = 0
        if found is None or old is None or new is None or _serial(old) == _serial(new):
            return
        self.changes.append(Change(old, new, *found))
        self.records += self.changes[-1].records
        self.octets += self.changes[-1].octets
        while self.records > RECORDS_MOST or self.octets > OCTETS_MOST:
            oldest = self.changes.popleft()
            self.records -= oldest.records
            self.octets -= oldest.octets

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


def publish(zone: Zone, version: ZoneDraft | ZoneChange) -> None:
    """Serve a new version of a zone, with the difference noted where somebody may ask for it, and told to caches. Raises ZoneError as `ZoneChange.publish`."""
    with _lock:
        journal = _journals.get(zone.index)
    if zone.serial is None or (journal is None and not name_observer.observers(zone)):
        _serve(zone, version)
        name_observer.tell(zone, None)  # a cache that has come meanwhile, or that has outlasted a reload
        return
    old: Row | None
    found: tuple[list[Row], list[Row]] | None = None
    if isinstance(version, ZoneChange):
        old = _soa(zone)
        version.publish()
        new = _soa(zone)
        if len(version) <= RECORDS_MOST:
            found = version.deleted, version.added
    else:
        before = Version(zone.index)
        zone.publish(version)
        after = Version(zone.index)
        old, new = before.soa, after.soa
        if old is not None and new is not None:
            found = difference(before, after, RECORDS_MOST)
    if journal is not None:
        journal.note(old, new, found)
    name_observer.tell(zone, found)


def _serve(zone: Zone, version: ZoneDraft | ZoneChange) -> None:
    if isinstance(version, ZoneChange):
        version.publish()
    else:
        zone.publish(version)


def _soa(zone: Zone) -> Row | None:
    for kind, ttl, rdata in zone.index.get(zone.wire):
        if kind == TYPE_SOA:
            return zone.wire, kind, ttl, rdata
    return None


def give(zone: Zone, serial: int | None) -> Transfer:
    """A transfer of the zone: what has changed since ``serial`` where that is known and less than the whole. Raises ValueError while nothing is loaded."""
    with _lock:
        _journals.setdefault(zone.index, Journal())
    rows = _since(zone, serial)
    if rows is not None:
        return Transfer.of_records(rows)
    whole = Transfer.of_index(zone.index, serial)
    if whole is None:
        raise ValueError("no SOA")
    return whole


def size(zone: Zone, serial: int | None) -> int:
    """The number of records that `give` would give."""
    rows = _since(zone, serial)
    return zone.index.statistics["records"] if rows is None else len(rows)


def _since(zone: Zone, serial: int | None) -> list[Row] | None:
    """What has changed since a serial, which is the SOA alone for the current one; None: the whole zone is less, or all that is known."""
    soa = _soa(zone) if serial is not None else None
    if serial is None or soa is None:
        return None
    if serial == _serial(soa):
        return [soa]
    with _lock:
        journal = _journals.get(zone.index)
    rows = journal.since(serial, _serial(soa)) if journal is not None else None
    return rows if rows is not None and len(rows) <= zone.index.statistics["records"] + 2 else None


def _serial(soa: Row) -> int:
    return int.from_bytes(soa[3][-20:-16], "big")
