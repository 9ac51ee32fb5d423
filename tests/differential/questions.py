"""Queries for a zone: its names and those around them, with every type that matters there."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

import dns.name
import dns.rdatatype

from tests.differential.zones import ALPHABET, APEX, Labels, Zone

COMMON = ("A", "NS", "CNAME", "DS", "TXT", "SOA", "DNAME", "MX", "AAAA", "ANY", "SRV", "TYPE65401")
SIGNED = ("NSEC", "RRSIG", "DNSKEY", "NSEC3PARAM")

RD = 0x0100
AD = 0x0020
CD = 0x0010


class Question(NamedTuple):
    name: Labels
    type: str
    do: bool = False
    flags: int = 0
    #: UDP size, None without an OPT record.
    size: int | None = 4096

    def wire(self, origin: str) -> bytes:
        """The message, with id 0."""
        owner = dns.name.from_text(".".join((*self.name, origin))).to_wire() or b""
        head = struct.pack("!6H", 0, self.flags, 1, 0, 0, self.size is not None) + owner + struct.pack("!2H", dns.rdatatype.from_text(self.type), 1)
        return head if self.size is None else head + struct.pack("!B2HIH", 0, 41, self.size, self.do << 15, 0)

    def room(self) -> int:
        """Octets of the largest datagram that may come."""
        return max(self.size or 0, 512)

    def text(self) -> str:
        bits = "".join(f" {name}" for name, bit in (("RD", RD), ("AD", AD), ("CD", CD)) if self.flags & bit)
        return f"{'.'.join(self.name) or '@'} {self.type}{' DO' if self.do else ''}{bits} size {self.size or 'none'}"


def names(zone: Zone) -> list[Labels]:
    """All names of the zone and targets in it; each with one label more, and what is beside it."""
    found = zone.names() | {target for record in zone.records if (target := record.target()) is not None}
    more = {(label, *name) for name in found for label in (*ALPHABET[:2], "*")} | {("x", "y", *name) for name in found}
    return sorted(name for name in found | more if len(name) < 8)


def questions(source: random.Random, zone: Zone, count: int) -> list[Question]:
    """At most ``count`` different ones."""
    known = zone.names()
    types = sorted({record.type for record in zone.records})
    found = {}
    around = names(zone)
    for _ in range(count):
        name = source.choice(around) if source.random() < 0.6 else source.choice(sorted(known | {APEX}))
        kind = source.choice(types) if source.random() < 0.5 else source.choice((*COMMON, *SIGNED) if zone.signing else COMMON)
        do = source.random() < (0.8 if zone.signing else 0.15)
        size = 4096 if do or source.random() < 0.7 else source.choice((None, 512, 1232))
        found[name, kind, do] = Question(name, kind, do, source.choice((0, RD, CD, RD | CD)), size)
    return list(found.values())
