"""The store keeps what it is given, takes changes for changes, and gives memory back."""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import pytest

from fastdns.plugins.kubernetes.decode.stream import Stream
from fastdns.plugins.kubernetes.store.gauges import make_store, objects
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.system import epoch
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.objects import (
    Object,
    alias,
    give_events,
    give_list,
    namespace,
    pod,
    service,
    service_import,
    slice_of,
    thing,
)


def contents(store: Store) -> dict[Kind, Any]:
    """All objects of a store, endpoints and ports included."""
    copy = Recorder()
    copy.take(store)
    return {kind: copy.objects(kind) for kind in Kind}


OBJECTS: dict[Kind, list[Object]] = {
    Kind.NAMESPACE: [namespace("shop"), namespace("empty")],
    Kind.SERVICE: [
        service("shop/web", "10.0.0.1", "fd00::1", ports=("http:TCP:80", "dns:UDP:53")),
        service("shop/plain", "10.0.0.2", ports=()),
        service("shop/db", "None"),
        service("shop/lb", "10.0.0.3", externalIPs=["192.0.2.1", "2001:db8::1"]),
        service("no-such-namespace/web", "10.0.0.4"),
        alias("shop/out", "Example.COM."),
        alias("shop/address", "192.0.2.9"),
        service("shop/" + "x" * 63, "10.0.0.5"),
    ],
    Kind.SLICE: [
        slice_of("shop/db-1", "db", "172.0.0.1;db-0;db-0-pod;zone-a", "172.0.0.2", "172.0.0.3;;loose"),
        slice_of("shop/db-2", "db", "fd00::2;db-0", ports=("http:TCP:80", "https:TCP:443")),
        slice_of("shop/db-3", "db"),
        slice_of("shop/db-4", "db", "host.example.com", ports=()),
        slice_of("shop/early", "not-yet", "172.0.0.9"),
    ],
    Kind.POD: [pod("shop/web-0", "172.0.0.1"), pod("shop/web-1", "fd00::77"), pod("shop/pending", ""), pod("shop/host", "192.0.2.50")],
    Kind.IMPORT: [service_import("shop/shared", "10.7.0.1", "fd00:7::1"), service_import("shop/far", ports=())],
    Kind.IMPORT_SLICE: [slice_of("shop/far-1", "far", "172.9.0.1;a", cluster="c1"), slice_of("shop/far-2", "far", "172.9.0.1", cluster="c2")],
}


def filled() -> tuple[Store, Recorder]:
    store, model = Store(), Recorder()
    for kind, listed in OBJECTS.items():
        give_list(store, kind, *listed)
        give_list(model, kind, *listed)
    return store, model


def test_everything_comes_back() -> None:
    store, model = filled()
    assert contents(store) == {kind: model.objects(kind) for kind in Kind}
    assert store.counts() == {
        "namespaces": 2,
        "services": 8,
        "endpointslices": 5,
        "pods": 4,
        "serviceimports": 2,
        "importslices": 2,
    }
    assert store.synced == 63
    assert store.stale == 0


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (Kind.SERVICE, service("shop/a.b", "10.0.0.9")),
        (Kind.SERVICE, service("shop/" + "x" * 64, "10.0.0.9")),
        (Kind.SERVICE, service("sh.op/web", "10.0.0.9")),
        (Kind.SLICE, slice_of("shop/orphan", "", "172.0.0.8")),
        (Kind.SLICE, slice_of("shop/odd", "a.b", "172.0.0.8")),
        (Kind.NAMESPACE, namespace("x" * 64)),
    ],
)
def test_what_no_name_can_reach_is_left_out(kind: Kind, item: Object) -> None:
    store = Store()
    give_list(store, kind, item)
    assert sum(store.counts().values()) == 0
    give_events(store, kind, ("DELETED", item))
    assert store.memory()[1] == 0


