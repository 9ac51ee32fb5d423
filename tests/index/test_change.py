"""Changes of a few records of a zone: the version that comes of them is that of the whole zone, and costs by their number."""

from __future__ import annotations

import random
import threading

import pytest

from fastdns._wire import name_wire
from fastdns.bench.micro.loops import Reader
from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneError
from fastdns.plugins.transfer import Transfer
from fastdns.system import epoch
from tests.waiting import until

A, NS, CNAME, SOA, TXT, DNAME, RRSIG, NSEC, NSEC3PARAM = 1, 2, 5, 6, 16, 39, 46, 47, 51

APEX = name_wire("example.org.")

#: Owner, type, TTL, rdata.
Row = tuple[bytes, int, int, bytes]


def soa(serial: int) -> bytes:
    return name_wire("ns.example.org.") + name_wire("admin.example.org.") + serial.to_bytes(4, "big") + bytes(16)


def row(name: str, kind: int, rdata: bytes, ttl: int = 300) -> Row:
    return name_wire(name), kind, ttl, rdata


def publish(zone: Zone, rows: list[Row], serial: int = 1) -> Zone:
    made = zone.draft()
    made.add(APEX, SOA, 300, soa(serial))
    for one in rows:
        made.add(*one)
    made.finish()
    zone.publish(made)
    return zone


def change(zone: Zone, deleted: list[Row], added: list[Row], serial: int = 2, former: int = 1) -> ZoneChange:
    made = ZoneChange(zone, former)
    for one in deleted:
        made.delete(*one)
    for one in added:
        made.add(*one)
    made.add(APEX, SOA, 300, soa(serial))
    made.finish()
    return made


def contents(zone: Zone) -> list[Row]:
    return sorted(zone.index.snapshot())


@pytest.fixture
def zone() -> Zone:
    rows = [
        row("example.org.", NS, name_wire("ns.example.org.")),
        row("a.example.org.", A, bytes([192, 0, 2, 1])),
        row("a.example.org.", A, bytes([192, 0, 2, 2])),
        row("b.c.d.example.org.", TXT, b"\1x"),
        row("*.w.example.org.", TXT, b"\1w"),
        row("cut.example.org.", NS, name_wire("ns.example.net.")),
    ]
    return publish(Zone("example.org."), rows)


def test_a_change(zone: Zone) -> None:
    made = change(
        zone,
        [row("a.example.org.", A, bytes([192, 0, 2, 1])), row("b.c.d.example.org.", TXT, b"\1x"), row("*.w.example.org.", TXT, b"\1w")],
        [row("A.example.org.", TXT, b"\1n"), row("x.y.example.org.", CNAME, name_wire("Target.Example.org."))],
    )
    assert (made.serial, zone.serial, len(made)) == (2, 1, 5)
    assert [found[0] for found in made.deleted] == [name_wire(name) for name in ("a.example.org.", "b.c.d.example.org.", "*.w.example.org.")]
    assert zone.index.find("b.c.d.example.org.", TXT).outcome == "hit"
    made.publish()
    assert (made.serial, zone.serial) == (None, 2)
    assert zone.index.get("a.example.org.") == [(A, 300, bytes([192, 0, 2, 2])), (TXT, 300, b"\1n")]
    assert [zone.index.find(name, TXT).outcome for name in ("d.example.org.", "q.w.example.org.", "y.example.org.")] == ["nxdomain", "nxdomain", "nodata"]
    assert zone.index.get("x.y.example.org.") == [(CNAME, 300, name_wire("target.example.org."))], "names are in lower case as in a whole zone"
    assert zone.index.get("example.org.")[-1] == (SOA, 300, soa(2))
    assert zone.index.find("x.cut.example.org.", A).outcome == "delegation"


def test_what_was_added_may_be_deleted_again(zone: Zone) -> None:
    made = ZoneChange(zone, 1)
    made.add(*row("t.example.org.", TXT, b"\1t"))
    made.add(*row("u.example.org.", TXT, b"\1u"))
    made.delete(*row("t.example.org.", TXT, b"\1t", 7))
    made.delete(*row("a.example.org.", A, bytes([192, 0, 2, 1])))
    made.add(*row("a.example.org.", A, bytes([192, 0, 2, 1]), 5))
    made.add(APEX, SOA, 300, soa(3))
    made.finish()
    assert made.added == [row("u.example.org.", TXT, b"\1u"), row("a.example.org.", A, bytes([192, 0, 2, 1]), 5)]
    made.publish()
    assert zone.index.get("t.example.org.") == []
    assert (A, 5, bytes([192, 0, 2, 1])) in zone.index.get("a.example.org.")


