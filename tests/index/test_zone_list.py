"""Zone lists: longest match, label boundaries, letter case."""

from __future__ import annotations

import pytest

from fastdns._wire import name_wire
from fastdns.index.zone_list import ZoneList

ZONES = ["example.org.", "a.example.org.", "Other.Test."]


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("example.org.", "example.org."),
        ("www.example.org.", "example.org."),
        ("a.example.org.", "a.example.org."),
        ("x.A.Example.ORG.", "a.example.org."),
        ("aexample.org.", None),
        ("org.", None),
        (".", None),
        ("x.other.test.", "other.test."),
    ],
)
def test_the_longest_zone_matches(name: str, zone: str | None) -> None:
    assert ZoneList(ZONES).match(name) == (name_wire(zone) if zone else None)


def test_the_root_holds_every_name() -> None:
    assert ZoneList(["."]).match("any.name.test.") == b"\0"
    assert ZoneList([".", "name.test."]).match("any.name.test.") == name_wire("name.test.")


def test_an_empty_list_holds_none() -> None:
    assert ZoneList([]).match("a.test.") is None


@pytest.mark.parametrize("count", [8, 9, 1000])
def test_long_lists(count: int) -> None:
    """Those of more than a few zones have a table."""
    zones = ["test.", "b.a.test.", *(f"z{number}.test." for number in range(count - 2))]
    found = ZoneList(zones)
    for name, zone in (
        ("test.", "test."),
        ("a.test.", "test."),
        ("x.B.a.test.", "b.a.test."),
        (f"x.y.z{count - 3}.test.", f"z{count - 3}.test."),
        (f"z{count - 2}.test.", "test."),
        ("test.other.", None),
        (".", None),
    ):
        assert found.match(name) == (name_wire(zone) if zone else None), name
    assert ZoneList([".", *zones]).match("other.") == b"\0"
    assert ZoneList([*zones, "."]).match("z0.TEST.") == name_wire("z0.test.")
    # Zones with different numbers of labels, of which the name has fewer than the longest.
    assert ZoneList(["d.c.b.a.test.", *zones, "."]).match("test.") == name_wire("test.")
    assert ZoneList(["d.c.b.a.test.", *zones, "."]).match(".") == b"\0"
