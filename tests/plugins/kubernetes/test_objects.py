"""Objects of declared kinds: what is read of them, which names they have, and what hostile ones do."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import dns.name
import dns.rdata
import msgspec
import pytest

from fastdns.plugins.kubernetes.decode.refusals import MALFORMED
from fastdns.plugins.kubernetes.decode.stream import ApiError, ObjectStream, StreamError
from fastdns.plugins.kubernetes.objects import KubernetesObject, ObjectKind, ObjectZones, Watched
from fastdns.plugins.kubernetes.objects.claims import RECORDS_MOST, TYPE_CNAME, TYPE_NS, Row, SharedClaim
from fastdns.plugins.kubernetes.objects.informer import Informer
from fastdns.plugins.kubernetes.objects.names import NAMES_MOST, Names, Zones, address_row, shared_most
from fastdns.protocol.parameters import TYPE_SOA

FIELDS = {"hostnames": ("spec.hostnames", list[str]), "addresses": ("status.addresses", list[str]), "note": ("metadata.annotations", dict[str, str])}
KIND = ObjectKind("example.net", ["v1"], "things", FIELDS)
WATCHED = Watched(KIND)


def thing(name: str = "a", *hostnames: Any, addresses: Iterable[Any] = ("192.0.2.1",), version: int = 1) -> dict[str, Any]:
    metadata = {"namespace": "lab", "name": name, "resourceVersion": str(version)}
    return {"kind": "Thing", "metadata": metadata, "spec": {"hostnames": list(hostnames)}, "status": {"addresses": list(addresses)}}


def octets(value: Any) -> bytes:
    return json.dumps(value).encode()


class Things(ObjectZones):
    """Each name has each address."""

    def __init__(self, *zones: str) -> None:
        super().__init__("things", zones or ("example.org.",), [KIND])
        self.informer = Informer(WATCHED)
        self.informer.attach(self)
        self.texts: list[str] = []

    def records(self, found: KubernetesObject) -> Iterable[tuple[str, str]]:
        return [(hostname, f"{'AAAA' if ':' in address else 'A'} {address}") for hostname in found["hostnames"] for address in found["addresses"]]

    def leave_out(self, text: str) -> None:
        self.texts.append(text)

    def list(self, *things: Any) -> None:
        self.informer.begin()
        for one in things:
            self.informer.take(octets(one), False)
        self.informer.commit()
        self.informer.flush()

    def addresses(self, name: str, place: int = 0) -> list[str]:
        rows = self.handler.zones.zones[place].index.get(name)
        return sorted(dns.rdata.from_wire(1, kind, rdata, 0, len(rdata)).to_text() for kind, _, rdata in rows if kind in (1, 28))


# ---- kinds ----


def test_fields_are_read_and_nothing_else() -> None:
    found, defect = KIND.decode(octets({**thing("a", "x.example.org"), "spec": {"hostnames": ["x"], "other": [1, {}]}, "more": None}))
    assert (found.namespace, found.name, found.number, found["hostnames"], found["note"], defect) == ("lab", "a", 1, ["x"], None, "")
    assert KIND.decode(octets({"metadata": {"name": "b"}, "spec": None}))[0].values == (None, None, None)
    with pytest.raises(KeyError):
        found["spec"]


@pytest.mark.parametrize("wrong", [{"spec": {"hostnames": "text"}}, {"spec": []}, {"status": {"addresses": [1]}}, {"spec": {"hostnames": {"a": "b"}}}])
def test_an_object_that_is_not_as_declared(wrong: Any) -> None:
    found, defect = KIND.decode(octets({**thing(), **wrong}))
    assert (found.name, found.values) == ("a", ())
    assert "Expected" in defect


@pytest.mark.parametrize(
    "wrong", [b"", b"[]", b"{", b"{}", b'{"metadata": {}}', b'{"metadata": {"name": ""}}', b'{"metadata": {"name": 1}}', b'{"metadata": 1}']
)
def test_what_is_no_object(wrong: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        KIND.decode(wrong)


@pytest.mark.parametrize("paths", [("spec.a", "spec.a.b"), ("spec.a.b", "spec.a"), ("spec.a", "spec.a"), ("metadata.name.x", "spec")])
def test_paths_that_exclude_each_other(paths: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="declared twice|inside of another"):
        ObjectKind("g", ["v1"], "things", {str(place): (path, str) for place, path in enumerate(paths)})


def test_kinds_that_are_declared_alike_are_one() -> None:
    again = ObjectKind("example.net", ["v1"], "things", dict(FIELDS))
    assert {Watched(again)} == {WATCHED}
    assert ObjectKind("example.net", ["v2"], "things", FIELDS) != KIND
    assert KIND.resource(0).path == "/apis/example.net/v1/things"
    assert ObjectKind("", ["v1"], "pods", {}).resource(0).path == "/api/v1/pods"


# ---- names ----

HOSTILE = [
    "", ".", "..", "a..b", ".a", "a b", "a\tb", "a\nb", "a\0b", "\x7f", "a\\.b", "a\\046b", "é.example.org", "a.*.example.org", "**.a", "*a.b", "a/b", "a@b",
    "A" * 64, "a." * 130, "x" * 300, "x" * 1_000_000, "a;b", '"a"', "$ORIGIN", "A 192.0.2.1", "a\u2028b",
]  # fmt: skip


@pytest.mark.parametrize("hostname", HOSTILE, ids=lambda text: repr(text[:20]))
def test_what_is_no_host_name(hostname: str) -> None:
    with pytest.raises(ValueError, match="no host name"):
        Zones(["example.org."]).places(hostname)


def wire(name: str) -> bytes:
    return dns.name.from_text(name).to_wire()


def test_where_names_belong() -> None:
    zones = Zones(["example.org.", "sub.Example.org.", "example.net."])
    assert zones.places("A.example.ORG") == [(0, wire("a.example.org."))]
    assert zones.places("a.sub.example.org.") == [(1, wire("a.sub.example.org."))]
    assert zones.places("example.net") == [(2, wire("example.net."))]
    assert zones.places("a.b") == [(0, wire("a.b.example.org.")), (1, wire("a.b.sub.example.org.")), (2, wire("a.b.example.net."))]
    assert zones.places("*.apps") == [(0, wire("*.apps.example.org.")), (1, wire("*.apps.sub.example.org.")), (2, wire("*.apps.example.net."))]
    assert zones.places("a.other.") == []
    long = ".".join(["a" * 60] * 4)
    assert [place for place, _ in zones.places(long)] == []
    assert Zones(["."]).places("a.b") == [(0, wire("a.b."))]


def row(text: str, ttl: int = 60) -> Row:
    found = address_row(text, ttl)
    assert found
    return found


@pytest.mark.parametrize("text", ["", "a", "1.2.3", "1.2.3.4.5", "01.2.3.4", "fe80::1%eth0", "1.2.3.4/8", " 1.2.3.4", "1.2.3.4\n", "::1::"])
def test_what_is_no_address(text: str) -> None:
    assert address_row(text, 5) is None


#: Zone and owner with records before and after.
Changes = dict[tuple[int, bytes], tuple[tuple[Row, ...], tuple[Row, ...]]]


def changes(names: Names, most: int | None = None) -> Changes:
    return {(zone, owner): (before, after) for zone, before, after, owners in names.changes(most) for owner in owners}


def test_the_records_of_a_name() -> None:
    names = Names(Zones(["example.org."]), [wire("example.org.")], bool)
    here = (0, wire("a.example.org."))
    alias: Row = (TYPE_CNAME, 30, wire("b.example.net."))
    names.put("late", 1, [("a", row("192.0.2.9"))])
    names.put("x", 0, [("a", row("192.0.2.2", 30)), ("a", row("192.0.2.2")), ("a", alias)])
    names.put("y", 0, [("a", row("192.0.2.1"))])
    assert changes(names) == {here: ((), (row("192.0.2.1", 30), row("192.0.2.2", 30)))}
    names.put("x", 0, [("a", alias), ("a", (TYPE_CNAME, 60, wire("a.example.net.")))])
    assert changes(names)[here][1] == (row("192.0.2.1"),)
    names.put("y", 0, [])
    assert changes(names)[here][1] == ((TYPE_CNAME, 30, wire("a.example.net.")),)
    names.put("x", 0, [("b", alias)])
    assert set(changes(names)) == {here, (0, wire("b.example.org."))}
    assert dict(names.records(0))[here[1]] == (row("192.0.2.9"),)
    for key in ("x", "late"):
        names.put(key, 0, [])
    names.changes()
    assert (names.serving, names._owners, names._of_object) == (0, {}, {})


def test_what_nobody_may_say_of_a_zone() -> None:
    refused: list[str] = []
    protected = [wire("example.org."), wire("dns1.kube-system.example.org.")]
    names = Names(Zones(["example.org."]), protected, refused.append)
    target = wire("evil.example.")
    rows: list[tuple[str, Row]] = [("example.org", (TYPE_SOA, 60, target * 2 + bytes(20))), ("example.org", (TYPE_NS, 60, target))]
    names.put("x", 0, [*rows, ("dns1.kube-system", (TYPE_CNAME, 60, target)), ("a", (46, 60, b"")), ("a", (255, 60, b""))])
    assert (changes(names), len(refused)) == ({}, 5)


def test_bounds_of_an_object_and_of_a_name() -> None:
    refused: list[str] = []
    names = Names(Zones(["example.org."]), [], refused.append)
    names.put("many names", 0, [(f"n{number}", row("192.0.2.1")) for number in range(3 * NAMES_MOST)])
    assert (len(changes(names)), len(refused)) == (NAMES_MOST, 1)
    names.put("many records", 0, [("one", row(f"10.0.{number >> 8}.{number & 255}")) for number in range(3 * RECORDS_MOST)])
    ((_, after),) = changes(names).values()
    assert len(after) == RECORDS_MOST
    names.put("both", 0, [(f"m{number}", row(f"10.0.{at >> 8}.{at & 255}")) for number in range(500) for at in range(500)])
    assert sum(len(rows) for _, rows in changes(names).values()) == 20_000
    assert len(refused) == 2


class Source:
    """A shared claim of host names `n0`, `n1` and so on, and how often its records were asked for."""

    def __init__(self, names: Names, *hostnames: str) -> None:
        self.names, self.hostnames = names, hostnames
        self.rows: list[Row] = []
        self.asked = 0
        self.claim = SharedClaim(0, shared_most(1), self.read, "things")
        for hostname in hostnames:
            names.share(hostname, self.claim, [hostname])

    def read(self) -> list[Row]:
        self.asked += 1
        return self.rows

    def set(self, *rows: Row) -> None:
        self.rows = list(rows)
        self.names.renew(self.claim)


def test_a_claim_that_objects_share() -> None:
    names = Names(Zones(["example.org."]), [], bool)
    source = Source(names, *(f"n{number}" for number in range(100)))
    assert (changes(names), source.asked) == ({}, 1)
    source.set(row("192.0.2.2"), row("192.0.2.1"))
    (change,) = names.changes()
    assert (change.before, change.after, len(change.owners), source.asked, names.serving) == ((), (row("192.0.2.1"), row("192.0.2.2")), 100, 2, 100)
    source.set(row("192.0.2.2"), row("192.0.2.1"))
    assert (changes(names), source.asked) == ({}, 3), "the same records cost nothing"
    names.put("n1", 0, [("n1", row("192.0.2.9"))])
    names.put("other", 0, [("n2", row("192.0.2.3"))])
    names.put("first", -1, [("n3", row("192.0.2.4"))])
    source.set(row("192.0.2.5"))
    found = {owner: after for (_, owner), (_, after) in changes(names).items()}
    assert len(found) == 100
    alone = [found[wire(f"n{number}.example.org.")] for number in (0, 1, 2, 3)]
    assert alone == [(row("192.0.2.5"),), (row("192.0.2.9"),), (row("192.0.2.3"), row("192.0.2.5")), (row("192.0.2.4"),)]
    for key in (*source.hostnames, "other", "first"):
        names.put(key, 0, [])
    names.changes()
    assert (names.serving, names._owners, names._of_object, source.claim.owners) == (0, {}, {}, {})


def test_names_of_a_shared_claim_are_changed_some_at_a_time() -> None:
    """Single changes come at once, and what changes meanwhile reaches all names in the end: no name is changed back."""
    names = Names(Zones(["example.org."]), [], bool)
    one, other = Source(names, *(f"n{number}" for number in range(100))), Source(names, *(f"m{number}" for number in range(100)))
    names.changes()
    served: dict[bytes, tuple[Row, ...]] = {}

    def turn() -> int:
        found = changes(names, 50)
        for (_, owner), (before, after) in found.items():
            assert served.get(owner, ()) == before
            served[owner] = after
        return len(found)

    one.set(row("192.0.2.1"))
    other.set(row("192.0.2.2"))
    assert (turn(), names.pending) == (50 - 16, True)
    names.put("alone", 0, [("a", row("192.0.2.3"))])
    assert turn() == 50 - 16 + 1, "of the other one"
    one.set(row("192.0.2.4"))
    names.put("n7", 0, [])
    names.share("new", one.claim, ["new"])
    names.share("n8", other.claim, ["n8"])
    for last in range(5, 9):
        one.set(row(f"192.0.2.{last}"))
        turn()
    while names.pending:
        turn()
    assert served.pop(wire("a.example.org.")) == (row("192.0.2.3"),)
    assert not served.pop(wire("n7.example.org."), ())
    assert served.pop(wire("n8.example.org.")) == (row("192.0.2.2"),)
    assert {after for owner, after in served.items() if owner[1:2] == b"m"} == {(row("192.0.2.2"),)}
    assert {after for owner, after in served.items() if owner[1:2] == b"n"} == {(row("192.0.2.8"),)}
    assert len(served) == 98 + 1 + 100


def test_bounds_of_a_shared_claim() -> None:
    refused: list[str] = []
    names = Names(Zones(["example.org."]), [wire("n1.example.org.")], refused.append)
    source = Source(names, "n0", "n1", "no name")
    assert len(refused) == 1
    source.set(*(row(f"10.0.{number >> 8}.{number & 255}") for number in range(3 * RECORDS_MOST)))
    assert {len(after) for _, after in changes(names).values()} == {RECORDS_MOST}
    assert len(refused) == 2
    source.set((TYPE_CNAME, 60, wire("b.example.net.")), (TYPE_SOA, 60, b""))
    assert {owner: len(after) for (_, owner), (_, after) in changes(names).items()} == {wire("n0.example.org."): 1, wire("n1.example.org."): 0}
    assert len(refused) == 4
    names.share("many", source.claim, (f"m{number}" for number in range(2 * NAMES_MOST)))
    assert (len(changes(names)), len(refused)) == (NAMES_MOST, 5)
    assert [shared_most(count) for count in (0, 20, 21, NAMES_MOST, 5 * NAMES_MOST)] == [1000, 1000, 952, 20, 20]


# ---- informers and zones ----


def test_a_list_takes_away_what_is_not_in_it() -> None:
    things = Things()
    things.list(thing("a", "a"), thing("b", "b"))
    assert (things.addresses("a.example.org."), things.addresses("b.example.org.")) == (["192.0.2.1"], ["192.0.2.1"])
    things.informer.begin()
    things.informer.take(octets(thing("b", "b", addresses=["192.0.2.7"])), False)
    assert things.addresses("a.example.org.") == ["192.0.2.1"], "until the list is whole"
    things.informer.commit()
    things.informer.flush()
    assert (things.addresses("a.example.org."), things.addresses("b.example.org.")) == ([], ["192.0.2.7"])


def test_late_events_change_nothing() -> None:
    things = Things()
    things.list(thing("a", "a", addresses=["192.0.2.5"], version=5))
    things.informer.take(octets(thing("a", "a", version=4)), False)
    things.informer.take(octets(thing("a", version=4)), True)
    things.informer.flush()
    assert things.addresses("a.example.org.") == ["192.0.2.5"]
    things.list(thing("a", "a", addresses=["192.0.2.6"], version=1))
    assert things.addresses("a.example.org.") == ["192.0.2.6"], "a list wins: versions start over with an etcd from a backup"


def test_serials_grow_with_each_change() -> None:
    things = Things()
    serials = []
    for number in range(5):
        things.list(thing("a", "a", addresses=[f"192.0.2.{number}"]))
        serials.append(things.handler.zones.zones[0].serial)
    assert serials == sorted(set(serials), key=lambda serial: serial or 0)


def test_hostile_objects_harm_no_others() -> None:
    things = Things()
    hostile = [thing(f"h{place}", hostname, f"good{place}") for place, hostname in enumerate(HOSTILE)]
    things.list(thing("ok", "ok"), *hostile, thing("odd", "odd", addresses=["192.0.2.1 192.0.2.2", "nowhere", "192.0.2.3\nwww A 192.0.2.4", ""]))
    assert things.addresses("ok.example.org.") == ["192.0.2.1"]
    assert all(things.addresses(f"good{place}.example.org.") == ["192.0.2.1"] for place in range(len(HOSTILE)))
    assert things.addresses("odd.example.org.") == []
    assert len(things) == 1 + len(HOSTILE)


def test_an_exception_of_a_plugin_is_the_object_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    things = Things()
    records = things.records
    monkeypatch.setattr(things, "records", lambda found: records(found) if found.name != "b" else 1 / 0)
    things.list(thing("a", "a"), thing("b", "b"), thing("c", "c"))
    assert [things.addresses(f"{name}.example.org.") for name in "abc"] == [["192.0.2.1"], [], ["192.0.2.1"]]
    assert things.texts == ["things.example.net lab/b: ZeroDivisionError: division by zero"]


def test_many_objects_and_a_large_one() -> None:
    """100,000 objects, and one of a megabyte beside them."""
    things = Things("example.org.", "example.net.")
    large = thing("large", *(f"n{number}.example.org" for number in range(50_000)))
    assert len(octets(large)) > 1_000_000
    things.list(
        large,
        *(thing(f"t{number}", f"t{number}.example.org", addresses=[f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"]) for number in range(100_000)),
    )
    assert len(things) == 100_000 + NAMES_MOST
    assert things.addresses("t99999.example.org.") == ["10.1.134.159"]
    things.informer.take(octets(thing("t5", "t5.example.org", addresses=["192.0.2.5"], version=2)), False)
    things.informer.flush()
    assert things.addresses("t5.example.org.") == ["192.0.2.5"]
    things.list()
    assert len(things) == 0


# ---- streams ----


def fed(things: Things, data: bytes, watch: bool = True) -> ObjectStream:
    stream = ObjectStream(things.informer)
    if not watch:
        stream.begin_list()
    stream.begin("application/json", watch, len(data))
    try:
        stream.feed(data, len(data))
        if not watch:
            stream.finish_list()
            stream.commit_list()
    finally:
        stream.flush()
    return stream


def event(kind: str, value: Any) -> bytes:
    return octets({"type": kind, "object": value}) + b"\n"


def test_events_of_a_watch() -> None:
    things = Things()
    things.list()
    stream = fed(things, event("ADDED", thing("a", "a", version=7)) + event("MODIFIED", thing("a", "b", version=8)))
    assert (stream.version, stream.objects) == ("8", 2)
    assert (things.addresses("a.example.org."), things.addresses("b.example.org.")) == ([], ["192.0.2.1"])
    fed(things, event("DELETED", thing("a", "b", version=9)))
    assert len(things) == 0
    with pytest.raises(ApiError, match="too old"):
        fed(things, event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))


def refused(kind: str) -> Any:
    """How many objects of a kind have been refused."""
    return dict(MALFORMED.collect()).get((kind,), 0)


DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize("data", [b"garbage", b"[1]"])
def test_a_watch_that_sends_garbage(data: bytes) -> None:
    """An error, after which a new list is read; what is known stays."""
    things = Things()
    things.list(thing("a", "a"))
    with pytest.raises(StreamError):
        fed(things, event("ADDED", thing("b", "b", version=2)) + data + event("DELETED", thing("a", version=3)))
    assert (things.addresses("a.example.org."), things.addresses("b.example.org.")) == (["192.0.2.1"], ["192.0.2.1"])


REFUSED = [
    b"{}{}",
    b'{"type": "ADDED"}',
    event("ODD", thing()),
    event("ADDED", 1),
    event("ADDED", {}),
    event("ADDED", {"metadata": {"name": []}}),
    event("ADDED", {"metadata": {"name": "\ud800"}}),
    event("BOOKMARK", {"metadata": 1}),
    event("ADDED", thing("c", 10**400, version=4)),
    event("ADDED", thing("c", "c", version=4)).replace(b'"spec"', b'"status": ' + DEEP + b', "spec"'),
    event("ADDED", thing("c", "c\ud800", version=4)),
    event("ADDED", thing("c", "c@", version=4)).replace(b"@", b"\xff"),
]


@pytest.mark.parametrize("data", REFUSED)
def test_a_refused_object_costs_itself_alone(data: bytes) -> None:
    before = refused(repr(KIND))
    things = Things()
    things.list(thing("a", "a"), thing("c", "c"))
    fed(things, event("ADDED", thing("b", "b", version=2)) + data + event("DELETED", thing("a", version=5)))
    assert (things.addresses("a.example.org."), things.addresses("b.example.org.")) == ([], ["192.0.2.1"])
    assert refused(repr(KIND)) > before
    named = b'"c"' in data
    assert things.addresses("c.example.org.") == ([] if named else ["192.0.2.1"]), "its former version is withdrawn"
    assert list(things.informer.refusals.standing) == [("lab", "c")] * named


def test_a_list_with_a_refused_object_is_taken() -> None:
    things = Things()
    things.list(thing("a", "a"), thing("c", "c"))
    items = octets(thing("a", "x")) + b"," + octets(thing("c", "c", version=4)).replace(b'"spec"', b'"status": ' + DEEP + b', "spec"')
    stream = ObjectStream(things.informer)
    stream.begin_list()
    stream.begin("application/json", False, -2)
    data = b'{"metadata": {"resourceVersion": "9", "odd": ' + DEEP + b'}, "items": [' + items + b"]}"
    stream.feed(data, len(data))
    stream.end()
    stream.finish_list()
    stream.commit_list()
    assert (stream.version, things.addresses("x.example.org."), things.addresses("c.example.org.")) == ("9", ["192.0.2.1"], [])


class Broken(Things):
    """Fails for one object."""

    def changed(self, watched: Watched, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        if after is not None and "bad" in after["hostnames"]:
            raise KeyError("bad")
        super().changed(watched, before, after)


def test_a_listener_that_fails_for_an_object_lacks_that_object_alone() -> None:
    broken = Broken()
    other = Things()
    broken.informer.attach(other)
    broken.list(thing("a", "a"), thing("b", "b"))
    broken.list(thing("a", "a", "bad"), thing("b", "b", "c"))
    assert [broken.addresses(f"{name}.example.org.") for name in "abc"] == [[], ["192.0.2.1"], ["192.0.2.1"]]
    other.flush()
    assert other.addresses("bad.example.org.") == ["192.0.2.1"]


def test_protobuf_is_refused() -> None:
    with pytest.raises(StreamError, match="unexpected content type"):
        ObjectStream(Informer(WATCHED)).begin("application/vnd.kubernetes.protobuf", True, -1)


def test_mutated_streams_end_in_an_error_or_not_at_all() -> None:
    chance = random.Random(7)
    things = Things()
    things.list(thing("a", "a"))
    whole = b"".join(event("MODIFIED", thing(name, f"{name}.example.org", "x", version=9)) for name in "abc")
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
        try:
            fed(things, bytes(data))
        except (StreamError, ApiError):
            pass
    things.list(thing("a", "a"))
    assert (len(things), things.addresses("a.example.org.")) == (1, ["192.0.2.1"])
