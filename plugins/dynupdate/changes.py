"""What an UPDATE makes of a zone (RFC 2136 3): the zone's records are read from its index name by name, so it costs by the size of the message."""

from __future__ import annotations

from typing import TypeAlias

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone
from fastdns.plugins.dynupdate.content import CLASS_IN, Row, in_zone, record_size, serial_of
from fastdns.plugins.dynupdate.policy import KNOWN, META, UNSUPPORTED, Permissions
from fastdns.plugins.transfer.serial import serial_after
from fastdns.protocol.parameters import TYPE_ANY, TYPE_CNAME, TYPE_DNAME, TYPE_NS, TYPE_SOA
from fastdns.zonefile.rdata import lower, valid

__all__ = ["Draft", "UpdateRecord", "growth"]

#: Owner in lower-case wire form, type, class, TTL, rdata; None: it is no rdata of that type.
UpdateRecord: TypeAlias = "tuple[bytes, int, int, int, bytes | None]"
#: Type, and rdata in canonical form: of two equal records it is equal.
Key = tuple[int, bytes]
#: The records of a name: TTL and rdata.
Records = dict[Key, tuple[int, bytes]]

NOERROR, FORMERR, NXDOMAIN, NOTIMP, REFUSED, YXDOMAIN, YXRRSET, NXRRSET, NOTZONE = 0, 1, 3, 4, 5, 6, 7, 8, 10
CLASS_NONE, CLASS_ANY = 254, 255

#: Of these a name has one record, which another one replaces (RFC 1034 3.6.2, RFC 6672 2.4).
SINGLE = (TYPE_CNAME, TYPE_DNAME)


