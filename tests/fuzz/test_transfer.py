"""Mutated messages of AXFR and IXFR into a zone: a whole new version, or an error and the old one (R1)."""

from __future__ import annotations

import os
import random
import struct

import pytest

from fastdns._wire import name_wire
from fastdns.index.zone import Zone
from fastdns.plugins.secondary._receive import Receiver
from tests.fuzz.mutating import mutate

COUNT = int(os.environ.get("FASTDNS_TRANSFERS", "20000"))

APEX = name_wire("example.org.")
POINTER = b"\xc0\x0c"


def record(owner: bytes, kind: int, rdata: bytes, ttl: int = 60, klass: int = 1) -> bytes:
    return owner + struct.pack(">HHIH", kind, klass, ttl, len(rdata)) + rdata


def soa(serial: int) -> bytes:
    return record(POINTER, 6, b"\x02ns\xc0\x0c\x04host\xc0\x0c" + struct.pack(">IIIII", serial, 3600, 600, 86400, 60))


def message(kind: int, *records: bytes) -> bytes:
    return struct.pack(">HHHHHH", 7, 0x8400, 1, len(records), 0, 0) + APEX + struct.pack(">HH", kind, 1) + b"".join(records)


NS = record(POINTER, 2, b"\x02ns\xc0\x0c")
A = record(b"\x01a\xc0\x0c", 1, b"\xc0\x00\x02\x01")
B = record(b"\x01B\xc0\x0c", 15, b"\x00\x0a\x01A\xc0\x0c")
C = record(b"\x01c\xc0\x0c", 46, b"\x00\x01\x05\x03\x00\x00\x00\x3c" + b"\x00" * 8 + b"\x00\x01" + APEX + b"signature")
D = record(b"\x01d\xc0\x0c", 64, b"\x00\x01\x00\x00\x01\x00\x03\x02h2")
E = record(POINTER, 47, b"\x01a" + APEX + b"\x00\x07\x62\x00\x00\x00\x00\x03\x80") + record(b"\x01a\xc0\x0c", 47, APEX + b"\x00\x06\x40\x00\x00\x00\x00\x03")
F = record(POINTER, 51, b"\x01\x00\x00\x0a\x02\xab\xcd")
G = record(b"\x202t7b4g4vsa5smi47k61mv5bv1a22bojr\xc0\x0c", 50, b"\x01\x01\x00\x0a\x02\xab\xcd\x14" + b"\x5a" * 20 + b"\x00\x01\x40")
H = record(b"\x02in\x04deep\xc0\x0c", 39, b"\x01a\xc0\x0c") + record(b"\x01*\x01w\xc0\x0c", 5, b"\x01a\xc0\x0c")
H += record(b"\x03cut\xc0\x0c", 2, b"\x02ns\x03cut\xc0\x0c")

WHOLE = [
    [message(252, soa(2), NS, A), message(252, B, C, D), message(252, soa(2))],
    [message(252, soa(2), NS, A, B, soa(2))],
    [message(252, soa(2), NS, A, E, H, soa(2))],
    [message(252, soa(2), NS, A, F, G, H), message(252, soa(2))],
]
DIFFERENCES = [
    [message(251, soa(3), soa(1), A, soa(2), B, soa(2), B, soa(3), C, D, soa(3))],
    [message(251, soa(2), soa(1), A), message(251, soa(2), A, B), message(251, soa(2))],
    [message(251, soa(2), NS, A, soa(2))],
    [message(251, soa(3), soa(1), A, soa(2), E, F, soa(2), E, soa(3), G, H, soa(3))],
    [message(251, soa(1))],
]
WORDS = [POINTER, soa(1), soa(2), soa(3), NS, A, B, C, D, E, F, G, H, APEX, b"\xc0\xff", b"\xff\xff", b"\0\0", b"\x3f", b"\x40"]


@pytest.mark.timeout(3600)
def test_R1_mutated_transfers() -> None:
    chance = random.Random(11)
    zone = Zone("example.org.")
    first = Receiver(zone, records=100, octets=100000)
    assert first.feed(message(252, soa(1), NS, A, soa(1)), 7)
    zone.publish(first.finish())
    standing = list(zone.index.snapshot())
    complete = failed = 0
    for _ in range(COUNT):
        incremental = chance.random() < 0.5
        messages = chance.choice(DIFFERENCES if incremental else WHOLE)
        receiver = Receiver(zone, 1 if incremental else None, records=100, octets=100000)
        which = chance.randrange(len(messages))
        try:
            for at, each in enumerate(messages):
                if receiver.feed(mutate(each, WORDS, chance) if at == which else each, 7):
                    break
            if not receiver.current:
                receiver.finish()
            complete += 1
        except ValueError:
            failed += 1
    assert list(zone.index.snapshot()) == standing
    assert complete
    assert failed