def test_many_names_at_once(zone: Zone) -> None:
    first, second = (A, 300, bytes([192, 0, 2, 1])), (TXT, 60, b"\1x")
    made = ZoneChange(zone, 1)
    made.replace([name_wire("a.example.org.")], [first], [second])
    made.replace([name_wire(f"{label}.New.example.org.") for label in "abc"], [], [first, second])
    made.add(APEX, SOA, 300, soa(2))
    made.finish()
    made.publish()
    assert sorted(zone.index.get("a.example.org.")) == [(A, 300, bytes([192, 0, 2, 2])), second]
    assert [sorted(zone.index.get(f"{label}.new.example.org.")) for label in "abc"] == [[first, second]] * 3


@pytest.mark.parametrize(
    ("owners", "rows", "text"),
    [
        ([b""], [], "not a name"),
        ([b"\3ab"], [], "not a name"),
        ([APEX + b"x"], [], "not a name"),
        ([None], [], "not a name"),
        ([APEX], [(A, 1, b"abc")], "not a record"),
        ([APEX], [(TXT, 1, bytes(70_000))], "not a record"),
        ([name_wire("a.example.org.")], [(SOA, 1, soa(1))], "SOA record of another name"),
    ],
)
def test_what_many_names_may_not_have(zone: Zone, owners: list[bytes], rows: list[tuple[int, int, bytes]], text: str) -> None:
    made = ZoneChange(zone, 1)
    for deleted, added in ((rows, []), ([], rows)):
        with pytest.raises((ValueError, ZoneError), match=text):
            made.replace(owners, deleted, added)
    made.add(APEX, SOA, 300, soa(2))
    made.finish()
    with pytest.raises(ValueError, match="the change is finished"):
        made.replace([], [], [])


@pytest.mark.parametrize(
    ("deleted", "added", "former", "text"),
    [
        ([row("a.example.org.", A, bytes(4))], [], 1, "delete what is not there"),
        ([row("none.example.org.", A, bytes(4))], [], 1, "delete what is not there"),
        ([row("a.example.org.", A, bytes([192, 0, 2, 1]))] * 2, [], 1, "delete what is not there"),
        ([], [row("a.example.org.", A, bytes([192, 0, 2, 1]), 7)], 1, "add what is there"),
        ([], [row("n.example.org.", A, bytes(4))] * 2, 1, "add what is there"),
        ([], [], 7, "not from the version that is served"),
        ([], [row("n.example.org.", SOA, soa(7))], 1, "SOA record of another name"),
        ([], [row("example.org.", NSEC, name_wire("a.example.org.") + b"\0\1\2")], 1, "replace the chain of NSEC"),
        ([], [row("example.org.", NSEC3PARAM, b"\1\0\0\0\0")], 1, "replace the chain of NSEC"),
        ([], [row("n.example.org.", 1000 + kind, b"x") for kind in range(101)], 1, "more than 100 types at n.example.org."),
    ],
)
def test_what_does_not_fit_changes_nothing(zone: Zone, deleted: list[Row], added: list[Row], former: int, text: str) -> None:
    before, statistics = contents(zone), zone.index.statistics
    with pytest.raises(ZoneError, match=text):
        change(zone, deleted, [row("fine.example.org.", TXT, b"\1x"), *added], former=former)
    assert contents(zone) == before
    assert {**zone.index.statistics, "work": 0} == {**statistics, "work": 0}
    change(zone, [], [row("fine.example.org.", TXT, b"\1x")]).publish()
    assert zone.serial == 2


def test_what_is_outside_is_ignored(zone: Zone) -> None:
    change(zone, [row("x.example.net.", A, bytes(4))], [row("y.example.net.", A, bytes(4))]).publish()
    assert zone.serial == 2


def test_a_change_of_a_version_that_was_replaced(zone: Zone) -> None:
    late = change(zone, [], [row("late.example.org.", TXT, b"\1x")])
    change(zone, [], [row("early.example.org.", TXT, b"\1x")]).publish()
    with pytest.raises(ZoneError, match="not from the version that is served"):
        late.publish()
    late = change(zone, [], [row("late.example.org.", TXT, b"\1x")], 3, 2)
    publish(zone, [], 2)
    with pytest.raises(ZoneError, match="not from the version that is served"):
        late.publish()
    late = change(zone, [], [row("late.example.org.", TXT, b"\1x")], 3, 2)
    zone.index.put("put.example.org.", [(TXT, 1, b"\1p")])
    with pytest.raises(ZoneError, match="not from the version that is served"):
        late.publish()
    assert [zone.index.get(name) for name in ("early.example.org.", "late.example.org.")] == [[], []]


