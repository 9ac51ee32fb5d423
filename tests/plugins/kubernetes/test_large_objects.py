"""Objects that one record of a zone of objects does not hold: each comes back whole, or is left out alone."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.decode.stream import JSON, Stream
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.replica import join
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone import objects
from fastdns.plugins.kubernetes.zone.changes import Changes
from tests.plugins.kubernetes.objects import Object, give_events, give_list, namespace, pod, service, service_import, slice_of, thing
from tests.plugins.kubernetes.test_journal import Replica
from tests.plugins.kubernetes.test_replica import EVERYTHING, ZONE, shown

#: Pieces of an object, and octets of a piece (zone/pieces.pyx).
PIECES_MOST, PIECE_MOST = 1024, 32_000
#: Octets of a record that any message of a transfer holds (RFC 5936).
MESSAGE_HOLDS = 63_000
#: Records of one type at one name that an index holds.
RRSET_MOST = 65_535


def ports(count: int) -> list[str]:
    return [f"a-port-of-many-{number:05}:TCP:{number % 65_535 + 1}" for number in range(count)]


def addresses(count: int) -> Iterable[str]:
    return (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(count))


def hinted(name: str, owner: str, endpoints: int, hints: int) -> Object:
    zones = [{"name": f"zone-of-a-region-with-a-long-name-{number}"} for number in range(hints)]
    made = [{"addresses": [address], "hints": {"forZones": zones}} for address in addresses(endpoints)]
    return thing(name, None, {"kubernetes.io/service-name": owner}, addressType="IPv4", endpoints=made, ports=[{"name": "http", "port": 80}])


LARGE = {
    "ports of a Service": (Kind.SERVICE, service("evil/large", "10.96.6.6", ports=ports(2_500))),
    "external addresses of a Service": (Kind.SERVICE, service("evil/large", "10.96.6.6", externalIPs=list(addresses(4_000)))),
    "ports and addresses of a ServiceImport": (Kind.IMPORT, service_import("evil/large", *addresses(2_000), ports=ports(2_000))),
    "ports of an EndpointSlice": (Kind.SLICE, slice_of("evil/large", "large", "10.0.0.1", "10.0.0.2", ports=ports(2_500))),
    "more endpoints than an RRset holds": (Kind.SLICE, slice_of("evil/large", "large", *addresses(66_000))),
    "endpoints with many hints": (Kind.SLICE, hinted("evil/large", "large", 1_000, 40)),
    "labels of a Pod": (Kind.POD, pod("evil/large", "10.0.0.9", labels={})),
}
LARGE["labels of a Pod"][1]["metadata"]["labels"] = {f"label-{number:05}": "a-value-of-a-label" for number in range(1_500)}


def fill(store: Store) -> None:
    for kind in Kind:
        give_list(store, kind, *([namespace("evil"), namespace("shop")] if kind == Kind.NAMESPACE else ()))
    give_events(store, Kind.SERVICE, ("ADDED", service("shop/web", "10.96.0.1")))


def give(store: Store, kind: Kind, what: str, item: Object) -> None:
    """An event of a watch; labels of pods are wanted."""
    stream = Stream(store, kind, True)
    body = json.dumps({"type": what, "object": item}).encode() + b"\n"
    stream.begin(JSON, True, len(body))
    stream.feed(body, len(body))
    stream.end()
    stream.flush()


def centre(store: Store) -> Changes:
    extras = objects.EXTRA_LABELS | objects.EXTRA_PLACES
    options: dict[str, object] = {"kinds": EVERYTHING, "pods": "verified", "multicluster": ["cluster.local."], "objects": "objects.", "extras": extras}
    return Changes(Kubernetes("kubernetes", store, ["cluster.local.", "objects."], "cluster.local.", **options), ZONE)  # type: ignore[arg-type]


def copied(replica: Replica) -> Store:
    """The objects as a replica has them."""
    copy = Store(places=True)
    owned: dict[bytes, list[bytes]] = {}
    for owner, kind, _, rdata in replica.rows:
        if owner != ZONE and kind == objects.TYPE_OBJECT:
            owned.setdefault(owner, []).append(rdata)
    for kind in Kind:
        objects.begin(copy, kind)
    for parts in owned.values():
        objects.upsert(copy, *join(parts), pod_labels=True)
    for kind in Kind:
        objects.commit(copy, kind)
    return copy


@pytest.mark.parametrize("what", LARGE)
def test_a_large_object_comes_back(what: str) -> None:
    kind, large = LARGE[what]
    store = Store(places=True)
    fill(store)
    changes = centre(store)
    replica = Replica(changes)
    give(store, kind, "ADDED", large)
    replica.follow()
    assert shown(copied(replica)) == shown(store)
    records: dict[bytes, int] = {}
    for owner, _, _, rdata in replica.rows:
        records[owner] = records.get(owner, 0) + 1
        assert len(rdata) < MESSAGE_HOLDS
    assert max(records.values()) < RRSET_MOST
    give_events(store, Kind.SERVICE, ("MODIFIED", service("shop/web", "10.96.0.2")))
    replica.follow()
    give(store, kind, "DELETED", large)
    replica.follow()
    assert shown(copied(replica)) == shown(store)
    changes.close()


def field(number: int, data: bytes) -> bytes:
    """A field of Kubernetes' protobuf."""
    length, octets = len(data), b""
    while length >= 0x80:
        octets += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + octets + bytes([length]) + data


