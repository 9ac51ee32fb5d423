"""The record index: what it says to a name, and that memory stays flat whatever is published."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastdns._wire import name_text, name_wire
from fastdns.bench.micro.loops import Reader
from fastdns.index.index import Index
from fastdns.system import epoch
from tests.waiting import until

A, NS, CNAME, SOA, TXT, AAAA, DNAME, DS, ANY = 1, 2, 5, 6, 16, 28, 39, 43, 255
ONE = (A, 300, bytes([192, 0, 2, 1]))
TWO = (A, 60, bytes([192, 0, 2, 2]))
SIX = (AAAA, 300, bytes(15) + b"\1")

ZONE = {
    "example.org.": [(SOA, 300, b"soa"), (NS, 300, name_wire("ns.example.org."))],
    "www.example.org.": [ONE, SIX, TWO],
    "alias.example.org.": [(CNAME, 300, name_wire("www.example.org."))],
    "a.b.c.example.org.": [ONE],
    "*.w.example.org.": [(TXT, 300, b"\4wild")],
    "host.w.example.org.": [ONE],
    "*.alias.example.org.": [(CNAME, 300, name_wire("www.example.org."))],
    "cut.example.org.": [(NS, 300, name_wire("ns.cut.example.org.")), (DS, 300, b"ds")],
    "ns.cut.example.org.": [ONE],
    "deep.er.cut.example.org.": [(NS, 300, name_wire("ns.example.net."))],
    "moved.example.org.": [(DNAME, 300, name_wire("example.net.")), TWO],
}

# name, type, outcome, owner of what answers, its number of records, from a wildcard
FINDINGS = [
    ("www.example.org.", A, "hit", "www.example.org.", 2, False),
    ("WWW.Example.ORG.", AAAA, "hit", "www.example.org.", 1, False),
    ("www.example.org.", ANY, "hit", "www.example.org.", 3, False),
    ("www.example.org.", TXT, "nodata", "www.example.org.", 0, False),
    ("example.org.", SOA, "hit", "example.org.", 1, False),
    ("example.org.", NS, "hit", "example.org.", 1, False),  # NS at the apex is no cut
    ("alias.example.org.", A, "cname", "alias.example.org.", 1, False),
    ("alias.example.org.", CNAME, "hit", "alias.example.org.", 1, False),
    ("alias.example.org.", ANY, "hit", "alias.example.org.", 1, False),
    ("c.example.org.", A, "nodata", "c.example.org.", 0, False),  # empty non-terminal (RFC 8020)
    ("b.c.example.org.", ANY, "nodata", "b.c.example.org.", 0, False),
    ("x.b.c.example.org.", A, "nxdomain", None, 0, False),
    ("no.example.org.", A, "nxdomain", None, 0, False),
    ("q.w.example.org.", TXT, "hit", "*.w.example.org.", 1, True),
    ("p.q.w.example.org.", TXT, "hit", "*.w.example.org.", 1, True),  # any number of labels (RFC 4592 2.1.1)
    ("q.w.example.org.", A, "nodata", "*.w.example.org.", 0, True),
    ("q.host.w.example.org.", TXT, "nxdomain", None, 0, False),  # host is the closest encloser (RFC 4592 4.4)
    ("host.w.example.org.", TXT, "nodata", "host.w.example.org.", 0, False),
    ("w.example.org.", TXT, "nodata", "w.example.org.", 0, False),
    ("*.w.example.org.", TXT, "hit", "*.w.example.org.", 1, False),
    ("x.*.w.example.org.", TXT, "nxdomain", None, 0, False),
    ("x.alias.example.org.", A, "cname", "*.alias.example.org.", 1, True),
    ("cut.example.org.", A, "delegation", "cut.example.org.", 1, False),
    ("cut.example.org.", NS, "delegation", "cut.example.org.", 1, False),
    ("cut.example.org.", DS, "hit", "cut.example.org.", 1, False),  # the parent's (RFC 4035 3.1.4.1)
    ("ns.cut.example.org.", A, "delegation", "cut.example.org.", 1, False),  # glue is no answer
    ("x.y.cut.example.org.", DS, "delegation", "cut.example.org.", 1, False),
    ("x.deep.er.cut.example.org.", A, "delegation", "cut.example.org.", 1, False),  # the topmost cut
    ("moved.example.org.", A, "hit", "moved.example.org.", 1, False),  # a DNAME says nothing about its own owner (RFC 6672 2.3)
    ("x.y.moved.example.org.", A, "dname", "moved.example.org.", 1, False),
    ("xmoved.example.org.", A, "nxdomain", None, 0, False),
    ("org.", A, "outside", None, 0, False),
    (".", A, "outside", None, 0, False),
    ("example.net.", A, "outside", None, 0, False),
    ("notexample.org.", A, "outside", None, 0, False),
]


@pytest.fixture(params=["one by one", "backwards", "batch", "swapped in", "after other names"])
def zone(request: pytest.FixtureRequest) -> Index:
    """The zone, published in every way there is."""
    index = Index("example.org.")
    names = list(ZONE.items())
    if request.param == "one by one":
        for name, records in names:
            index.put(name, records)
    elif request.param == "backwards":
        for name, records in reversed(names):
            index.put(name_wire(name), records)
    elif request.param == "batch":
        index.update(names)
    elif request.param == "swapped in":
        index.put("gone.example.org.", [ONE])
        index.replace(names)
    else:
        for i in range(50):
            index.put(f"x.{i}.cut.example.org.", [ONE])
            index.put(f"*.{i}.example.org.", [ONE])
        index.update(names)
        for i in range(50):
            index.remove(f"x.{i}.cut.example.org.")
            index.remove(f"*.{i}.example.org.")
    return index


@pytest.mark.parametrize(("name", "qtype", "outcome", "owner", "count", "wildcard"), FINDINGS)
def test_find(zone: Index, name: str, qtype: int, outcome: str, owner: str | None, count: int, wildcard: bool) -> None:
    found = zone.find(name, qtype)
    assert (found.outcome, found.owner and name_text(found.owner), len(found.records), found.wildcard) == (outcome, owner, count, wildcard)


def test_the_zone_is_the_same_however_it_came(zone: Index) -> None:
    plain = Index("example.org.")
    plain.update(ZONE.items())
    assert list(zone.snapshot()) == list(plain.snapshot())
    counts = zone.statistics
    assert (counts["names"], counts["nodes"], counts["records"]) == (11, 11 + 4, 16)
    zone.collect()
    assert zone.statistics["pending"] == 0


def test_records_keep_ttl_order_and_rdata() -> None:
    index = Index()
    index.put("www.test.", [ONE, SIX, TWO, (TXT, 0, b"")])
    assert index.get("WWW.test.") == [ONE, TWO, SIX, (TXT, 0, b"")]
    assert index.find("www.test.", A).records == [ONE, TWO]
    index.put("www.test.", [SIX])
    assert index.get("www.test.") == [SIX]
    index.remove("www.test.")
    assert index.get("www.test.") == []
    assert index.find("test.", A).outcome == "nxdomain"


def test_empty_non_terminals_come_and_go() -> None:
    index = Index("example.org.")
    index.put("a.b.c.example.org.", [ONE])
    index.put("d.c.example.org.", [ONE])
    index.put("c.example.org.", [ONE])
    index.remove("c.example.org.")
    assert index.find("c.example.org.", A).outcome == "nodata"
    index.remove("a.b.c.example.org.")
    assert index.find("b.c.example.org.", A).outcome == "nxdomain"
    assert index.find("c.example.org.", A).outcome == "nodata"
    index.remove("d.c.example.org.")
    assert index.find("c.example.org.", A).outcome == "nxdomain"
    index.remove("never.was.example.org.")
    assert index.statistics["nodes"] == 1  # the apex stays
    assert index.find("example.org.", A).outcome == "nodata"


def test_flat_indexes_have_no_ancestors() -> None:
    index = Index(flat=True)
    index.put("1.2.0.192.in-addr.arpa.", [ONE])
    index.put(".", [TWO])
    assert index.statistics["nodes"] == 2
    assert index.get("1.2.0.192.in-addr.arpa.") == [ONE]
    assert index.get("2.0.192.in-addr.arpa.") == []
    assert index.get(".") == [TWO]
    index.remove("1.2.0.192.in-addr.arpa.")
    index.remove(".")
    assert index.statistics["nodes"] == 0


@pytest.mark.parametrize(
    ("name", "records", "message"),
    [
        ("example.net.", [ONE], "example.net. is not in example.org."),
        ("org.", [ONE], "org. is not in example.org."),
        ("www..example.org.", [ONE], "label"),
        (b"\3www", [ONE], "not a name"),
        (b"\0\0", [ONE], "not a name"),
        (b"\xc0\x00", [ONE], "not a name"),
        ("www.example.org.", [(A, -1, b"")], "TTL"),
        ("www.example.org.", [(A, 1 << 31, b"")], "TTL"),
        ("www.example.org.", [(A, 0, bytes(65536))], "65536 octets"),
        ("www.example.org.", [(n, 0, b"") for n in range(101)], "more than 100 types"),
        ("www.example.org.", [(A, 0, b"")] * 65536, "more than 65535 records"),
    ],
)
def test_bad_records_are_refused(name: str | bytes, records: list[tuple[int, int, bytes]], message: str) -> None:
    index = Index("example.org.")
    index.put("old.example.org.", [ONE])
    for publish in (
        lambda: index.put(name, records),
        lambda: index.update([(name, records)]),
        lambda: index.replace([("new.example.org.", [ONE]), (name, records)]),
    ):
        with pytest.raises(ValueError, match=message):
            publish()
    assert [name_text(owner) for owner, *_ in index.snapshot()] == ["old.example.org."]


def test_snapshots_are_sorted_and_stay() -> None:
    """The order of RFC 4034 6.1, and the example given there."""
    wires = [b"\7example\0", b"\1a\7example\0", b"\x08yljkjljk\1a\7example\0", b"\1z\1a\7example\0", b"\4zabc\1a\7example\0", b"\1z\7example\0"]
    wires += [b"\1\1\1z\7example\0", b"\1*\1z\7example\0", b"\1\xc8\1z\7example\0"]
    index = Index("example.")
    shuffled = wires[:]
    random.Random(4).shuffle(shuffled)
    for wire in shuffled:
        index.put(wire, [ONE])
    snapshot = index.snapshot()
    index.replace([("new.example.", [TWO])])
    index.collect()
    assert [owner for owner, *_ in snapshot] == wires
    assert all((kind, ttl, rdata) == ONE for _, kind, ttl, rdata in snapshot)
    assert len(snapshot) == len(wires)


# ---- against a model ----


def model_find(zone: dict[str, dict[int, int]], name: str, qtype: int) -> tuple[str, str | None]:
    """RFC 1034 4.3.2 and RFC 4592, word by word, over sets."""
    labels = name.split(".")
    existing = {".".join(owner.split(".")[i:]) for owner in zone for i in range(owner.count(".") - 1)} | {"test."}
    for i in range(len(labels) - 3, -1, -1):
        suffix = ".".join(labels[i:])
        if NS in zone.get(suffix, {}) and not (i == 0 and qtype == DS):
            return "delegation", suffix
        if DNAME in zone.get(suffix, {}) and i > 0:
            return "dname", suffix
    owner = name
    if name not in existing:
        encloser = next(".".join(labels[i:]) for i in range(1, len(labels)) if ".".join(labels[i:]) in existing)
        owner = "*." + encloser
        if owner not in existing:
            return "nxdomain", None
    types = zone.get(owner, {})
    return ("hit" if qtype in types else "cname" if CNAME in types else "nodata"), owner


def test_a_random_zone_answers_as_the_model_does() -> None:
    """Publishes and removes at random over few labels, so that every constellation comes up."""
    choice = random.Random(7)
    index = Index("test.")
    zone: dict[str, dict[int, int]] = {}

    def any_name() -> str:
        return ".".join([*(choice.choice("abc*") for _ in range(choice.randint(1, 4))), "test."])

    seen = set()
    for _ in range(2500):
        owner = any_name()
        if choice.random() < 0.45:
            zone.pop(owner, None)
            index.remove(owner)
        else:
            zone[owner] = dict.fromkeys(choice.sample([A, TXT, CNAME, DS], choice.randint(1, 2)) + [NS, DNAME] * (choice.random() < 0.02), 1)
            if choice.random() < 0.1:
                zone[owner] |= {choice.choice([NS, DNAME]): 1}
            index.put(owner, [(kind, 1, b"x") for kind in zone[owner]])
        for _ in range(3):
            name, qtype = any_name(), choice.choice([A, TXT, DS])
            found = index.find(name, qtype)
            wanted = model_find(zone, name, qtype)
            assert (found.outcome, found.owner and name_text(found.owner)) == wanted, (name, qtype, zone)
            seen.add(wanted[0])
    assert seen == {"delegation", "dname", "nxdomain", "hit", "cname", "nodata"}
    for owner in list(zone):
        index.remove(owner)
    index.collect()
    assert index.statistics == Index("test.").statistics | {key: index.statistics[key] for key in ("bytes", "work")}


# ---- memory and concurrency ----


def resident() -> int:
    """Octets of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def checked(number: int) -> list[tuple[int, int, bytes]]:
    """Records that a checked reader can tell from freed or half-written memory."""
    return [(A, 1, (number + i).to_bytes(4, "little") + (number + i ^ 0xFFFFFFFF).to_bytes(4, "little")) for i in range(number % 3 + 1)]