def test_a_worker_that_hangs_delays_the_change_after_the_next(zone: Zone) -> None:
    """While a worker may read the former version there is no third one; a whole zone may be published."""
    epoch.online(40)
    try:
        change(zone, [], [row("n.example.org.", TXT, b"\1x")]).publish()
        assert zone.serial == 2
        assert zone.index.get("n.example.org.") == [(TXT, 300, b"\1x")]
        with pytest.raises(ZoneError, match="a worker does not end its batch"):
            change(zone, [row("n.example.org.", TXT, b"\1x")], [], 3, 2)
        with pytest.raises(RuntimeError, match="a worker does not end its batch"):
            zone.index.put("n.example.org.", [])
        publish(zone, [row("whole.example.org.", TXT, b"\1x")], 3)
        assert zone.index.statistics["pending"] > 0
    finally:
        epoch.offline(40)
    assert zone.index.collect() == 0
    change(zone, [row("whole.example.org.", TXT, b"\1x")], [], 4, 3).publish()
    assert contents(zone) == [(APEX, SOA, 300, soa(4))]


# ---- against whole zones ----

LABELS = ["a", "b", "c", "*", "x1"]


def random_name(choice: random.Random) -> str:
    return "".join(choice.choice(LABELS) + "." for _ in range(choice.randint(0, 4)))


def random_rows(choice: random.Random, count: int) -> set[Row]:
    rows = set()
    for _ in range(count):
        name = random_name(choice) + "example.org."
        kind = choice.choice([A, A, A, TXT, NS, CNAME, DNAME, 500, 501])
        rdata = (
            bytes([10, 0, 0, choice.randint(0, 9)])
            if kind == A
            else name_wire(f"t{choice.randint(0, 3)}.example.org.")
            if kind in (NS, CNAME, DNAME)
            else b"\1x"
        )
        rows.add(row(name, kind, rdata, 300))
    return rows


def outcomes(zone: Zone) -> list[object]:
    """What look-ups of all names near the zone's find."""
    names = {name for name, _, _, _ in zone.index.snapshot(sorted=False)}
    asked = {
        name_wire(".".join(labels) + ".example.org.") for first in LABELS for second in LABELS for labels in ([first], [first, second], [first, "q", second])
    }
    found = []
    for name in sorted(names | asked):
        for kind in (A, NS, TXT, CNAME):
            one = zone.index.find(name, kind)
            found.append((name, kind, one.outcome, one.owner, one.wildcard, sorted(one.records)))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_are_equal_to_whole_zones(seed: int) -> None:
    choice = random.Random(seed)
    rows = random_rows(choice, choice.choice([0, 5, 40, 150]))
    changed = publish(Zone("example.org."), sorted(rows))
    for serial in range(2, 30):
        deleted = set(choice.sample(sorted(rows), min(len(rows), choice.choice([0, 1, 3, 20, 150]))))
        added = random_rows(choice, choice.choice([0, 1, 3, 20, 150])) - rows
        rows = (rows - deleted) | added
        differences = change(changed, sorted(deleted), sorted(added), serial, serial - 1)
        assert (sorted(differences.deleted), sorted(differences.added)) == (sorted(deleted), sorted(added))
        differences.publish()
        whole = publish(Zone("example.org."), sorted(rows), serial)
        assert contents(changed) == contents(whole)
        assert outcomes(changed) == outcomes(whole)
        counts, wanted = changed.index.statistics, whole.index.statistics
        assert [counts[key] for key in ("names", "nodes", "records", "pending")] == [wanted[key] for key in ("names", "nodes", "records", "pending")]


