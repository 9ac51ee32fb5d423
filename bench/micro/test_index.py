"""What the record index costs: a hit, the ways to miss, an update."""

from __future__ import annotations

import random

import pytest

from fastdns._wire import name_wire
from fastdns.bench.micro.conftest import Timed
from fastdns.bench.micro.loops import Reader
from fastdns.index.index import Index

LOOKUPS = 100_000
A, AAAA = 1, 28


def service(i: int) -> bytes:
    return name_wire(f"service-{i}.ns-{i % 97}.svc.cluster.local.")


@pytest.fixture(scope="module", params=[10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def index(request: pytest.FixtureRequest) -> Index:
    made = Index("cluster.local.")
    made.replace((service(i), [(A, 5, b"\x0a\0\0\1")]) for i in range(request.param))
    made.put("*.wild.cluster.local.", [(A, 5, b"\x0a\0\0\1")])
    return made


@pytest.fixture
def size(index: Index) -> int:
    return index.statistics["names"] - 1


@pytest.mark.parametrize("what", ["hit", "nodata", "nxdomain", "wildcard"])
def test_find(timed: Timed, index: Index, size: int, what: str) -> None:
    choice = random.Random(1)
    numbers = [choice.randrange(size) for _ in range(10_000)]
    if what == "nxdomain":
        names = [name_wire(f"no-{i}.ns-{i % 97}.svc.cluster.local.") for i in numbers]
    elif what == "wildcard":
        names = [name_wire(f"x{i}.wild.cluster.local.") for i in numbers]
    else:
        names = [service(i) for i in numbers]
    reader = Reader(index, names)

    def look_up() -> None:
        reader.run(reader.lookups + LOOKUPS, AAAA if what == "nodata" else A)

    timed(LOOKUPS, look_up)
    assert reader.hits == (reader.lookups if what in ("hit", "wildcard") else 0)


def test_put(timed: Timed, index: Index, size: int) -> None:
    names = [service(i * 7919 % size) for i in range(1000)]

    def put() -> None:
        for name in names:
            index.put(name, [(A, 5, b"\x0a\0\0\2")])

    timed(1000, put)
    assert index.get(names[0]) == [(A, 5, b"\x0a\0\0\2")]
