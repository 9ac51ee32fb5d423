"""Small random zones: few labels, everything that look-ups meet, and contradictions on demand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

#: Relative to the origin, leftmost label first; () is the apex.
Labels = tuple[str, ...]

APEX: Labels = ()
ALPHABET = ("a", "b", "c", "d")

#: Types that may stand beside a CNAME record (RFC 4034 2.5, 3).
BESIDE_CNAME = {"CNAME", "RRSIG", "NSEC"}


#: How a zone denies what it has not, and the arguments of ldns-signzone for that.
SIGNINGS = {"nsec": (), "nsec3": ("-n", "-t", "1", "-s", "ab"), "optout": ("-n", "-p")}


class Record(NamedTuple):
    owner: Labels
    type: str
    ttl: int
    #: Names in it are relative to the origin unless they end in a dot.
    rdata: str

    def target(self) -> Labels | None:
        """The name in the rdata, None if there is none or it is outside of the zone."""
        if self.type not in TARGETS:
            return None
        name = self.rdata.split()[-1]
        return None if name.endswith(".") else APEX if name == "@" else tuple(name.split("."))


#: Types whose rdata ends in a name.
TARGETS = {"NS", "CNAME", "DNAME", "MX", "SRV", "PTR"}


class Zone(NamedTuple):
    """A zone without its origin: the same one can be served under several."""

    records: tuple[Record, ...]
    #: One of SIGNINGS; empty: it is not signed.
    signing: str = ""

    def text(self, origin: str) -> str:
        """The master file."""
        lines = [f"{'.'.join(record.owner) or '@'} {record.ttl} IN {record.type} {record.rdata}" for record in self.records]
        return "\n".join([f"$ORIGIN {origin}.", *lines, ""])

    def types(self, owner: Labels) -> set[str]:
        return {record.type for record in self.records if record.owner == owner}

    def owners(self) -> set[Labels]:
        return {record.owner for record in self.records}

    def names(self) -> set[Labels]:
        """Owners and the empty non-terminals above them."""
        return {owner[i:] for owner in self.owners() for i in range(len(owner) + 1)}


# ---- contradictions ----


def contradictions(zone: Zone) -> set[str]:
    """What other servers refuse, or answer as they like."""
    found = set()
    for owner in zone.owners():
        types = zone.types(owner)
        count = {kind: sum(record.owner == owner and record.type == kind for record in zone.records) for kind in ("CNAME", "DNAME")}
        if "CNAME" in types and types - BESIDE_CNAME:
            found.add("CNAME and other data")
        if count["CNAME"] > 1:
            found.add("two CNAMEs")
        if count["DNAME"] > 1:
            found.add("two DNAMEs")
        if "DNAME" in types:
            found |= {"data below a DNAME"} if any(below(other, owner) for other in zone.owners()) else set()
            found |= {"DNAME at a delegation"} if owner and "NS" in types else set()
        if owner[:1] == ("*",) and types & {"NS", "DNAME"}:
            found.add("wildcard delegation or DNAME")
        if "DS" in types and "NS" not in types:
            found.add("DS without a delegation")
        for kind in types:
            if len({record.ttl for record in zone.records if record.owner == owner and record.type == kind}) > 1:
                found.add("TTLs of an RRset differ")
    for record in zone.records:
        target = record.target()
        if target is not None and record.type in ("NS", "MX", "SRV") and zone.types(target) & {"CNAME"}:
            found.add("a server's name is an alias")
    if not any(record.owner == APEX and record.type == "NS" for record in zone.records):
        found.add("no NS at the apex")
    return found


def below(name: Labels, ancestor: Labels) -> bool:
    return len(name) > len(ancestor) and name[len(name) - len(ancestor) :] == ancestor


# ---- generation ----


def make_zone(source: random.Random, broken: bool, signing: str = "") -> Zone:
    """A zone; unless it may be broken, records that contradict others are left out."""
    records = list(apex(source))
    for _ in range(source.choice((3, 5, 7, 9, 12))):
        records += some_records(source, records)
    zone = Zone(distinct(records), signing)
    return zone if broken else repaired(zone)


def apex(source: random.Random) -> Iterable[Record]:
    ttl, minimum = source.choice(((300, 300), (3600, 60), (60, 3600)))
    yield Record(APEX, "SOA", ttl, f"ns admin 1 3600 600 86400 {minimum}")
    servers = source.choice((["ns"], ["ns", "ns.elsewhere.invalid."], ["ns.elsewhere.invalid."], ["a.b", "ns"]))
    ttl = source.choice((300, 7200))
    for server in servers:
        yield Record(APEX, "NS", ttl, server)
    if "ns" in servers:
        yield Record(("ns",), "A", 300, "192.0.2.53")


def some_records(source: random.Random, records: list[Record]) -> Iterable[Record]:
    """One RRset, and what a delegation needs beside it."""
    owner = an_owner(source, records)
    ttl = source.choice((30, 300, 3600))
    kind = source.choices(*zip(*WEIGHTS, strict=True))[0]
    if kind == "NS" and owner:
        servers = source.sample(
            [".".join(("ns", *owner)), ".".join(owner), "ns", ".".join(("x", *an_owner(source, records))), "ns.elsewhere.invalid."], source.choice((1, 1, 2))
        )
        for server in servers:
            yield Record(owner, "NS", ttl, server)
            if not server.endswith(".") and source.random() < 0.6:
                yield Record(tuple(server.split(".")), source.choice(("A", "AAAA")), 300, "")
        if source.random() < 0.4:
            yield Record(owner, "DS", ttl, "12345 13 2 " + "00" * 31 + "FF")
        if source.random() < 0.4:
            yield Record((source.choice(ALPHABET), *owner), source.choice(("TXT", "A")), 300, "")
        return
    for _ in range(source.choice((1, 1, 1, 2))):
        yield Record(owner, kind, ttl, "")
        if source.random() < 0.03:
            ttl += 1


#: Types and how often they occur. NS stands for a delegation.
WEIGHTS = [
    ("A", 8),
    ("AAAA", 3),
    ("TXT", 4),
    ("CNAME", 7),
    ("DNAME", 3),
    ("NS", 5),
    ("MX", 2),
    ("SRV", 2),
    ("PTR", 1),
    ("HTTPS", 1),
    ("CAA", 1),
    ("TYPE65400", 1),
]


def an_owner(source: random.Random, records: list[Record]) -> Labels:
    """A name, often one of the zone or below it."""
    chance = source.random()
    if chance < 0.06:
        return APEX
    if chance < 0.25:
        return source.choice(records).owner
    base = source.choice(records).owner if chance < 0.5 else APEX
    if chance > 0.8:
        return ("*", *base) if base[:1] != ("*",) else base
    return (*(source.choice(ALPHABET) for _ in range(source.choice((1, 1, 2)))), *base)[-4:]


def a_target(source: random.Random, records: list[Record]) -> str:
    chance = source.random()
    if chance < 0.08:
        return "www.elsewhere.invalid."
    name = an_owner(source, records) if chance < 0.4 else source.choice(records).owner
    if source.random() < 0.2:
        name = (source.choice(ALPHABET), *name)
    return ".".join(name) or "@"


def distinct(records: list[Record]) -> tuple[Record, ...]:
    """Each record once, with the rdata that is still missing."""
    source = random.Random(repr(records))
    found: dict[tuple[Labels, str, str], Record] = {}
    for record in records:
        rdata = record.rdata or fill(source, record.type, records)
        if record.type == "CNAME" and rdata == ".".join(record.owner):
            continue
        found.setdefault((record.owner, record.type, rdata), record._replace(rdata=rdata))
    return tuple(found.values())


def fill(source: random.Random, kind: str, records: list[Record]) -> str:
    number = source.randrange(1, 5)
    target = a_target(source, records)
    return {
        "A": f"192.0.2.{number}",
        "AAAA": f"2001:db8::{number}",
        "TXT": f'"{number}"',
        "MX": f"{number} {target}",
        "SRV": f"{number} 0 53 {target}",
        "HTTPS": f"1 {target} alpn=h2",
        "CAA": f'0 issue "ca{number}.invalid"',
        "TYPE65400": f"\\# 2 000{number}",
    }.get(kind, target)


def repaired(zone: Zone) -> Zone:
    """Without the records, from the last on, that contradict earlier ones."""
    kept: list[Record] = []
    for record in zone.records:
        if not contradictions(Zone((*kept, record))) - {"DS without a delegation", "no NS at the apex"}:
            kept.append(record)
    kept = [record for record in kept if record.type != "DS" or any(other.owner == record.owner and other.type == "NS" for other in kept)]
    return Zone(tuple(kept), zone.signing)