def test_changes_are_seen_whole_while_they_are_read() -> None:
    """Snapshots taken while versions change have records of one version only, and memory stays flat."""
    names = [f"n{i}.example.org." for i in range(50)]
    zone = publish(Zone("example.org."), [row(name, A, (1).to_bytes(4, "big")) for name in names])
    stop = threading.Event()
    wrong: list[str] = []

    def look() -> None:
        while not stop.is_set():
            versions = {rdata for _, kind, _, rdata in Transfer.of_index(zone.index) or () if kind == A}
            if len(versions) != 1:
                wrong.append(f"{versions}")

    looking = threading.Thread(target=look)
    looking.start()
    size = zone.index.statistics["bytes"]
    try:
        for serial in range(2, 300):
            deleted = [row(name, A, (serial - 1).to_bytes(4, "big")) for name in names]
            change(zone, deleted, [row(name, A, serial.to_bytes(4, "big")) for name in names], serial, serial - 1).publish()
    finally:
        stop.set()
        looking.join()
    assert not wrong
    assert zone.index.collect() == 0
    assert zone.index.statistics["bytes"] == size


@pytest.mark.parametrize("size", [20, 400])
def test_readers_have_one_version_or_the_other(size: int) -> None:
    """Records of a version have its number. Names come and go, with wildcards for some of them, and the table grows."""

    def rows(serial: int) -> list[Row]:
        names = [f"n{i}.example.org." for i in range(size)] + [f"{serial % 7}-{i}.x{i % 3}.example.org." for i in range(size // (1 + serial % 5))]
        names += ["*.x1.example.org."] * (serial % 2) + ["*.x2.example.org."] * (serial % 3 == 0)
        return [row(name, 500, serial.to_bytes(4, "little") + (serial ^ 0xFFFFFFFF).to_bytes(4, "little")) for name in names]

    zone = publish(Zone("example.org."), rows(1))
    names = sorted({name for serial in range(35) for name, *_ in rows(serial)} | {name_wire(f"q.x{i}.example.org.") for i in range(3)})
    readers = [Reader(zone.index, names, worker, True) for worker in (1, 2)]
    threads = [threading.Thread(target=reader.run, args=(0, 500)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        for serial in range(2, 400):
            change(zone, rows(serial - 1), rows(serial), serial, serial - 1).publish()
        until(lambda: all(reader.hits > 10_000 for reader in readers))
    finally:
        for reader in readers:
            reader.stop()
        for thread in threads:
            thread.join()
    assert [(reader.torn, reader.mixed) for reader in readers] == [(0, 0), (0, 0)]
    assert zone.index.collect() == 0
    assert contents(zone) == sorted([*rows(399), (APEX, SOA, 300, soa(399))])


# ---- what it costs ----


def test_a_change_costs_by_its_size() -> None:
    """Slots looked at and records copied, for one changed record of zones of different sizes."""
    work = []
    for size in (1000, 30000):
        zone = publish(Zone("example.org."), [row(f"h{number}.example.org.", A, number.to_bytes(4, "big")) for number in range(size)])
        before = zone.index.statistics["work"]
        change(zone, [row("h7.example.org.", A, (7).to_bytes(4, "big"))], [row("h7.example.org.", A, bytes(4))]).publish()
        change(zone, [], [row("new.h8.example.org.", A, bytes(4))], 3, 2).publish()
        work.append(zone.index.statistics["work"] - before)
    assert max(work) < 1000  # a long run of slots in a row is rare, and no zone


def test_many_records_of_one_type_cost_by_their_number() -> None:
    zone = publish(Zone("example.org."), [])
    rows = [row("many.example.org.", A, number.to_bytes(4, "big")) for number in range(8000)]
    before = zone.index.statistics["work"]
    change(zone, [], rows).publish()
    change(zone, rows, [], 3, 2).publish()
    assert zone.index.statistics["work"] - before < 8 * len(rows)


def test_a_signed_zone_changes_at_the_same_cost() -> None:
    """Of a chain of NSEC records only the parts that change are copied."""

    def nsec(number: int, after: int, kinds: bytes = b"\0\1\x40") -> Row:
        return row(f"h{number:05}.example.org.", NSEC, name_wire(f"h{after:05}.example.org.") + kinds)

    work = []
    for size in (1000, 30000):
        rows = [nsec(number, number + 1) for number in range(size)] + [row("example.org.", NSEC, name_wire("h00000.example.org.") + b"\0\1\2")]
        zone = publish(Zone("example.org."), rows)
        before = zone.index.statistics["work"]
        change(zone, [nsec(7, 8)], [nsec(7, 8, b"\0\1\x60")]).publish()
        change(zone, [nsec(8, 9), nsec(9, 10)], [nsec(8, 10)], 3, 2).publish()
        work.append(zone.index.statistics["work"] - before)
    assert max(work) < 1500
