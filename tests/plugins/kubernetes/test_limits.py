"""An object beyond a limit is cut: it costs that part, a line of the log and a count, and nobody else anything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from fastdns.plugins.kubernetes.decode import cuts
from fastdns.plugins.kubernetes.decode.stream import JSON, PROTOBUF, Stream
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.telemetry import exposition
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.objects import Object, give_events, give_list, slice_of
from tests.plugins.kubernetes.test_decoders import MESSAGES, feed, field, frame, message, thing
from tests.waiting import until

HTTP = {"name": "http", "protocol": "TCP", "port": 80}


@pytest.fixture(autouse=True)
def fresh() -> None:
    """No line of an earlier test hides one."""
    cuts.lines.begun = 0.0


def addresses(count: int) -> list[str]:
    return [f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(count)]


def service(name: str, **spec: Any) -> Object:
    return thing(name, spec={"clusterIP": "10.96.0.1", "ports": [HTTP], **spec})


def balanced(name: str, count: int) -> Object:
    return service(name) | {"status": {"loadBalancer": {"ingress": [{"ip": ip} for ip in addresses(count)]}}}


def sliced(name: str, endpoints: list[dict[str, Any]], ports: Any = (HTTP,)) -> Object:
    return thing(name, labels={"kubernetes.io/service-name": "web"}, endpoints=endpoints, ports=list(ports))


def ports(count: int, length: int = 5) -> list[dict[str, Any]]:
    return [{"name": f"{n:0{length}d}", "protocol": "TCP", "port": n % 65535 + 1} for n in range(count)]


def pod(name: str, labels: int) -> Object:
    return thing(name, labels={f"example.net/label-{n}": "x" for n in range(labels)}, status={"podIP": "10.1.0.1"})


def events(kind: Kind, things: list[Object], protobuf: bool, sink: Any) -> None:
    stream = Stream(sink, kind, True)
    if protobuf:
        stream.begin(PROTOBUF + ";stream=watch", True, -2)
        feed(stream, b"".join(frame("MODIFIED", MESSAGES[kind](one)) for one in things))
    else:
        stream.begin(JSON, True, -2)
        feed(stream, b"\n".join(json.dumps({"type": "MODIFIED", "object": one}).encode() for one in things))


Size = Callable[[dict[str, Any]], int]

#: Kind, object, what is counted, how much of it stays, and the part as the log names it with what is cut.
CASES: dict[str, tuple[Kind, Object, Size, int, str]] = {
    "4,096 external IPs": (Kind.SERVICE, service("x", externalIPs=addresses(4096)), lambda one: len(one["external_ips"]), 4096, ""),
    "5,000": (Kind.SERVICE, service("x", externalIPs=addresses(5000)), lambda one: len(one["external_ips"]), 4096, "904 external addresses"),
    "66,000": (Kind.SERVICE, service("x", externalIPs=addresses(66000)), lambda one: len(one["external_ips"]), 4096, "61904 external addresses"),
    "ingresses": (Kind.SERVICE, balanced("x", 66000), lambda one: len(one["external_ips"]), 4096, "61904 external addresses"),
    "equal external IPs": (Kind.SERVICE, service("x", externalIPs=["10.0.0.1"] * 3000), lambda one: len(one["external_ips"]), 1, ""),
    "host names": (Kind.SERVICE, service("x", externalIPs=["h" * 256, "10.0.0.1"]), lambda one: len(one["external_ips"]), 1, "1 external addresses"),
    "cluster IPs": (Kind.SERVICE, service("x", clusterIPs=addresses(70000)), lambda one: len(one["cluster_ips"]), 256, "69744 cluster IPs"),
    "ports": (Kind.SERVICE, service("x", ports=ports(70000)), lambda one: len(one["ports"]), 4096, "65904 ports"),
    "names of ports": (Kind.SERVICE, service("x", ports=ports(1000, 63)), lambda one: len(one["ports"]), 65535 // 66, "8 ports"),
    "a long name of a port": (Kind.SERVICE, service("x", ports=ports(1, 64)), lambda one: one["ports"][0][2], -1, "1 ports"),
    "a port out of range": (Kind.SERVICE, service("x", ports=[{"port": 70000}, HTTP]), lambda one: len(one["ports"]), 1, "1 ports"),
    "an external name": (Kind.SERVICE, service("x", externalName="n" * 5000), lambda one: len(one["external_name"]), 0, "1 external names"),
    "ports of a slice": (Kind.SLICE, sliced("x", [], ports(70000)), lambda one: len(one["ports"]), 4096, "65904 ports"),
    "a port of a slice": (Kind.SLICE, sliced("x", [], [{"port": -5}, {"port": 1 << 30}]), lambda one: one["ports"][0][2], -1, "2 ports"),
    "addresses": (Kind.SLICE, sliced("x", [{"addresses": addresses(70000)}]), lambda one: len(one["endpoints"]), 10000, "60000 endpoint addresses"),
    "endpoints": (
        Kind.SLICE,
        sliced("x", [{"addresses": [ip]} for ip in addresses(10001)]),
        lambda one: len(one["endpoints"]),
        10000,
        "1 endpoint addresses",
    ),
    "endpoints that are not ready": (
        Kind.SLICE,
        sliced("x", [{"addresses": [ip], "conditions": {"ready": False}} for ip in addresses(10001)]),
        lambda one: len(one["endpoints"]),
        0,
        "",
    ),
    "host names of endpoints": (
        Kind.SLICE,
        sliced("x", [{"addresses": ["n" * 256]}, {"addresses": ["10.0.0.1"], "hostname": "h" * 64, "zone": "z" * 64, "nodeName": "n" * 254}]),
        lambda one: len("".join(str(text) for text in one["endpoints"][0][1:])),
        0,
        "1 endpoint addresses (at most 10000); 3 texts of endpoints",
    ),
    "512 labels": (Kind.POD, pod("x", 512), lambda one: len(one["labels"]), 512, ""),
    "513 labels": (Kind.POD, pod("x", 513), lambda one: len(one["labels"]), 0, "513 labels"),
    "66,000 labels": (Kind.POD, pod("x", 66000), lambda one: len(one["labels"]), 0, "66000 labels"),
    "long labels": (
        Kind.POD,
        thing("x", labels={f"{n:0317d}": "v" * 63 for n in range(90)}, status={"podIP": "10.1.0.1"}),
        lambda one: len(one["labels"]),
        0,
        "90 labels",
    ),
    "a label that is too long": (
        Kind.POD,
        thing("x", labels={"a": "b", "k" * 318: ""}, status={"podIP": "10.1.0.1"}),
        lambda one: len(one["labels"]),
        0,
        "2 labels",
    ),
}


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
@pytest.mark.parametrize(("kind", "item", "size", "kept", "said"), CASES.values(), ids=CASES.keys())
def test_what_is_beyond_a_limit_costs_itself(lines: list[str], kind: Kind, item: Object, size: Size, kept: int, said: str, protobuf: bool) -> None:
    recorder = Recorder()
    before = count_left_out()
    small = {Kind.SERVICE: service, Kind.SLICE: lambda name: sliced(name, []), Kind.POD: lambda name: pod(name, 1)}[kind]
    events(kind, [small("before"), item, small("behind")], protobuf, recorder)
    found = recorder.objects(kind)
    assert [name for _, name in found] == ["before", "x", "behind"]
    assert size(found["shop", "x"]) == kept
    if not said:
        assert lines == []
        return
    (line,) = lines
    assert line.startswith(f"[WARNING] plugin/kubernetes: {cuts.KINDS[kind]} shop/x: skips {said}")
    assert count_left_out() > before


def count_left_out() -> float:
    return sum(
        float(line.rpartition(" ")[2])
        for line in exposition.page().decode().splitlines()
        if line.startswith("fastdns_kubernetes_object_records_left_out_total{")
    )


def test_imports_are_cut(lines: list[str]) -> None:
    recorder = Recorder()
    item = thing("x", spec={"type": "ClusterSetIP", "ips": addresses(300), "ports": [{"port": 1 << 40}, {"name": "n" * 300, "port": 1}, HTTP]})
    events(Kind.IMPORT, [item], False, recorder)
    found = recorder.objects(Kind.IMPORT)["shop", "x"]
    assert (len(found["ips"]), found["ports"]) == (256, [("http", "TCP", 80)])
    assert "ServiceImport shop/x: skips 2 ports" in lines[0]
    assert "; 44 cluster IPs" in lines[0]


def test_a_key_that_comes_twice_has_its_last_value() -> None:
    recorder = Recorder()
    one = pod("x", 0)
    twice = message(*((11, message((1, "app"), (2, value))) for value in ("web", "db")), (11, message((1, "b"))))
    stream = Stream(recorder, Kind.POD, True)
    stream.begin(PROTOBUF + ";stream=watch", True, -2)
    feed(stream, frame("ADDED", field(1, message((1, "x"), (3, "shop")) + twice)))
    text = json.dumps({"type": "ADDED", "object": one}).replace('"labels": {}', '"labels": {"app": "web", "app": "db", "b": ""}')
    stream.begin(JSON, True, -2)
    feed(stream, text.replace('"name": "x"', '"name": "y"').encode())
    assert [found["labels"] for found in recorder.objects(Kind.POD).values()] == [{"app": "db", "b": ""}] * 2


@pytest.mark.parametrize("number", range(1, 20))
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_a_hundred_thousand_empty_fields(kind: Kind, number: int) -> None:
    """In the object, in its metadata and in its spec."""
    recorder = Recorder()
    empty = field(number, b"") * 100_000
    names = message((1, "x"), (3, "shop"))
    rest = empty if number != 1 else b""
    stream = Stream(recorder, kind, True)
    stream.begin(PROTOBUF + ";stream=watch", True, -2)
    feed(stream, frame("ADDED", field(1, (empty if number not in (1, 3, 9) else b"") + names) + rest + field(2, empty) + field(3, empty)))
    feed(stream, frame("ADDED", field(1, message((1, "z"), (3, "shop")))))
    assert [name for _, name in recorder.objects(kind)] == ["x", "z"]


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_objects_as_large_as_the_api_takes(kind: Kind, protobuf: bool) -> None:
    recorder = Recorder()
    large = thing("x", annotations={f"a{n}": "v" * 100 for n in range(12_000)}, labels={f"l{n}": "" for n in range(10_000)}, status={}, endpoints=[], ports=[])
    events(kind, [large, thing("z", status={}, endpoints=[], ports=[])], protobuf, recorder)
    assert [name for _, name in recorder.objects(kind)] == ["x", "z"]


def test_a_namespace_has_ten_lines_a_minute(lines: list[str]) -> None:
    items = [thing(f"x{n}", "noisy", spec={"clusterIP": "10.0.0.1", "externalName": "n" * 255}) for n in range(30)]
    events(Kind.SERVICE, [*items, *items, thing("y", "quiet", spec={"externalName": "n" * 255})], True, Recorder())
    assert sum(" noisy/" in line for line in lines) == cuts.LINES
    assert sum(" quiet/y: " in line for line in lines) == 1
    cuts.lines.begun -= cuts.MINUTE
    events(Kind.SERVICE, items[:1], True, Recorder())
    assert lines[-2].endswith("namespace noisy: 40 more lines about objects that are cut")


# ---- the store ----


def contents(store: Store, kind: Kind) -> dict[Any, Any]:
    copy = Recorder()
    copy.take(store)
    return copy.objects(kind)


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
def test_a_change_that_is_cut_replaces_the_record(protobuf: bool) -> None:
    store = Store()
    events(Kind.SERVICE, [thing("web", version=1, spec={"clusterIP": "10.96.0.1", "externalIPs": ["192.0.2.1"]})], protobuf, store)
    events(Kind.SERVICE, [thing("web", version=2, spec={"clusterIP": "10.96.0.2", "externalIPs": addresses(66000), "ports": ports(5000)})], protobuf, store)
    found = contents(store, Kind.SERVICE)["shop", "web"]
    assert [text for text, _, _ in found["cluster_ips"]] == ["10.96.0.2"]
    assert [text for text, _, _ in found["external_ips"]] == addresses(66000)[: len(found["external_ips"])]
    assert (len(found["external_ips"]), len(found["ports"])) == (3343, 4096)
    events(Kind.POD, [pod("web", 3)], protobuf, store)
    events(Kind.POD, [pod("web", 66000) | {"status": {"podIP": "10.1.0.2"}}], protobuf, store)
    (found,) = contents(store, Kind.POD).values()
    assert (found["ip"][0], found["labels"]) == ("10.1.0.2", {})
    assert Recorder().at(store, bytes([10, 1, 0, 1])) == []
    for number in (66000, 1):
        events(Kind.SERVICE, [thing("web", version=3, spec={"clusterIP": "10.96.0.2", "externalIPs": addresses(number)})], protobuf, store)
    give_events(store, Kind.SERVICE, ("DELETED", thing("web", version=4)))
    give_events(store, Kind.POD, ("DELETED", pod("web", 3)))
    store.reclaim()
    assert store.counts()["services"] == store.counts()["pods"] == 0


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this thread, the least of three."""
    spent = []
    for _ in range(3):
        begun = time.thread_time()
        work()
        spent.append(time.thread_time() - begun)
    return min(spent)


