"""Random zones, plain or with chains of NSEC or NSEC3 records and signatures that look like signatures."""

from __future__ import annotations

import base64
import hashlib
import random
from collections import defaultdict

import dns.dnssec
import dns.name

ORIGIN = dns.name.from_text("example.org.")
SALT, ITERATIONS = "ab", 1

LABELS = ["a", "b", "c", "d", "*", "x1"]
HEAD = "@ 60 IN SOA ns host {serial} 3600 600 86400 60\n"

#: Owner, type, rdata as text.
Record = tuple[str, str, str]


def random_record(choice: random.Random) -> Record:
    name = "".join(choice.choice(LABELS) + "." for _ in range(choice.randint(1, 4))) + "example.org."
    kind = choice.choice(["A", "A", "A", "TXT", "MX", "NS", "DS", "CNAME", "DNAME"])
    number = choice.randint(0, 9)
    texts = {
        "A": f"192.0.2.{number}",
        "TXT": f'"text {number}"',
        "MX": f"{number} Mail.{choice.choice(LABELS)}.example.org.",
        "DS": f"{number} 13 2 {hashlib.sha256(bytes([number])).hexdigest()}",
    }
    return name, kind, texts.get(kind, f"{choice.choice(LABELS)}.{choice.choice(LABELS)}.example.org.")


def master_file(records: set[Record], serial: int, denial: str) -> str:
    """A version of the zone; denial is "", "NSEC" or "NSEC3"."""
    rows: set[Record] = {("example.org.", "NS", "ns.example.org."), ("ns.example.org.", "A", "192.0.2.53"), *records}
    rows = without_conflicts(rows)
    if denial:
        rows |= {("example.org.", "DNSKEY", "257 3 13 " + base64.b64encode(bytes(64)).decode())}
        rows |= chain(rows, denial)
        rows |= signatures(rows, serial)
    return HEAD.format(serial=serial) + "".join(f"{name} 60 IN {kind} {rdata}\n" for name, kind, rdata in sorted(rows))


def without_conflicts(rows: set[Record]) -> set[Record]:
    """One CNAME or DNAME at a name, and nothing beside a CNAME."""
    aliases = {(name, kind): min(other for other in rows if other[:2] == (name, kind)) for name, kind, _ in rows if kind in ("CNAME", "DNAME")}
    return {one for one in rows if (one[1] == "CNAME" or (one[0], "CNAME") not in aliases) and aliases.get(one[:2], one) == one}


def chain(rows: set[Record], denial: str) -> set[Record]:
    kinds: defaultdict[dns.name.Name, set[str]] = defaultdict(set)
    for name, kind, _ in rows:
        kinds[dns.name.from_text(name)].add(kind)
    kinds[ORIGIN] |= {"SOA", "RRSIG"}
    if denial == "NSEC":
        names = sorted(kinds)
        return {
            (str(name), "NSEC", f"{after} {' '.join(sorted({*kinds[name], 'NSEC', 'RRSIG'}))}")
            for name, after in zip(names, [*names[1:], names[0]], strict=True)
        }
    for name in list(kinds):
        while name != ORIGIN:
            name = name.parent()
            kinds[name] |= set()
    hashes = {dns.dnssec.nsec3_hash(name, SALT, ITERATIONS, "SHA1"): kinds[name] for name in kinds}
    order = sorted(hashes)
    return {("example.org.", "NSEC3PARAM", f"1 0 {ITERATIONS} {SALT}")} | {
        (f"{one}.example.org.", "NSEC3", f"1 0 {ITERATIONS} {SALT} {after} {' '.join(sorted(hashes[one]))}".rstrip())
        for one, after in zip(order, [*order[1:], order[0]], strict=True)
    }


def signatures(rows: set[Record], serial: int) -> set[Record]:
    """A signature for each set of records, which changes with it."""
    sets: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, kind, rdata in rows:
        sets[name, kind].append(rdata)
    sets["example.org.", "SOA"] = [str(serial)]

    def signature(texts: list[str]) -> str:
        return base64.b64encode(hashlib.sha256(repr(sorted(texts)).encode()).digest()).decode()

    return {(name, "RRSIG", f"{kind} 13 2 60 20400101000000 20200101000000 1 example.org. {signature(texts)}") for (name, kind), texts in sets.items()}
