"""Versions of a cluster's zone, for IXFR (RFC 1995): what has changed from one to the next, and which of them a client has.

The watches of an API server have no common order, so servers of one cluster may have different records at the same time: a serial alone does not say what
a client has. A client that shows the digest of its records gets differences from the version with that digest, whatever server it had it from; any other
gets the whole zone.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Callable, Iterable

from fastdns import control
from fastdns._wire import name_text
from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.plugins.kubernetes.zone.changes import Changes
from fastdns.plugins.kubernetes.zone.left_out import show
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.journal import Change, Journal, Row
from fastdns.plugins.transfer.serial import serial_after
from fastdns.plugins.transfer.version import Version, digest_of
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["WINDOW", "ZoneJournal"]

log = Log("plugin/kubernetes")

#: Seconds between two versions: what changes within one is one version.
WINDOW = 0.25

RECORDS = Metric("fastdns_kubernetes_journal_records", "Records of all differences that IXFR can be answered from.", "gauge", ("zone",))
UNKNOWN = Metric(
    "fastdns_kubernetes_zone_large_versions_total",
    "Counter of versions of a zone with a journal that change more records than it keeps, so that clients get the whole zone.",
    "counter",
    ("zone",),
)
VERSIONS = Metric("fastdns_kubernetes_zone_versions_total", "Counter of versions of a zone with a journal.", "counter", ("zone",))

#: By zone: a reload goes on with the journals of the configuration before.
_newest: weakref.WeakValueDictionary[bytes, ZoneJournal] = weakref.WeakValueDictionary()


class ZoneJournal:
    """The versions of one zone of a handler. From any thread."""

    def __init__(self, handler: ViewHandler, wire: bytes, notify: Callable[[str], object] | None) -> None:
        """One of the handler's zones, in lower-case wire form; ``notify`` is called with its name when a new version serves. Raises KeyError."""
        self.changes = Changes(handler, wire)
        self.wire = wire
        self.zone = name_text(wire)
        self._notify = notify
        self._journal = Journal()
        #: SOA and ZONEMD of the last version; None before the first.
        self._last: tuple[Row, Row] | None = None
        #: A version came of a whole transfer, and nobody was told of it.
        self._untold = False
        #: The last version changed more records than the journal keeps.
        self._large = False
        self._lock = threading.Lock()
        self._timer: control.Timer | None = None
        self._closed = False
        #: That of the configuration before, until the first version.
        self._before: ZoneJournal | None = None

    def start(self) -> None:
        self._before = _newest.get(self.wire)
        _newest[self.wire] = self
        self._timer = control.every(WINDOW, self.advance)

    def stop(self) -> None:
        """Make no more versions by itself. What is known stays for the next configuration; transfers that wait for a thread still get the zone."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._before is not None and _newest.get(self.wire) is self:
                _newest[self.wire] = self._before  # this configuration was rejected
            self._before = None

    def close(self) -> None:
        """Note no more changes: nobody waits for a transfer."""
        self.stop()
        with self._lock:
            self._closed = True
            self.changes.close()

    def advance(self) -> None:
        """Make a new version if something has changed, and tell those who have the zone."""
        with self._lock:
            if self._timer is None or not self.changes.known():
                return
            if self._before is not None:
                self._before.advance()
            new = self._follow(self.changes.advance()[0]) or self._untold
            self._untold = False
        if new:
            self._tell()

    def transfer_changes(self, version: Version) -> Transfer | None:
        """What has changed since the version that a client has; None: not known, or more than the whole zone. Raises ValueError before all is listed."""
        if self._last is None:
            self.advance()
        with self._lock:
            self._check()
            rows = self.since(version)
            return Transfer.of_records(rows) if rows is not None and len(rows) <= self.changes.records + 4 else None

    def transfer(self) -> Transfer:
        """The whole zone as it is now; `advance` tells of it, if it is a new version. Raises ValueError before all is listed."""
        if self._last is None:
            self.advance()
        with self._lock:
            self._check()
            version, transfer = self.changes.advance(whole=True)
            self._untold |= self._follow(version)
            assert transfer is not None  # noqa: S101 - that is what was asked for
        return transfer

    def _check(self) -> None:
        if self._last is None or self._closed:
            raise ValueError("not everything has been listed yet")

    def size(self, serial: int | None) -> int:
        """The number of records that `transfer` would give, roughly."""
        with self._lock:
            changes = self._changes_since(serial) if isinstance(serial, Version) else None
            if changes is not None:
                return 1 + sum(change.records for change in changes)
            return 1 if serial == self.changes.serial else max(1, self.changes.records)

    def _changes_since(self, version: Version) -> list[Change] | None:
        """What has led from a version to the last one; None: not known."""
        if self._last is None or not version.digest:
            return None
        if version.digest == digest_of(self._last[1][3]):
            return []
        changes = list(self._journal.changes)
        starts = [at for at, change in enumerate(changes) if digest_of(change.deleted[0][3]) == version.digest]
        return changes[starts[-1] :] if starts else None

    def since(self, version: Version) -> list[Row] | None:
        """What leads from a version to the last one, as IXFR has it; None: not known.

        The SOA alone for a client that has these records with a later serial, which another server has given to them.
        """
        if self._last is None:
            return None
        soa, zonemd = self._last
        changes = self._changes_since(version)
        if not serial_after(self.changes.serial, version):
            return [soa] if changes == [] or (version == self.changes.serial and not version.digest) else None
        if changes is None:
            return None
        deleted, added = condense(changes)
        serial = struct.pack(">I", version)
        had = (*soa[:3], soa[3][:-20] + serial + soa[3][-16:])
        shown = (*zonemd[:3], serial + zonemd[3][4:6] + version.digest)
        return [soa, had, shown, *deleted, soa, zonemd, *added, soa]

    def _follow(self, found: tuple[list[Row], list[Row]] | None) -> bool:
        """Note the version that `changes` has made; whether others are to be told of it: not where nothing has changed."""
        if found == ([], []):
            return False
        before, self._last = self._last, (self.changes.soa, self.changes.zonemd)
        soa, zonemd = self._last
        services = self.changes.left_out()
        if services is not None:
            show("kubernetes", self.zone, services)
        if before is None:
            if self._take_over():
                return True
        elif found is None:
            self._journal = Journal()
            if self.changes.too_large:
                UNKNOWN.add((self.zone,))
                self._say_large(True)
            else:
                log.warning(f"{self.zone}: memory ran out, differences between versions begin anew")
        else:
            deleted, added = found
            self._journal.note(before[0], soa, ([before[1], *deleted], [zonemd, *added]))
            self._say_large(False)
        RECORDS.set((self.zone,), self._journal.records)
        VERSIONS.add((self.zone,))
        return True

    def _say_large(self, large: bool) -> None:
        """Log that a version is too large for the journal, and that versions are not any more."""
        if large and not self._large:
            log.warning(f"{self.zone}: more records have changed than a journal keeps: clients get the whole zone")
        elif self._large and not large:
            log.info(f"{self.zone}: differences between versions are known again")
        self._large = large

    def _take_over(self) -> bool:
        """Go on with the versions of the configuration before, if its last one has the records that this one begins with."""
        before, self._before = self._before, None
        if before is None or self._last is None:
            return False
        with before._lock:
            last, changes = before._last, list(before._journal.changes)
        if last is None or digest_of(last[1][3]) != digest_of(self._last[1][3]):
            return False
        for change in changes:
            self._journal.note(change.old, change.new, (change.deleted, change.added))
        self.changes.serial = int.from_bytes(last[1][3][:4], "big")
        self._last = (self.changes.soa, self.changes.zonemd)
        RECORDS.set((self.zone,), self._journal.records)
        return True

    def _tell(self) -> None:
        if self._notify is None:
            return
        try:
            self._notify(self.zone)
        except (OSError, ValueError) as error:
            log.warning(f"Failed sending notifies: {error}")


def condense(changes: Iterable[Change]) -> tuple[list[Row], list[Row]]:
    """What several changes delete and add together (RFC 1995 5), without SOA and ZONEMD."""
    found: dict[Row, bool] = {}
    for change in changes:
        for added, rows in ((False, change.deleted[1:]), (True, change.added[1:])):
            for row in rows:
                if found.get(row) is (not added):
                    del found[row]
                else:
                    found[row] = added
    return [row for row, added in found.items() if not added], [row for row, added in found.items() if added]