def test_equal_addresses_of_a_slice_cost_what_different_ones_cost() -> None:
    def changes(texts: list[str]) -> Callable[[], None]:
        things = [sliced("x", [{"addresses": texts[:-turn]}]) for turn in range(1, 5)]
        return lambda: events(Kind.SLICE, things, True, Store())

    assert seconds(changes(["10.0.0.1"] * 10000)) < 5 * seconds(changes(addresses(10000)))


def test_external_addresses_are_compared_by_a_set() -> None:
    def changes(count: int, times: int) -> Callable[[], None]:
        things = [service("x", externalIPs=addresses(count)[:: 1 if turn % 2 else -1]) for turn in range(times)]
        return lambda: events(Kind.SERVICE, things, True, Store())

    assert seconds(changes(4096, 4)) < 8 * seconds(changes(128, 128))


def test_an_endpoint_of_many_addresses_has_its_texts_once() -> None:
    store = Store(places=True)
    endpoint = {"hostname": "h" * 63, "zone": "z" * 63, "nodeName": "n" * 253, "hints": {"forZones": [{"name": f"{n:063d}"} for n in range(100)]}}
    events(Kind.SLICE, [sliced("x", [{"addresses": addresses(10000), **endpoint}])], True, store)
    assert store.memory()[1] < 1 << 20
    found = contents(store, Kind.SLICE)["shop", "x"]
    assert [text for (text, _, _), *_ in found["endpoints"]] == addresses(10000)
    assert {entry[1:] for entry in found["endpoints"]} == {("h" * 63, "", "z" * 63)}
    assert {(node, len(hints)) for node, hints in found["places"]} == {("n" * 253, 6700)}
    give_list(store, Kind.SLICE, slice_of("shop/x", "web", "10.0.0.1"))
    store.reclaim()
    assert store.counts()["endpointslices"] == 1