def test_a_pod_that_ends_stays_until_it_is_deleted() -> None:
    store = Store()
    give_list(store, Kind.POD, pod("shop/a", "10.0.0.1"))
    ending = pod("shop/a", "")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other = pod("shop/b", "10.0.0.2")
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    give_events(store, Kind.POD, ("MODIFIED", ending), ("ADDED", other))
    assert [item["ip"][0] for item in contents(store)[Kind.POD].values()] == ["10.0.0.1"]
    give_list(store, Kind.POD, ending)  # a list shows it, too
    assert store.counts()["pods"] == 1
    give_events(store, Kind.POD, ("DELETED", ending))
    assert store.counts()["pods"] == 0


def test_late_events_change_nothing() -> None:
    store = Store()
    give_list(store, Kind.SERVICE, service("shop/web", "10.0.0.1", version=50))
    give_events(
        store,
        Kind.SERVICE,
        ("MODIFIED", service("shop/web", "10.0.0.2", version=49)),
        ("DELETED", service("shop/web", version=48)),
    )
    assert contents(store)[Kind.SERVICE]["shop", "web"]["cluster_ips"][0][0] == "10.0.0.1"
    # A list wins, whatever its versions: the API server may have been restored from a backup.
    give_list(store, Kind.SERVICE, service("shop/web", "10.0.0.3", version=7))
    assert contents(store)[Kind.SERVICE]["shop", "web"]["cluster_ips"][0][0] == "10.0.0.3"


def test_a_list_drops_what_it_does_not_show() -> None:
    store, _ = filled()
    for kind in Kind:
        give_list(store, kind, OBJECTS[kind][0])
    assert set(store.counts().values()) == {1}
    assert {kind: len(kept) for kind, kept in contents(store).items()} == dict.fromkeys(Kind, 1)
    for kind in Kind:
        give_list(store, kind)
    store.reclaim()
    store.reclaim()
    tables = store.memory()[1]
    assert sum(store.counts().values()) == 0
    # Only the tables are left.
    assert tables < 3000