@contextmanager
def reading(index: Index, names: list[bytes], workers: int) -> Iterator[list[Reader]]:
    readers = [Reader(index, names, worker, True) for worker in range(1, workers + 1)]
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield readers
    finally:
        for reader in readers:
            reader.stop()
        for thread in threads:
            thread.join()


def churn(index: Index, names: list[bytes], updates: int) -> None:
    """Puts, removes and puts again, each a change of its own."""
    for number in range(updates):
        name = names[number * 7919 % len(names)]
        if number % 5 == 4:
            index.remove(name)
        else:
            index.put(name, checked(number))


@pytest.fixture
def names() -> list[bytes]:
    return [name_wire(f"pod-{i}.svc-{i % 50}.ns-{i % 7}.svc.cluster.local.") for i in range(2000)]


def assert_flat(index: Index, names: list[bytes], updates: int) -> None:
    """What leaks grows with every part of the updates; what a reader holds back that this machine interrupts is given back, and taken again."""
    churn(index, names, 50_000)
    gc.collect()
    bytes_before = index.statistics["bytes"]
    grown = []
    for _ in range(4):
        before = resident()
        churn(index, names, updates // 4)
        grown.append(resident() - before)

    def collected() -> bool:
        index.collect()
        return bool(index.statistics["pending"] < 100_000)

    until(collected)
    assert index.statistics["bytes"] < bytes_before * 1.2 + 10_000
    assert min(grown) < 1 << 19, grown


def test_a_million_updates_leave_memory_flat_while_workers_read(names: list[bytes]) -> None:
    index = Index("cluster.local.")
    with reading(index, names, 1) as readers:
        assert_flat(index, names, 1_000_000)
        until(lambda: readers[0].hits > 10_000)
    assert readers[0].torn == 0


def test_updates_leave_memory_flat_while_all_workers_are_offline(names: list[bytes]) -> None:
    assert_flat(Index("cluster.local."), names, 200_000)


def test_updates_leave_memory_flat_during_a_transfer(names: list[bytes]) -> None:
    """A snapshot keeps what it holds and nothing of what came later."""
    index = Index("cluster.local.")
    churn(index, names, 50_000)
    snapshot = index.snapshot()
    held = list(snapshot)
    assert_flat(index, names, 300_000)
    assert list(snapshot) == held


def test_two_readers_never_see_freed_or_half_written_records(names: list[bytes]) -> None:
    """Readers under updates, growth, whole zones swapped and snapshots let go (R23)."""
    index = Index("cluster.local.")
    with reading(index, names, 2) as readers:
        for turn in range(30):
            index.update((name, checked(turn + i)) for i, name in enumerate(names[: 50 + 60 * turn]))
            snapshot = index.snapshot(sorted=False)
            index.replace((name, checked(turn + i)) for i, name in enumerate(names[turn * 10 :]))
            churn(index, names, 1000)
            assert all(int.from_bytes(rdata[:4], "little") ^ int.from_bytes(rdata[4:], "little") == 0xFFFFFFFF for *_, rdata in snapshot)
        until(lambda: all(reader.hits > 10_000 for reader in readers))
    assert all(reader.torn == 0 for reader in readers)


def test_nothing_is_freed_under_a_worker_that_does_not_move() -> None:
    index = Index()
    index.put("www.test.", checked(2))
    epoch.online(40)
    try:
        index.put("www.test.", checked(3))
        assert index.collect() > 0
    finally:
        epoch.offline(40)
    assert index.collect() == 0


@pytest.mark.parametrize("count", [1000, 3000, 100_000])
def test_a_record_takes_at_most_130_octets(count: int) -> None:
    """Kubernetes-like names with one A record each, table included, at any filling."""
    index = Index("cluster.local.")
    index.update((name_wire(f"service-{i}.ns-{i % 100}.svc.cluster.local."), [ONE]) for i in range(count))
    assert index.statistics["bytes"] / index.statistics["records"] <= 130


@pytest.mark.memory
def test_counted_bytes_are_what_the_process_grows_by() -> None:
    """In a process of its own: this one has freed memory to use again."""
    script = """
from pathlib import Path
from fastdns.index.index import Index, totals
from fastdns._wire import name_wire
resident = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * 4096
index = Index("cluster.local.")
wires = [name_wire(f"service-{i}.ns-{i % 100}.svc.cluster.local.") for i in range(200_000)]
before = resident()
index.replace((wire, [(1, 300, b"abcd")]) for wire in wires)
assert totals() == index.statistics
print((resident() - before) / index.statistics["bytes"])
"""
    ratio = float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert 0.85 < ratio < 1.15


@pytest.mark.memory
def test_indexes_go_with_their_memory() -> None:
    make: Callable[[], Index] = lambda: Index("cluster.local.")  # noqa: E731
    for _ in range(3):
        index = make()
        index.replace((name_wire(f"service-{i}.svc.cluster.local."), [ONE]) for i in range(50_000))
        before = resident()
        del index
    gc.collect()
    assert resident() <= before
