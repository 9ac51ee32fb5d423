"""Names whose records contradict each other: counted in a whole zone and after differences, which must agree."""

from __future__ import annotations

import itertools
import random

import pytest

from fastdns._wire import name_wire
from fastdns.index.change import ZoneChange
from fastdns.index.conflicts import CNAME_DATA, DNAMES, OCCLUDED, conflicts_of
from fastdns.index.zone import Zone

A, NS, CNAME, SOA, TXT, DNAME, RRSIG, NSEC = 1, 2, 5, 6, 16, 39, 46, 47

APEX = name_wire("example.org.")

#: Owner, type, TTL, rdata.
Row = tuple[bytes, int, int, bytes]

NAMES = ["example.org.", *(f"{name}.example.org." for name in ("a", "b.a", "c.b.a", "*.a", "d", "e.d", "f.e.d", "x.y.z.d", "z.d"))]


def soa(serial: int) -> bytes:
    return name_wire("ns.example.org.") + name_wire("admin.example.org.") + serial.to_bytes(4, "big") + bytes(16)


def row(name: str, kind: int, value: int) -> Row:
    rdata = {A: bytes([192, 0, 2, value]), TXT: bytes([1, 48 + value])}.get(kind, name_wire(f"t{value}.example.net."))
    return name_wire(name), kind, 300, rdata


def whole(rows: set[Row], serial: int = 1) -> Zone:
    zone = Zone("example.org.")
    made = zone.draft()
    made.add(APEX, SOA, 300, soa(serial))
    for one in rows:
        made.add(*one)
    made.finish()
    count = made.conflicts
    zone.publish(made)
    assert zone.conflicts == count
    return zone


def reference(rows: set[Row]) -> int:
    """Names with conflicts, counted from the rules."""
    kinds: dict[bytes, list[int]] = {APEX: [SOA]}
    for name, kind, _, _ in rows:
        kinds.setdefault(name, []).append(kind)
    dnames = {name for name, some in kinds.items() if DNAME in some and not (NS in some and name != APEX)}
    count = 0
    for name, some in kinds.items():
        own = (CNAME in some and len(some) > 1) or some.count(DNAME) > 1 or (DNAME in some and NS in some and name != APEX)
        above = name
        while above and above != APEX and not own:
            above = above[above[0] + 1 :]
            own = above in dnames
        count += own
    return count


@pytest.mark.parametrize("seed", range(12))
def test_differences_count_as_the_whole_zone(seed: int) -> None:
    choice = random.Random(seed)
    rows: set[Row] = set()
    zone = whole(rows)
    for serial in range(2, 60):
        for _ in range(choice.choice([1, 1, 2, 6])):
            rows ^= {row(choice.choice(NAMES), choice.choice([A, A, TXT, NS, CNAME, DNAME, DNAME]), choice.randint(0, 2))}
        other = whole(rows, serial)
        assert other.conflicts == reference(rows) == len(conflicts_of(other, 1000)), sorted(rows)
        served = {one for one in zone.index.snapshot() if one[1] != SOA}
        made = ZoneChange(zone, serial - 1)
        for one in served - rows:
            made.delete(*one)
        for one in rows - served:
            made.add(*one)
        made.add(APEX, SOA, 300, soa(serial))
        made.finish()
        made.publish()
        assert zone.conflicts == other.conflicts, sorted(rows)
        assert conflicts_of(zone, 1000) == conflicts_of(other, 1000)
        for name, kind in itertools.product(NAMES, (CNAME, DNAME, A)):
            found, wanted = zone.index.find(name, kind), other.index.find(name, kind)
            assert (found.outcome, found.owner) == (wanted.outcome, wanted.owner)
            if found.outcome in ("cname", "dname") or (kind in (CNAME, DNAME) and found.outcome == "hit"):
                assert found.records == wanted.records
                assert len(found.records) == 1


def test_names_are_in_canonical_order_and_limited() -> None:
    rows = {row("b.example.org.", DNAME, 1), row("b.example.org.", DNAME, 2), row("x.b.example.org.", TXT, 1), row("a.z.example.org.", CNAME, 1)}
    zone = whole(rows | {row("a.z.example.org.", A, 1)})
    wanted = [("b.example.org.", DNAMES), ("x.b.example.org.", OCCLUDED), ("a.z.example.org.", CNAME_DATA)]
    assert conflicts_of(zone, 10) == wanted
    assert conflicts_of(zone, 2) == wanted[:2]
    assert conflicts_of(whole(set()), 10) == []


def test_what_costs_nothing_where_there_is_no_dname() -> None:
    """A change of a record beside 20,000 others looks at few of them; the same where DNAMEs are there and none comes or goes."""
    for more in (set(), {row("b.example.org.", DNAME, 1)}):
        zone = whole({row(f"n{number}.example.org.", A, 1) for number in range(20_000)} | more)
        before = zone.index.statistics["work"]
        made = ZoneChange(zone, 1)
        made.add(*row("x.b.example.org.", TXT, 1))
        made.add(APEX, SOA, 300, soa(2))
        made.finish()
        made.publish()
        assert zone.conflicts == len(more)
        assert zone.index.statistics["work"] - before < 1000