# ---- a watch ----


def test_others_change_while_one_object_is_beyond_all_limits(fakekube: Any, follow: Any, lines: list[str]) -> None:
    api = fakekube(["svc v/web 10.96.0.5", "eps v/web 10.1.0.5", "pod v/web 10.1.0.5"])
    recorder, lease = follow(Endpoint(api.url), Kind.SERVICE, Kind.SLICE, Kind.POD, pod_labels=True)
    hostile = {"namespace": "a", "name": "evil"}
    api.apply({"kind": "Service", "metadata": hostile, "spec": {"clusterIP": "10.96.1.1", "externalIPs": addresses(66000), "ports": ports(20000)}})
    api.apply(
        {"kind": "EndpointSlice", "metadata": {**hostile, "labels": {"kubernetes.io/service-name": "evil"}}, "endpoints": [{"addresses": addresses(66000)}]}
    )
    api.apply({"kind": "Pod", "metadata": {**hostile, "labels": {f"l{n}": "" for n in range(66000)}}, "spec": {}, "status": {"podIP": "10.1.1.1"}})
    api.apply("svc v/web 10.96.0.7")
    api.apply("eps v/web 10.1.0.7")
    api.apply("pod v/web 10.1.0.7")
    until(lambda: recorder.objects(Kind.SERVICE)["v", "web"]["cluster_ips"][0][0] == "10.96.0.7")
    until(lambda: recorder.objects(Kind.SLICE)["v", "web-s1"]["endpoints"][0][0][0] == "10.1.0.7")
    until(lambda: recorder.objects(Kind.POD)["v", "web"]["ip"][0] == "10.1.0.7")
    assert len(recorder.objects(Kind.SERVICE)["a", "evil"]["ports"]) == 4096
    assert recorder.objects(Kind.POD)["a", "evil"]["labels"] == {}
    assert lease.synced
    assert sorted(line.split(": ")[1] for line in lines) == ["EndpointSlice a/evil", "pod a/evil", "service a/evil"]
