"""Random records in transfers of every form, through the fuzz target: a zone that was received can be sent and received again (R1)."""

from __future__ import annotations

import itertools
import os
import random
import struct

import pytest

from tests.fuzz import transfers
from tests.fuzz.test_transfer import APEX, NS, POINTER, A, message, record

COUNT = int(os.environ.get("FASTDNS_TRANSFERS", "20000")) // 4

HASHED = b"\x202t7b4g4vsa5smi47k61mv5bv1a22bojr"
OWNERS = [POINTER] * 3 + [b"\x01a\xc0\x0c", b"\x01A\xc0\x0c", b"\x01*\xc0\x0c", b"\x01b\x01a\xc0\x0c", b"\x01*\x01a\xc0\x0c", b"\x01c\x01b\x01a\xc0\x0c"]
OWNERS += [HASHED + POINTER, HASHED[:-1] + b"s" + POINTER, b"\x03org\x00", b"\x00", b"\x01x\x03ORG\x00"]
NAMES = [POINTER, b"\x01a\xc0\x0c", b"\x01A\xc0\x0c", b"\x01b\xc0\x0c", b"\x00", b"\x01Z\x03oRg\x00"]
TTLS = [0, 1, 60, 60, 60, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
CLASSES = [1] * 12 + [3, 255, 0]
KINDS = [1, 2, 5, 39, 6, 12, 15, 16, 17, 33, 43, 46, 46, 47, 48, 50, 51, 51, 64, 65280, 255, 250, 41, 0]


def rdata(kind: int, chance: random.Random) -> bytes:
    name = chance.choice(NAMES)
    some = chance.choice
    match kind:
        case 1:
            return bytes([192, 0, 2, chance.randrange(3)])
        case 2 | 5 | 12 | 39:
            return name
        case 6:
            return name + some(NAMES) + struct.pack(">IIIII", some([0, 1, 2, 3, 0x80000001, 0xFFFFFFFF]), 1, 2, 3, some([0, 60]))
        case 15 | 33:
            return bytes(2 if kind == 15 else 6) + name
        case 17:
            return name + some(NAMES)
        case 43 | 48:
            return b"\1\1\3\2" + bytes(32)
        case 46:
            return struct.pack(">HBBIIIH", some([1, 2, 6, 50]), 5, 3, 60, 0, 0, 1) + some([APEX, b"\x01A" + APEX, b"\x00"]) + b"sig"
        case 47:
            return some([APEX, b"\x01a" + APEX, b"\x01B" + APEX]) + some([b"\x00\x01\x40", b"\x00\x06\x40\x00\x00\x00\x00\x03"])
        case 50:
            return struct.pack(">BBH", 1, some([0, 1]), some([0, 1, 501])) + some([b"\0", b"\x02\xab\xcd"]) + b"\x14" + b"\x5a" * 20 + b"\0\1\x40"
        case 51:
            return struct.pack(">BBH", some([1, 1, 2]), some([0, 0, 1]), some([0, 1, 500, 501])) + some([b"\0", b"\x02\xab\xcd"])
        case 64:
            return b"\0\1\0\0\1\0\3\2h2"
        case _:
            return b"\x01" + bytes([97 + chance.randrange(3)])


def records(most: int, chance: random.Random) -> list[bytes]:
    """Up to so many, some of them equal."""
    made = [
        record(chance.choice(OWNERS), kind, rdata(kind, chance), chance.choice(TTLS), chance.choice(CLASSES))
        for kind in chance.choices(KINDS, k=chance.randrange(most))
    ]
    return chance.choices([*made, NS, A], k=len(made))


def soa(serial: int, chance: random.Random) -> bytes:
    names = chance.choice([b"\x02ns\xc0\x0c\x04host\xc0\x0c", b"\x02NS\xc0\x0c\x04host\xc0\x0c"])
    return record(POINTER, 6, names + struct.pack(">IIIII", serial, 3600, 600, 86400, 60), chance.choice(TTLS))


def transfer(chance: random.Random) -> tuple[int, list[bytes]]:
    """Its type, and its records in order."""
    if chance.random() < 0.5:
        whole = soa(2, chance)
        return chance.choice([251, 252]), [whole, *records(8, chance), whole]
    serials = chance.choice([(1, 2), (1, 2, 3), (1, 0x7FFFFFFF)])
    last = soa(serials[-1], chance)
    sent = [last]
    for before, after in itertools.pairwise(serials):
        sent += [soa(before, chance), *chance.choice([[], [A], [NS], [A, NS], records(3, chance)]), soa(after, chance), *records(6, chance)]
    return 251, [*sent, last]


@pytest.mark.timeout(3600)
def test_R1_what_was_received_is_received_again() -> None:
    chance = random.Random(5)
    taken = 0
    for _ in range(COUNT):
        kind, sent = transfer(chance)
        octets = bytes([transfers.IXFR if kind == 251 else 0])
        while sent:
            one = message(kind, *sent[: chance.choice([1, 2, 3, 100])])
            sent = sent[int.from_bytes(one[6:8], "big") :]
            octets += struct.pack(">H", len(one)) + one
        assert transfers.check(octets) == "", octets.hex()
        taken += transfers.replay(octets)[1] is not None
    assert taken > COUNT // 8
