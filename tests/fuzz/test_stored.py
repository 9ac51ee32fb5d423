"""Mutated files of zones, with digests that fit: a zone, or an error."""

from __future__ import annotations

import os
import random
import struct

import pytest

from fastdns._wire import name_wire
from fastdns.index.change import ZoneChange
from fastdns.index.zone_dump import change_content
from tests.fuzz import stored
from tests.fuzz.mutating import mutate
from tests.index.test_zone_file import APEX, below, soa, some, zone

COUNT = int(os.environ.get("FASTDNS_STORED", "20000"))
WORDS = [b"\0", b"\xff\xff", b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\xc0\0", b"\1\1\0", APEX, below("a"), name_wire("com."), soa(3), b"\0\6", b"\0\x2e\0\6"]


def input_of(file: bytes) -> bytes:
    """What the target takes for a file."""
    out, at = file[16:20], 20
    while at < len(file):
        length, kind = struct.unpack_from(">IB", file, at)
        out += struct.pack(">BH", kind, length) + file[at + 13 : at + 13 + length]
        at += 13 + length
    return out


def seeds() -> list[bytes]:
    first = zone(7, some(3))
    whole = input_of(stored.written(first))
    change = ZoneChange(first, 7)
    change.delete(below("n1"), 1, 1, b"\x0a\0\0\1")
    change.add(below("new"), 1, 1, b"\x0a\0\0\2")
    change.add(APEX, 6, 60, soa(8))
    change.finish()
    content = change_content(change)
    return [whole, whole + struct.pack(">BH", 3, len(content)) + content, input_of(stored.written(zone(1, [])))]


def test_the_target_writes_the_digests_of_the_format() -> None:
    octets = stored.written(zone(7, some(3)))
    again = input_of(octets)
    assert stored.MAGIC + again[:4] + b"".join(stored.blocks(again[4:])) == octets
    assert [stored.read(stored.MAGIC + seed[:4] + b"".join(stored.blocks(seed[4:]))) is not None for seed in seeds()] == [True] * 3


@pytest.mark.timeout(3600)
def test_R1_mutated_files() -> None:
    chance = random.Random(13)
    known = seeds()
    read = 0
    for _ in range(COUNT):
        octets = mutate(chance.choice(known), WORDS, chance)
        assert stored.check(octets) == "", octets.hex()
        read += stored.read(stored.MAGIC + octets[:4] + b"".join(stored.blocks(octets[4:]))) is not None
    assert COUNT // 50 < read < COUNT


def test_blocks_that_are_left_out_or_doubled() -> None:
    """Without their digests any order is a file; with them none but the one that was written."""
    octets = stored.written(zone(7, some(40000)))
    places, at = [], 20
    while at < len(octets):
        places.append((at, at + 13 + struct.unpack_from(">I", octets, at)[0]))
        at = places[-1][1]
    assert len(places) > 4
    for start, end in places:
        assert stored.read(octets[:start] + octets[end:]) is None
    first, second = places[:2]
    assert stored.read(octets[: first[0]] + octets[slice(*second)] + octets[slice(*first)] + octets[second[1] :]) is None
    assert stored.read(octets[: first[1]] + octets[first[0] :]) is None
    assert isinstance(stored.read(octets), list)
