"""Fuzz target: messages of a transfer, each behind its length, into a zone; what was received is sent once more and received as the same."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fastdns._wire import name_wire
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.secondary._receive import Receiver, signature_place
from tests.fuzz.test_transfer import NS, A, message, soa

APEX = name_wire("example.org.")
SOA = 6
IXFR = 1  # bit of the first octet: the transfer is of the differences to a zone of serial 1

Records = list[tuple[bytes, int, int, bytes]]


def pieces(octets: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(octets):
        (size,) = struct.unpack_from(">H", octets, at)
        yield octets[at + 2 : at + 2 + size]
        at += 2 + size


def received(zone: Zone, messages: Iterator[bytes], serial: int | None) -> Records | None:
    """What a zone has after a transfer; None: it was refused, or there was nothing new."""
    receiver = Receiver(zone, serial, records=4000, octets=200000)
    try:
        for each in messages:
            signature_place(each)
            if receiver.feed(each, int.from_bytes(each[:2], "big")):
                break
        if receiver.current:
            return None
        version = receiver.finish()
    except ValueError:
        return None
    if isinstance(version, ZoneDraft):
        zone.publish(version)
    else:
        version.publish()
    return sorted(zone.index.snapshot())


def whole(records: Records) -> Iterator[bytes]:
    """Records as an AXFR sends them, one of them in a message."""
    last = [record for record in records if record[1] == SOA and record[0] == APEX][:1]
    for owner, kind, ttl, rdata in last + [record for record in records if record not in last] + last:
        yield struct.pack(">HHHHHH", 7, 0x8400, 0, 1, 0, 0) + owner + struct.pack(">HHIH", kind, 1, ttl, len(rdata)) + rdata


def replay(octets: bytes) -> tuple[bool, Records | None]:
    """Receive what an input has: whether the zone is as before, and what it has after a transfer that was not refused."""
    zone = Zone("example.org.")
    serial = None
    if octets[:1] and octets[0] & IXFR:
        serial = 1
        received(zone, iter([message(252, soa(1), NS, A, soa(1))]), None)
    before = sorted(zone.index.snapshot())
    records = received(zone, pieces(octets[1:]), serial)
    return sorted(zone.index.snapshot()) == before, records


def check(octets: bytes) -> str:
    same, records = replay(octets)
    if records is None:
        return "" if same else "a transfer that was refused has changed the zone"
    again = received(Zone("example.org."), whole(records), None)
    return "" if again == records else "a zone that was received cannot be received again"