class Draft:
    """The zone as a message changes it, beside the version that serves."""

    def __init__(self, zone: Zone) -> None:
        self.origin = zone.wire
        #: Whether an update had an effect, even if another one has undone it.
        self.changed = False
        self._zone = zone
        self._before: dict[bytes, Records] = {}
        self._now: dict[bytes, Records] = {}
        #: An update has given the SOA, and with it the serial.
        self._explicit = False

    # ---- the message ----

    def refusal(self, prerequisites: list[UpdateRecord], updates: list[UpdateRecord], key: bytes, permissions: Permissions) -> int:
        """The rcode where the message is refused, 0 where it is to be applied: in the order of RFC 2136 3."""
        return self._check_prerequisites(prerequisites) or _authorize(updates, key, permissions) or self._prescan(updates)

    def _check_prerequisites(self, prerequisites: list[UpdateRecord]) -> int:
        """RFC 2136 3.2."""
        wanted: dict[tuple[bytes, int], set[bytes]] = {}
        for owner, kind, klass, ttl, rdata in prerequisites:
            if ttl != 0:
                return FORMERR
            if not in_zone(owner, self.origin):
                return NOTZONE
            if kind in UNSUPPORTED:
                return NOTIMP
            if kind not in KNOWN or (kind in META and (kind != TYPE_ANY or klass == CLASS_IN)):
                return FORMERR
            if klass == CLASS_IN:
                if rdata is None or not _whole(kind, rdata):
                    return FORMERR
                wanted.setdefault((owner, kind), set()).add(lower(kind, rdata))
                continue
            if klass not in (CLASS_ANY, CLASS_NONE) or rdata != b"":
                return FORMERR
            its = self._at(owner)
            exists = bool(its) if kind == TYPE_ANY else any(other == kind for other, _ in its)
            if exists != (klass == CLASS_ANY):
                return (YXDOMAIN if exists else NXDOMAIN) if kind == TYPE_ANY else (YXRRSET if exists else NXRRSET)
        if all(want == {rdata for other, rdata in self._at(owner) if other == kind} for (owner, kind), want in wanted.items()):
            return NOERROR
        return NXRRSET

    def _prescan(self, updates: list[UpdateRecord]) -> int:
        """RFC 2136 3.4.1."""
        for owner, kind, klass, ttl, rdata in updates:
            if not in_zone(owner, self.origin):
                return NOTZONE
            if kind not in KNOWN:
                return FORMERR
            if klass == CLASS_IN:
                # Serial 0 is avoided (RFC 2136 4.2, 7.11).
                malformed = kind in META or (kind == TYPE_SOA and (owner != self.origin or not rdata or serial_of(rdata) == 0))
            elif klass == CLASS_ANY:
                malformed = ttl != 0 or rdata != b"" or (kind in META and kind != TYPE_ANY)
            else:
                malformed = klass != CLASS_NONE or ttl != 0 or kind in META
            if malformed:
                return FORMERR
            if kind in UNSUPPORTED:
                return NOTIMP
            if rdata is None or (klass == CLASS_IN and not _whole(kind, rdata)):
                return FORMERR
        return NOERROR

    # ---- updates, one after the other (RFC 2136 3.4.2) ----

    def apply(self, updates: list[UpdateRecord]) -> None:
        """Apply what `refusal` has accepted."""
        for owner, kind, klass, ttl, rdata in updates:
            if klass == CLASS_IN:
                self._add(owner, kind, ttl, rdata or b"")
            elif klass == CLASS_ANY:
                self._delete_sets(owner, kind)
            else:
                self._delete(owner, kind, rdata or b"")

    def _add(self, owner: bytes, kind: int, ttl: int, rdata: bytes) -> None:
        its = self._at(owner)
        key = kind, lower(kind, rdata)
        if kind == TYPE_SOA:
            self._replace_soa(its, key, ttl, rdata)
            return
        if any(other != TYPE_CNAME for other, _ in its) if kind == TYPE_CNAME else any(other == TYPE_CNAME for other, _ in its):
            return
        present = its.get(key)
        if present is not None and present[0] == ttl:
            return
        if kind in SINGLE:
            self._remove(its, [other for other in its if other[0] == kind])
        # A record that differs in its TTL alone stays as it is written.
        its[key] = ttl, rdata if present is None else present[1]
        self.changed = True

    def _replace_soa(self, its: Records, key: Key, ttl: int, rdata: bytes) -> None:
        current = next(other for other in its if other[0] == TYPE_SOA)
        if serial_after(serial_of(rdata), serial_of(current[1])):
            del its[current]
            its[key] = ttl, rdata
            self.changed = self._explicit = True

    def _delete_sets(self, owner: bytes, kind: int) -> None:
        its = self._at(owner)
        kept = (TYPE_SOA, TYPE_NS) if owner == self.origin else ()
        self._remove(its, [key for key in its if key[0] not in kept and kind in (TYPE_ANY, key[0])])

    def _delete(self, owner: bytes, kind: int, rdata: bytes) -> None:
        its = self._at(owner)
        if owner == self.origin and (kind == TYPE_SOA or (kind == TYPE_NS and sum(other == TYPE_NS for other, _ in its) <= 1)):
            return
        key = kind, lower(kind, rdata) if rdata else b""
        self._remove(its, [key] if key in its else [])

    def _remove(self, its: Records, keys: list[Key]) -> None:
        for key in keys:
            del its[key]
            self.changed = True

    def _at(self, owner: bytes) -> Records:
        """The records of a name as they are now."""
        found = self._now.get(owner)
        if found is None:
            before = {(kind, lower(kind, rdata)): (ttl, rdata) for kind, ttl, rdata in self._zone.index.get(owner)}
            self._before[owner] = before
            found = self._now[owner] = dict(before)
        return found

    # ---- the result ----

    def finish(self) -> None:
        """Give the new version its serial."""
        if self._explicit:
            return
        its = self._at(self.origin)
        key = next(other for other in its if other[0] == TYPE_SOA)
        ttl, rdata = its.pop(key)
        # Never 0 (RFC 2136 7.11).
        serial = (serial_of(rdata) + 1) & 0xFFFFFFFF or 1
        rdata = rdata[:-20] + serial.to_bytes(4, "big") + rdata[-16:]
        its[TYPE_SOA, lower(TYPE_SOA, rdata)] = ttl, rdata

    def difference(self) -> tuple[list[Row], list[Row]]:
        """What the version that serves has and the new one has not, and the other way round; SOAs are among them."""
        return _missing(self._before, self._now), _missing(self._now, self._before)

    def change(self, deleted: list[Row], added: list[Row]) -> ZoneChange:
        """The new version, finished. Raises ValueError and MemoryError."""
        change = ZoneChange(self._zone, self._zone.serial or 0)
        for row in deleted:
            if row[1] != TYPE_SOA:
                change.delete(*row)
        for row in added:
            change.add(*row)
        change.finish()
        return change


def growth(deleted: list[Row], added: list[Row]) -> tuple[int, int]:
    """Records and octets that the zone has more, or less."""
    octets = sum(record_size(owner, rdata) for owner, _, _, rdata in added) - sum(record_size(owner, rdata) for owner, _, _, rdata in deleted)
    return len(added) - len(deleted), octets


def _whole(kind: int, rdata: bytes) -> bool:
    """Whether rdata that may be empty, as it is in deletions, is that of a record."""
    return bool(rdata) or valid(kind, rdata)


def _authorize(updates: list[UpdateRecord], key: bytes, permissions: Permissions) -> int:
    return NOERROR if all(permissions.allow(key, owner, kind) for owner, kind, *_ in updates) else REFUSED


def _missing(some: dict[bytes, Records], other: dict[bytes, Records]) -> list[Row]:
    return [(owner, key[0], *one) for owner, its in some.items() for key, one in its.items() if other[owner].get(key) != one]
