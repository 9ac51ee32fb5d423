"""Fuzz target: the blocks of a zone's file, with digests that fit; a zone that is read is written and read as the same."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from fastdns.index.zone import Zone
from fastdns.index.zone_dump import ZoneDump
from fastdns.index.zone_load import ZoneFile

MAGIC = b"fastdns zone 1\n\0"
MASK = (1 << 64) - 1

Records = list[tuple[bytes, int, int, bytes]]


def mix(a: int, b: int) -> int:
    return a * b & MASK ^ a * b >> 64


def hashed(octets: bytes, seed: tuple[int, int]) -> int:
    """`hash_octets` of ``system/hash.pxd``."""
    state, left = seed[0] ^ len(octets), octets
    if len(left) > 8:
        while len(left) > 8:
            state, left = mix(state ^ int.from_bytes(left[:8], "little"), seed[1]), left[8:]
        last = int.from_bytes(octets[-8:], "little")
    elif len(left) >= 4:
        last = int.from_bytes(left[:4], "little") << 32 | int.from_bytes(left[-4:], "little")
    elif left:
        last = left[0] << 16 | left[len(left) >> 1] << 8 | left[-1]
    else:
        last = 0
    return mix(mix(state ^ last, seed[1] ^ 0x9E3779B97F4A7C15) ^ seed[0], 0xD6E8FEB86659FD93)


def blocks(octets: bytes) -> Iterator[bytes]:
    """Each is kind, length (2) and content."""
    at = number = 0
    while at + 3 <= len(octets):
        kind, length = struct.unpack_from(">BH", octets, at)
        content = octets[at + 3 : at + 3 + length]
        digest = hashed(content, (0x9E3779B97F4A7C15 ^ (number << 8 | kind), 0xC2B2AE3D27D4EB4F))
        yield struct.pack(">IBQ", len(content), kind, digest) + content
        at, number = at + 3 + length, number + 1


def read(file: bytes) -> Records | None:
    """What a zone has that is read from a file; None: there is none."""
    zone = Zone("example.org.")
    descriptor = os.memfd_create("zone")
    try:
        os.write(descriptor, file)
        stored = ZoneFile(zone, descriptor, len(file))
        zone.publish(stored.read())
        change = stored.read_changes(zone.serial or 0)
        if change is not None:
            change.publish()
    except ValueError:
        pass
    finally:
        os.close(descriptor)
    return list(zone.index.snapshot()) if zone.serial is not None else None


def written(zone: Zone) -> bytes:
    descriptor = os.memfd_create("zone")
    try:
        size = ZoneDump(zone).write(descriptor)
        return os.pread(descriptor, size, 0)
    finally:
        os.close(descriptor)


def check(octets: bytes) -> str:
    records = read(MAGIC + octets[:4] + b"".join(blocks(octets[4:])))
    if records is None:
        return ""
    zone = Zone("example.org.")
    draft = zone.draft()
    for record in records:
        draft.add(*record)
    draft.finish()
    zone.publish(draft)
    return "" if read(written(zone)) == list(zone.index.snapshot()) else "a zone that was written is read as another one"
