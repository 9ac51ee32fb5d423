"""The records that a dynamic zone begins with: from a master file or a database, and the rules that hold for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastdns._wire import name_text
from fastdns.corefile.errors import quoted, system_error
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.dynupdate.policy import UNSUPPORTED
from fastdns.protocol.parameters import TYPE_CNAME, TYPE_SOA, type_text
from fastdns.zonefile import parser

__all__ = ["ContentError", "Limits", "Row", "draft_of", "in_zone", "read_seed", "record_size", "serial_of", "validate"]

#: Owner, type, TTL, rdata; names in lower-case wire form.
Row = tuple[bytes, int, int, bytes]

CLASS_IN = 1


class ContentError(ValueError):
    """Records that form no dynamic zone, with CoreDNS's text."""


class Limits(NamedTuple):
    """Of a directive."""

    #: Of the zone: records, and octets of their uncompressed form.
    records: int = 10_000
    octets: int = 8 << 20
    #: In the prerequisite and update sections of a message.
    update_records: int = 1024

    def check(self, records: int, octets: int) -> None:
        """Raises ContentError where a zone exceeds them."""
        if records > self.records:
            raise ContentError(f"zone exceeds max_records ({self.records})")
        if octets > self.octets:
            raise ContentError(f"zone exceeds max_bytes ({self.octets})")


def record_size(owner: bytes, rdata: bytes) -> int:
    """Octets of a record in a message without compression."""
    return len(owner) + 10 + len(rdata)


def in_zone(name: bytes, origin: bytes) -> bool:
    """Whether a name is the origin or below it; both in lower-case wire form."""
    while len(name) > len(origin):
        name = name[1 + name[0] :]
    return name == origin


def serial_of(soa: bytes) -> int:
    """The serial of an SOA record's rdata."""
    return int.from_bytes(soa[-20:-16], "big")


def read_seed(path: str, zone: str, origin: bytes, limits: Limits) -> list[Row]:
    """The records of a master file. Raises ContentError."""
    try:
        records = parser.read(path, zone)
    except parser.ZoneFileError as error:
        raise ContentError(f"parsing zone file {quoted(path)}: {error}") from error
    except OSError as error:
        raise ContentError(f"opening zone file {quoted(path)}: {system_error(error, 'open', path)}") from error
    if len(records) > limits.records or sum(record_size(owner, rdata) for owner, _, _, _, rdata in records) > limits.octets:
        raise ContentError(f"zone file {quoted(path)} exceeds configured limits")
    found = sum(kind == TYPE_SOA for _, kind, *_ in records)
    if found != 1:
        raise ContentError(f"zone {quoted(zone)} contains more than one SOA" if found else f"zone {quoted(zone)} has no SOA")
    try:
        if any(klass != CLASS_IN for _, _, klass, _, _ in records):
            raise ContentError("zone contains a non-IN record")
        rows = [(owner.lower(), kind, ttl, rdata) for owner, kind, _, ttl, rdata in records]
        validate(rows, origin)
    except ContentError as error:
        raise ContentError(f"invalid zone {quoted(zone)}: {error}") from error
    return rows


def validate(rows: Iterable[Row], origin: bytes) -> None:
    """Raises ContentError for records that a dynamic zone cannot have."""
    types: dict[bytes, set[int]] = {}
    found = 0
    for owner, kind, _, rdata in rows:
        if not in_zone(owner, origin):
            raise ContentError("zone contains an out-of-zone record")
        if kind in UNSUPPORTED:
            raise ContentError(f"zone contains unsupported RR type {type_text(kind)}")
        its = types.setdefault(owner, set())
        if its if kind == TYPE_CNAME else TYPE_CNAME in its:
            raise ContentError(f"zone contains CNAME data conflict at {name_text(owner)}")
        its.add(kind)
        if kind == TYPE_SOA:
            if owner != origin:
                raise ContentError("zone contains a non-apex SOA record")
            if serial_of(rdata) == 0:
                raise ContentError("zone contains an SOA with serial zero")
            found += 1
    if found != 1:
        raise ContentError("zone contains more than one SOA record" if found else "zone has no SOA")


def draft_of(zone: Zone, rows: Iterable[Row]) -> ZoneDraft:
    """A version of a zone with these records, finished. Raises ValueError and MemoryError."""
    draft = zone.draft()
    for owner, kind, ttl, rdata in rows:
        draft.add(owner, kind, ttl, rdata)
    draft.finish()
    return draft