def protobuf_slice(name: str, endpoints: Iterable[str], hints: int) -> bytes:
    """An EndpointSlice of the Service evil/large, with so many hints of 129 octets for each endpoint."""
    label = field(11, field(1, b"kubernetes.io/service-name") + field(2, b"large"))
    hint = field(8, field(1, field(1, b"z" * 125)) * hints)
    head = field(1, field(1, name.encode()) + field(3, b"evil") + label)
    return head + b"".join(field(2, field(1, address.encode()) + hint) for address in endpoints)


def test_an_object_that_no_records_hold_is_left_out_alone() -> None:
    store = Store(places=True)
    fill(store)
    changes = centre(store)
    replica = Replica(changes)
    before = shown(store)
    hints = PIECES_MOST * PIECE_MOST // 4_200 // 125 + 1
    objects.upsert(store, Kind.SLICE, protobuf_slice("large", addresses(4_200), hints))
    replica.follow()
    assert changes.left_out() == {(0, b"\x05large\x04evil"): 1}
    assert shown(copied(replica)) == before
    give_events(store, Kind.SERVICE, ("MODIFIED", service("shop/web", "10.96.0.2")))
    replica.follow()
    assert changes.left_out() is None
    objects.upsert(store, Kind.SLICE, protobuf_slice("large", addresses(4_200), 1))
    replica.follow()
    assert changes.left_out() == {}
    assert shown(copied(replica)) == shown(store)
    changes.close()


def test_rows_of_large_objects_before_their_change_are_not_all_kept() -> None:
    """Where they are more than 32 MB, a version has its digest and no differences, and the next one has them again."""
    store = Store(places=True)
    fill(store)
    for number in range(3):
        objects.upsert(store, Kind.SLICE, protobuf_slice(f"large-{number}", addresses(1_000), 120))
    give_events(store, Kind.SERVICE, ("ADDED", service("evil/other", "10.96.0.9")))
    changes = centre(store)
    replica = Replica(changes)
    for number in range(3):
        objects.upsert(store, Kind.SLICE, protobuf_slice(f"large-{number}", addresses(1_001), 120))
    assert changes.advance() == (None, None)
    assert changes.too_large
    replica = Replica.of(changes)
    give_events(store, Kind.SERVICE, ("MODIFIED", service("shop/web", "10.96.0.2")))
    replica.follow()
    assert not changes.too_large
    assert shown(copied(replica)) == shown(store)
    changes.close()