class Model:
    """Random objects of all kinds that come, change and go."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.standing: dict[Kind, dict[str, Object]] = {kind: {} for kind in Kind}

    def address(self) -> str:
        return f"10.{self.random.randrange(2)}.0.{self.random.randrange(40)}" if self.random.random() < 0.7 else f"fd00::{self.random.randrange(1, 40):x}"

    def make(self, kind: Kind) -> Object:
        choose = self.random
        space, number = f"ns-{choose.randrange(5)}", choose.randrange(12)
        name = f"{space}/thing-{number}"
        ports = choose.sample(["http:TCP:80", "dns:UDP:53", "dns-tcp:TCP:53", "x:SCTP:9"], choose.randrange(1, 4))
        if kind is Kind.NAMESPACE:
            return namespace(space)
        if kind is Kind.SERVICE:
            shape = choose.randrange(4)
            if shape == 0:
                return alias(name, choose.choice(["a.example.com", "b.example.com."]))
            return service(name, "None", ports=ports) if shape == 1 else service(name, f"10.96.0.{choose.randrange(30)}", ports=ports)
        if kind is Kind.POD:
            return pod(name, self.address())
        if kind is Kind.IMPORT:
            return service_import(name, *[f"10.7.0.{choose.randrange(30)}"][: choose.randrange(2)], ports=ports)
        endpoints = [
            f"{self.address()};{choose.choice(['', 'a', 'b', 'c'])};pod-{choose.randrange(9)};zone-{choose.randrange(3)}" for _ in range(choose.randrange(9))
        ]
        cluster = f"c{choose.randrange(2)}" if kind is Kind.IMPORT_SLICE else ""
        return slice_of(f"{space}/slice-{choose.randrange(30)}", f"thing-{number}", *endpoints, ports=ports, cluster=cluster)

    def event(self, kind: Kind) -> tuple[str, Object]:
        kept = self.standing[kind]
        if kept and self.random.random() < 0.35:
            name = self.random.choice(sorted(kept))
            gone = kept.pop(name)
            return "DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": namespace("x")["metadata"]["resourceVersion"]}}
        item = self.make(kind)
        data = item["metadata"]
        name = f"{data.get('namespace', '')}/{data['name']}"
        what = "MODIFIED" if name in kept else "ADDED"
        kept[name] = item
        return what, item

    def fill(self, store: Store, *others: Store) -> None:
        """Lists without objects, also for others, and 100 events for the first."""
        for kind in Kind:
            for each in (store, *others):
                give_list(each, kind)
        for _ in range(100):
            self.change(store)

    def change(self, store: Store, relist: float = 0) -> None:
        """One event; before it, this often, a list that lacks half of the objects."""
        kind = self.random.choice(list(Kind))
        if self.random.random() < relist:
            kept = self.random.sample(sorted(self.standing[kind].items()), len(self.standing[kind]) // 2)
            self.standing[kind] = dict(kept)
            give_list(store, kind, *self.standing[kind].values())
        give_events(store, kind, self.event(kind))


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_events_gives_what_a_dictionary_would(seed: int) -> None:
    model, store, recorder = Model(seed), Store(), Recorder()
    for _ in range(60):
        kind = model.random.choice(list(Kind))
        if model.random.random() < 0.15:
            listed = model.random.sample(sorted(model.standing[kind].items()), len(model.standing[kind]) // 2)
            model.standing[kind] = dict(listed)
            for sink in (store, recorder):
                give_list(sink, kind, *model.standing[kind].values())
        events = [model.event(kind) for _ in range(model.random.randrange(1, 60))]
        for sink in (store, recorder):
            give_events(sink, kind, *events)
    wanted = {kind: recorder.objects(kind) for kind in Kind}
    assert contents(store) == wanted
    assert list(store.counts().values()) == [len(wanted[kind]) for kind in Kind]


#: `Source` of decode/objects.pxd.
SOURCE_ZONE = 3


@pytest.mark.parametrize("seed", range(6))
def test_what_comes_all_at_once_is_found_by_its_addresses(seed: int) -> None:
    """Objects that replace others before the list ends, or are gone by then; and a list that begins anew. Before its end nothing is found."""
    model, store, other, recorder = Model(seed), Store(), Store(), Recorder()
    streams = [Stream(store, kind) for kind in (Kind.SLICE, Kind.POD)]
    addresses = [bytes([10, x, 0, y]) for x in range(2) for y in range(40)] + [b"\xfd" + bytes(14) + bytes([x]) for x in range(40)]
    for stream in streams * 2:
        stream.begin_list(SOURCE_ZONE)
    for kind in (Kind.SLICE, Kind.POD):
        give_list(other, kind)
        for event in [model.event(kind) for _ in range(150)]:
            give_events(store, kind, event)
            give_events(other, kind, event)
    assert not any(recorder.at(store, address) for address in addresses)
    for stream in streams:
        stream.commit_list()
    for _ in range(3):
        wanted = [recorder.at(other, address) for address in addresses]
        assert any(wanted)
        assert [recorder.at(store, address) for address in addresses] == wanted
        for kind in (Kind.SLICE, Kind.POD):
            for event in [model.event(kind) for _ in range(50)]:
                give_events(store, kind, event)
                give_events(other, kind, event)
    for stream in streams:
        stream.drop()
    assert not any(recorder.at(store, address) for address in addresses)


def test_serials() -> None:
    store, _ = filled()

    def moved(kind: Kind, *events: tuple[str, Object]) -> list[str]:
        before = store.serials
        while int(time.time() - 0.05) <= max(before):  # the kernel updates time(2) a tick late
            time.sleep(0.01)
        give_events(store, kind, *events)
        return [name for name, old, new in zip(("zone", "imports", "external"), before, store.serials, strict=True) if new != old]

    web = service("shop/web", "10.0.0.1", "fd00::1", ports=("http:TCP:80", "dns:UDP:53"))
    assert moved(Kind.SERVICE, ("MODIFIED", web)) == []  # only its version is new
    assert moved(Kind.SERVICE, ("MODIFIED", service("shop/web", "10.0.0.8", ports=("http:TCP:80", "dns:UDP:53")))) == []
    assert moved(Kind.SERVICE, ("MODIFIED", service("shop/web", "10.0.0.8", ports=("http:TCP:81",)))) == ["zone", "external"]
    assert moved(Kind.SERVICE, ("MODIFIED", alias("shop/out", "example.net"))) == ["zone"]
    assert moved(Kind.SERVICE, ("MODIFIED", service("shop/lb", "10.0.0.3", externalIPs=["192.0.2.2"]))) == ["external"]
    assert moved(Kind.SLICE, ("MODIFIED", slice_of("shop/db-3", "db", "172.0.0.4"))) == ["zone"]
    assert moved(Kind.POD, ("MODIFIED", thing("shop/web-0", None, {"new": "label"}, status={"podIP": "172.0.0.1"}))) == []
    assert moved(Kind.POD, ("MODIFIED", pod("shop/web-0", "172.0.0.7"))) == ["zone"]
    assert moved(Kind.NAMESPACE, ("ADDED", namespace("fresh"))) == []
    assert moved(Kind.IMPORT, ("MODIFIED", service_import("shop/shared", "10.7.0.2"))) == ["imports"]
    assert moved(Kind.IMPORT, ("DELETED", service_import("shop/shared"))) == ["zone"]


# ---- memory ----


@pytest.mark.memory
def test_a_relist_takes_no_memory() -> None:
    store = Store()
    pods = [pod(f"shop/pod-{n}", f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}") for n in range(5000)]
    slices = [slice_of(f"shop/slice-{n}", f"svc-{n}", *(f"10.9.{n}.{k}" for k in range(100))) for n in range(50)]
    give_list(store, Kind.POD, *pods)
    give_list(store, Kind.SLICE, *slices)
    first = store.memory()
    for _ in range(3):
        give_list(store, Kind.POD, *pods)
        give_list(store, Kind.SLICE, *slices)
        assert store.memory() == first
    assert first[0] < 5000 * 90 + 5000 * 130 + 300_000


@pytest.mark.parametrize("online", [False, True], ids=["idle", "a worker at work"])
def test_what_is_replaced_is_given_back_once_no_worker_can_read_it(online: bool) -> None:
    """A worker that never announces quiescence holds everything back; as soon as it does, all is free."""
    store = Store()
    give_list(store, Kind.SLICE, *(slice_of(f"shop/slice-{n}", "db", "172.0.0.1") for n in range(8)))
    steady = store.memory()[1]
    try:
        if online:
            epoch.online(60)
        for round_ in range(40):
            give_events(store, Kind.SLICE, *(("MODIFIED", slice_of(f"shop/slice-{n}", "db", *(f"172.{round_}.0.{k}" for k in range(50)))) for n in range(8)))
        held = store.memory()[1]
        assert (held > steady + 200_000) is online
    finally:
        if online:
            epoch.offline(60)
    give_events(store, Kind.SLICE, *(("MODIFIED", slice_of(f"shop/slice-{n}", "db", "172.0.0.1")) for n in range(8)))
    for _ in range(3):
        store.reclaim()
    # The table of addresses has grown for 400 addresses and keeps its size.
    assert store.memory()[1] < steady + 20_000


@pytest.mark.memory
def test_many_changes_leave_no_memory_behind() -> None:
    store = Store()
    items = [service(f"shop/svc-{n}", f"10.0.0.{n}") for n in range(100)]
    give_list(store, Kind.SERVICE, *items)
    rounds = [[("MODIFIED", service(f"shop/svc-{n}", f"10.{k}.0.{n}", version=10**6)) for n in range(100)] for k in range(20)]
    for events in rounds:
        give_events(store, Kind.SERVICE, *events)
    steady = store.memory()
    for _ in range(25):
        for events in rounds:
            give_events(store, Kind.SERVICE, *events)
    assert store.memory() == steady


def test_the_metrics_tell_of_all_stores() -> None:
    gc.collect()
    first, second = make_store(), make_store()
    before = dict(objects.collect())[("pods",)]
    give_list(first, Kind.POD, pod("shop/a", "10.0.0.1"))
    give_list(second, Kind.POD, pod("shop/a", "10.0.0.1"), pod("shop/b", "10.0.0.2"))
    assert dict(objects.collect())[("pods",)] == before + 3
    del second
    gc.collect()
    assert dict(objects.collect())[("pods",)] == before + 1
