"""A small run of the comparison with other servers; make differential does larger ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.differential import resolvers
from tests.differential.__main__ import explain
from tests.differential.known import KNOWN, explanation, rows
from tests.differential.questions import Question, questions
from tests.differential.replies import Section
from tests.differential.run import Class, Example, Found, compare_zones, run
from tests.differential.servers import needed
from tests.differential.shrink import shrink
from tests.differential.situations import situation
from tests.differential.zones import APEX, Record, Zone, contradictions, make_zone
from tests.programs import need

DIFFERENCES = Path(__file__).parent.parent.parent / "docs" / "differences.md"

HEAD = (Record(APEX, "SOA", 300, "ns admin 1 3600 600 86400 60"), Record(APEX, "NS", 300, "ns.elsewhere.invalid."))


def test_every_difference_has_a_reason() -> None:
    needed()
    *_, found = run(seed=1, count=30, per_zone=60)
    assert found.zones >= 25
    assert found.questions > 1000
    assert not explain(found)


def test_as_unbound() -> None:
    need("unbound", "knotd", "ldns-signzone")
    *_, found = resolvers.run(seed=1, count=6, per_zone=50)
    assert set(found.kinds) >= {"positive", "NODATA", "NXDOMAIN"}
    assert found.changed < found.questions / 50
    assert not [f"{one}\n{found.examples[one]}" for one in found.unexplained()]


def test_a_difference_is_shrunk_to_what_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its reasons, type ANY is one that every server shows."""
    needed()
    monkeypatch.setattr("tests.differential.known.KNOWN", [known for known in KNOWN if not known.row.startswith("type ANY")])
    more = tuple(Record((label,), "TXT", 300, '"1"') for label in "abc")
    found = Found()
    compare_zones([(Zone((*HEAD, *more, Record(("x",), "A", 300, "192.0.2.1"))), [Question(("x",), "ANY")], found)])
    one = next(one for one in found.unexplained() if one.part == "answer")
    assert {"knot", "nsd"} <= set(one.unexplained())
    assert shrink(one, found.examples[one]).zone.records == (*HEAD, Record(("x",), "A", 300, "192.0.2.1"))


@pytest.mark.parametrize("row", sorted(rows() | {row for *_, row in resolvers.KNOWN}))
def test_reasons_are_in_the_documentation(row: str) -> None:
    assert f"\n| {row}" in DIFFERENCES.read_text()


def test_what_is_not_known_has_no_explanation() -> None:
    assert explanation("knot", "rcode", "name has it, a type", ()) is None
    assert Class("name has it, a type", "answer", ("bind",), ()).unexplained() == ["bind"]


def test_zones_repeat_with_their_seed() -> None:
    zones = [make_zone(random.Random(7), broken=True) for _ in range(2)]
    assert zones[0] == zones[1]
    assert questions(random.Random(7), zones[0], 50) == questions(random.Random(7), zones[1], 50)


def test_only_broken_zones_contradict_themselves() -> None:
    source = random.Random(3)
    assert not any(contradictions(make_zone(source, broken=False)) for _ in range(80))
    assert sum(bool(contradictions(make_zone(source, broken=True))) for _ in range(80)) > 20


CASES = [
    ("a", "A", "name has it, a type"),
    ("a", "TXT", "name lacks it, a type"),
    ("b", "A", "name alias > name has it, a type"),
    ("x.c", "A", "below a cut, a type"),
    ("c", "DS", "name lacks it, DS"),
    ("x.d", "A", "DNAME > absent, a type"),
    ("e", "A", "empty non-terminal beside a wildcard, a type"),
    ("f.w", "TXT", "wildcard has it, a type"),
    ("*.w", "A", "wildcard itself lacks it, a type"),
    ("l", "A", "name alias > loop, a type"),
    ("b.n", "NSEC", "DNAME > alias > name lacks it, NSEC"),
]


@pytest.mark.parametrize(("name", "kind", "wanted"), CASES)
def test_situations(name: str, kind: str, wanted: str) -> None:
    lines = ["a A 192.0.2.1", "b CNAME a", "c NS a", "d DNAME a", "x.e A 192.0.2.1", "* TXT 1", "*.w TXT 1", "l CNAME m", "m CNAME l"]
    lines += ["b.g CNAME a", "n DNAME g"]
    records = tuple(Record(tuple(owner.split(".")), rdtype, 300, rdata) for owner, rdtype, rdata in map(str.split, lines))
    assert situation(Zone((*HEAD, *records)), Question(tuple(name.split(".")), kind)) == wanted


def test_a_dname_of_the_apex_is_above_every_cut() -> None:
    zone = Zone((*HEAD, Record(APEX, "DNAME", 300, "d"), Record(("c",), "NS", 300, "c")))
    assert situation(zone, Question(("x", "c"), "A")) == "DNAME into itself, a type"


def test_a_ttl_is_longer_only_above_the_least_of_cache() -> None:
    def section(ttl: int) -> Section:
        return {(b"", 5): frozenset({(ttl, b"")})}

    assert resolvers.section_part(section(0), section(5), 1) == "'s TTL raised"
    assert resolvers.section_part(section(4), section(7), 1) == "'s TTL longer"
    assert resolvers.section_part(section(60), section(5), 1) == "'s TTL shorter"
    assert resolvers.explanation(resolvers.Difference("forward", "answer's TTL raised", "positive")) is None


def test_an_example_shows_zone_query_and_replies() -> None:
    text = Example(Zone(HEAD), Question(("a",), "A"), {}).text()
    assert text.splitlines()[0] == "; not signed"
    assert "; a A size 4096" in text
