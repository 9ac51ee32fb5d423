"""Protobuf and JSON decode to the same objects, in pieces of any size; broken input ends in an error and never in a crash."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest

from fastdns.plugins.kubernetes.decode.splitter import Splitter
from fastdns.plugins.kubernetes.decode.stream import JSON, PROTOBUF, ApiError, Stream, StreamError, api_error
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.native.recorder import Recorder

# ---- a protobuf writer of a few lines ----


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (2**64 - 1))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*pairs: tuple[int, Any]) -> bytes:
    return b"".join(field(number, value) for number, value in pairs)


def texts(number: int, mapping: dict[str, str]) -> list[tuple[int, bytes]]:
    return [(number, message((1, key), (2, value))) for key, value in mapping.items()]


def meta(thing: dict[str, Any]) -> bytes:
    data = thing["metadata"]
    pairs: list[tuple[int, Any]] = [(1, data["name"]), (3, data.get("namespace", "")), (5, "some-uid"), (6, data["resourceVersion"]), (7, 3)]
    if "deletionTimestamp" in data:
        pairs.append((9, message((1, 1700000000), (2, 0))))
    return message(*pairs, *texts(11, data.get("labels", {})), *texts(12, data.get("annotations", {})), (17, message((1, "kubectl"))))


def ports(number: int, items: Any) -> list[tuple[int, bytes]]:
    names = {"name": 1, "protocol": 2, "port": 3}
    return [(number, message(*((names[key], value) for key, value in port.items()), (4, b"\x08\x00"))) for port in items or ()]


def service_message(thing: dict[str, Any]) -> bytes:
    spec = thing.get("spec", {})
    pairs: list[tuple[int, Any]] = ports(1, spec.get("ports"))
    pairs += texts(2, {"app": "x"})
    pairs += [(number, spec[name]) for name, number in (("clusterIP", 3), ("type", 4), ("externalName", 10)) if name in spec]
    pairs += [(5, ip) for ip in spec.get("externalIPs", ())]
    pairs += [(13, 1)] + [(18, ip) for ip in spec.get("clusterIPs", ())]
    ingress = thing.get("status", {}).get("loadBalancer", {}).get("ingress", [])
    names = {"ip": 1, "hostname": 2, "ipMode": 3}
    balancer = message(*((1, message(*((names[key], value) for key, value in one.items()))) for one in ingress))
    return message((1, meta(thing)), (2, message(*pairs)), (3, message((1, balancer))))


def endpoint_message(point: dict[str, Any]) -> bytes:
    pairs: list[tuple[int, Any]] = [(1, address) for address in point["addresses"]]
    if "conditions" in point:
        pairs.append((2, message(*((1, int(value)) for key, value in point["conditions"].items() if key == "ready"), (2, 1))))
    if "hostname" in point:
        pairs.append((3, point["hostname"]))
    if "targetRef" in point:
        pairs.append((4, message((1, "Pod"), (3, point["targetRef"]["name"]))))
    pairs += [(number, point[key]) for key, number in (("nodeName", 6), ("zone", 7)) if key in point]
    return message(*pairs, (8, hints_message(point.get("hints") or {})))


def hints_message(hints: dict[str, Any]) -> bytes:
    names = {"forZones": 1, "forNodes": 2}
    return message(*((number, message((1, one["name"]))) for key, number in names.items() for one in hints.get(key, ())))


def slice_message(thing: dict[str, Any]) -> bytes:
    endpoints = [(2, endpoint_message(point)) for point in thing["endpoints"] or ()]
    return message((1, meta(thing)), *endpoints, *ports(3, thing["ports"]), (4, "IPv4"))


def pod_message(thing: dict[str, Any]) -> bytes:
    status = [(1, "Running"), (5, "172.16.0.1")] + ([(6, thing["status"]["podIP"])] if thing["status"] else [])
    asked = thing.get("spec") or {}
    spec = [(1, b"\x0a\x00"), (5, 30)] + [(number, asked[key]) for key, number in (("nodeName", 10), ("hostNetwork", 11)) if key in asked]
    return message((1, meta(thing)), (2, message(*spec)), (3, message(*status)))


MESSAGES = {
    Kind.NAMESPACE: lambda thing: message((1, meta(thing)), (2, b""), (3, message((1, "Active")))),
    Kind.SERVICE: service_message,
    Kind.SLICE: slice_message,
    Kind.POD: pod_message,
}


def wrap(body: bytes, kind: str = "Thing") -> bytes:
    return b"k8s\0" + message((1, message((1, "v1"), (2, kind))), (2, body), (3, ""), (4, ""))


def frame(kind: str, body: bytes) -> bytes:
    whole = message((1, kind), (2, message((1, wrap(body)))))
    return struct.pack(">I", len(whole)) + whole


# ---- objects ----


def thing(name: str, namespace: str = "shop", version: int = 7, **rest: Any) -> dict[str, Any]:
    more = {key: rest.pop(key) for key in ("labels", "annotations", "deletionTimestamp") if key in rest}
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version), **more}, **rest}


HTTP = {"name": "http", "protocol": "TCP", "port": 80}
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
V4 = ("10.0.0.1", 4, bytes([10, 0, 0, 1]))
V6 = ("fd00::1", 6, bytes.fromhex("fd00" + "00" * 13 + "01"))

#: kind, object, the parts of its decoded form that matter here.
OBJECTS: list[tuple[Kind, dict[str, Any], dict[str, Any]]] = [
    (Kind.NAMESPACE, thing("shop", ""), {"name": "shop", "namespace": "", "version": 7}),
    (
        Kind.SERVICE,
        thing("web", spec={"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "type": "ClusterIP", "ports": [HTTP]}),
        {"cluster_ips": [V4, V6], "headless": False, "external": False, "ports": [("http", "TCP", 80)], "external_ips": []},
    ),
    (
        Kind.SERVICE,
        thing("old", spec={"clusterIP": "10.0.0.1"}),
        {"cluster_ips": [V4], "ports": [("", "", -1)]},
    ),
    (Kind.SERVICE, thing("bare", spec={"clusterIP": "None"}), {"cluster_ips": [], "headless": True}),
    (Kind.SERVICE, thing("db", spec={"clusterIP": "None", "clusterIPs": ["None"], "ports": [HTTP]}), {"cluster_ips": [], "headless": True}),
    (
        Kind.SERVICE,
        thing("out", spec={"type": "ExternalName", "externalName": "Host.example.org"}),
        {"external": True, "external_name": "Host.example.org", "cluster_ips": [], "headless": False},
    ),
    (
        Kind.SERVICE,
        thing(
            "lb",
            spec={"clusterIPs": ["10.0.0.1"], "externalIPs": ["192.0.2.1"], "type": "LoadBalancer"},
            status={"loadBalancer": {"ingress": [{"ip": "192.0.2.2", "hostname": "both.example"}, {"hostname": "only.example"}, {"ipMode": "VIP"}]}},
        ),
        {"external_ips": [("192.0.2.1", 4, b"\xc0\x00\x02\x01"), ("192.0.2.2", 4, b"\xc0\x00\x02\x02"), ("only.example", 0, b"")]},
    ),
    (
        Kind.SLICE,
        thing(
            "web-1",
            labels={"kubernetes.io/service-name": "web", "multicluster.kubernetes.io/source-cluster": "east"},
            annotations={TRIGGER: "2026-11-21T09:00:00.5Z", "other": "x"},
            endpoints=[
                {"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": True}, "hostname": "web-0", "targetRef": {"name": "p" * 63}, "zone": "Z-a"},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": False}, "hostname": "sick"},
                {"addresses": ["10.0.0.4"], "conditions": {}, "targetRef": {"name": "p" * 64}},
                {"addresses": ["10.0.0.5"]},
                {"addresses": []},
            ],
            ports=[HTTP, {"name": "none"}, {"port": 53, "protocol": "UDP"}],
        ),
        {
            "service": "web",
            "cluster": "east",
            "trigger": 1795251600500000000,
            "ports": [("http", "TCP", 80), ("none", "", -1), ("", "UDP", 53)],
            "endpoints": [
                (V4, "web-0", "p" * 63, "Z-a"),
                (("10.0.0.2", 4, b"\x0a\x00\x00\x02"), "web-0", "p" * 63, "Z-a"),
                (("10.0.0.4", 4, b"\x0a\x00\x00\x04"), "", "", ""),
                (("10.0.0.5", 4, b"\x0a\x00\x00\x05"), "", "", ""),
            ],
        },
    ),
    (
        Kind.SLICE,
        thing("fqdn", endpoints=[{"addresses": ["target.example.org"]}], ports=None),
        {"service": "", "endpoints": [(("target.example.org", 0, b""), "", "", "")], "ports": [("", "", -1)]},
    ),
    (
        Kind.SLICE,
        thing(
            "placed",
            endpoints=[
                {
                    "addresses": ["10.0.0.1"],
                    "nodeName": "node-1",
                    "zone": "a",
                    "hints": {"forZones": [{"name": "a"}, {"name": "b"}], "forNodes": [{"name": "n"}]},
                },
                {"addresses": ["10.0.0.2"], "nodeName": "node-2", "hints": {}},
                {"addresses": ["10.0.0.3"], "hints": None},
            ],
            ports=None,
        ),
        {"places": [("node-1", b"\n\3\n\1a\n\3\n\1b\x12\3\n\1n"), ("node-2", b""), ("", b"")]},
    ),
    (Kind.SLICE, thing("empty", endpoints=None, ports=None), {"endpoints": [], "ports": [("", "", -1)]}),
    (Kind.POD, thing("p", status={"podIP": "fd00::1"}, labels={"app": "a", "b": ""}), {"ip": V6, "labels": {"app": "a", "b": ""}}),
    (Kind.POD, thing("q", status={}), {"ip": ("", 0, b""), "host_network": False}),
    (Kind.POD, thing("agent", spec={"hostNetwork": True}, status={"podIP": "10.0.0.1"}), {"ip": V4, "host_network": True}),
    (
        Kind.POD,
        thing("placed", spec={"nodeName": "node-1"}, status={"podIP": "10.0.0.1"}, labels={"topology.kubernetes.io/zone": "a"}),
        {"place": ("node-1", "a"), "host_network": False},
    ),
    (Kind.POD, thing("apart", spec={"hostNetwork": False}, status={"podIP": "10.0.0.1"}), {"ip": V4, "host_network": False}),
    (Kind.POD, thing("mapped", status={"podIP": "::ffff:10.0.0.1"}), {"ip": ("::ffff:10.0.0.1", 4, V4[2])}),
    (Kind.POD, thing("zeros", status={"podIP": "010.0.0.1"}), {"ip": ("010.0.0.1", 0, b"")}),
]


def feed(stream: Stream, data: bytes, size: int = 1 << 30) -> None:
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        stream.feed(piece, len(piece))


def watch(kind: Kind, things: list[dict[str, Any]], protobuf: bool, size: int = 1 << 30) -> Recorder:
    recorder = Recorder()
    stream = Stream(recorder, kind, True)
    if protobuf:
        stream.begin(PROTOBUF + ";stream=watch", True, -2)
        feed(stream, b"".join(frame("ADDED", MESSAGES[kind](one)) for one in things), size)
    else:
        stream.begin(JSON, True, -2)
        feed(stream, b"\n".join(json.dumps({"type": "ADDED", "object": one}).encode() for one in things), size)
    assert stream.end()
    return recorder


def page(kind: Kind, things: list[dict[str, Any]], protobuf: bool, size: int = 1 << 30) -> tuple[Recorder, Stream]:
    recorder = Recorder()
    stream = Stream(recorder, kind, True)
    stream.begin_list()
    if protobuf:
        stream.begin(PROTOBUF, False, -2)
        items = [(2, MESSAGES[kind](one)) for one in things]
        body = wrap(message((1, message((1, ""), (2, "99"), (3, "more"), (4, 12))), *items, (9, "unknown" * 9)), "List")
    else:
        stream.begin(JSON, False, -2)
        head = {"kind": "List", "note": ["items", {"items": [1]}], "metadata": {"resourceVersion": "99", "continue": "more"}}
        body = json.dumps({**head, "items": things, "tail": {"x": "]}"}}).encode()
    feed(stream, body, size)
    stream.end()
    stream.finish_list()
    stream.commit_list()
    return recorder, stream


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
@pytest.mark.parametrize(("kind", "one", "expected"), OBJECTS, ids=[one["metadata"]["name"] for _, one, _ in OBJECTS])
def test_objects(kind: Kind, one: dict[str, Any], expected: dict[str, Any], protobuf: bool) -> None:
    (view,) = watch(kind, [one], protobuf).objects(kind).values()
    assert {name: view[name] for name in expected} == expected
    assert view["name"] == one["metadata"]["name"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_pieces_of_any_size(kind: Kind, protobuf: bool, size: int) -> None:
    things = [one for known, one, _ in OBJECTS if known is kind] * 2
    whole = watch(kind, things, protobuf)
    assert whole.objects(kind)
    assert watch(kind, things, protobuf, size).objects(kind) == whole.objects(kind)
    recorder, stream = page(kind, things, protobuf, size)
    assert recorder.objects(kind) == whole.objects(kind)
    assert (stream.version, stream.following, stream.objects) == ("99", "more", len(things))


@pytest.mark.parametrize("protobuf", [True, False], ids=["protobuf", "json"])
def test_empty_lists(protobuf: bool) -> None:
    recorder, _stream = page(Kind.POD, [], protobuf)
    assert recorder.objects(Kind.POD) == {}
    assert recorder.synced == {Kind.POD}


def test_json_list_without_items() -> None:
    recorder = Recorder()
    stream = Stream(recorder, Kind.POD)
    stream.begin(JSON, False, -2)
    feed(stream, b'{"items":null,"metadata":{"resourceVersion":"3"}}\n')
    stream.end()
    stream.finish_list()
    assert stream.version == "3"


CHUNKED = [
    (b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", b"hello world"),
    (b"B\r\nhello world\r\n000\r\nTrailer: x\r\n\r\n", b"hello world"),
    (b"0\r\n\r\n", b""),
]
BAD_CHUNKS = [b"\r\n", b"g\r\n", b"5\r\nhelloX", b"1\rX", b"5\r\nhello\rX", b"1" * 16 + b"\r\n", b"1;x\n", b"-1\r\n"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(("data", "body"), CHUNKED)
def test_chunked_bodies(data: bytes, body: bytes, size: int) -> None:
    stream = Stream(Recorder(), 0)
    stream.begin_raw(-1)
    feed(stream, data, size)
    assert stream.ended
    assert stream.take_raw() == body


@pytest.mark.parametrize("data", BAD_CHUNKS)
def test_malformed_chunks(data: bytes) -> None:
    stream = Stream(Recorder(), 0)
    stream.begin_raw(-1)
    with pytest.raises(StreamError):
        feed(stream, data)


def test_a_body_of_known_length_takes_no_more() -> None:
    stream = Stream(Recorder(), 0)
    stream.begin_raw(5)
    assert not stream.feed(b"he", 2)
    assert stream.feed(b"llo, and more", 13)
    assert stream.take_raw() == b"hello"


LARGE = [
    ("an event", PROTOBUF, True, struct.pack(">I", 1 << 26)),
    ("an item", PROTOBUF, False, b"k8s\0" + varint(2 << 3 | 2) + varint(1 << 40) + varint(2 << 3 | 2) + varint(1 << 30)),
]


@pytest.mark.parametrize(("content", "watching", "data"), [case[1:] for case in LARGE], ids=[case[0] for case in LARGE])
def test_announced_sizes_are_not_believed(content: str, watching: bool, data: bytes) -> None:
    stream = Stream(Recorder(), Kind.POD)
    stream.begin(content, watching, -2)
    with pytest.raises(StreamError, match="32 MiB"):
        feed(stream, data)


@pytest.mark.parametrize(("depth", "size"), [(90, 7), (5000, 7), (5000, 4096), (300_000, 1 << 20)])
@pytest.mark.parametrize("watching", [True, False], ids=["watch", "list"])
@pytest.mark.parametrize(("opened", "inner", "closed"), [("[", r'"x\"]", 1', "]"), (r'{"a\\":', "null", "}")], ids=["arrays", "objects"])
def test_what_is_nested_deeply_and_not_read_costs_nothing(opened: str, inner: str, closed: str, watching: bool, depth: int, size: int) -> None:
    first, deep, last = (thing(name, spec={"clusterIP": ip}) for name, ip in (("a", "10.0.0.1"), ("deep", "10.0.0.2"), ("z", "10.0.0.3")))
    deep["metadata"] = {"managedFields": "@", **deep["metadata"], "annotations": {"x": "y"}}
    texts = [json.dumps({"type": "ADDED", "object": one} if watching else one) for one in (first, deep, last)]
    data = ("\n".join(texts) if watching else f'{{"items":[{",".join(texts)}],"metadata":{{"resourceVersion":"9"}}}}').replace(
        '"@"', opened * depth + inner + closed * depth
    )
    recorder = Recorder()
    stream = Stream(recorder, Kind.SERVICE)
    stream.begin(JSON, watching, -2)
    feed(stream, data.encode(), size)
    assert stream.end()
    assert {name: found["cluster_ips"][0][0] for (_, name), found in recorder.objects(Kind.SERVICE).items()} == {
        "a": "10.0.0.1",
        "deep": "10.0.0.2",
        "z": "10.0.0.3",
    }


ERRORS = [
    (PROTOBUF, wrap(message((3, "slow down"), (4, "TooManyRequests"), (5, message((5, 7))), (6, 429)), "Status"), (429, "TooManyRequests", "slow down", 7)),
    (JSON, b'{"kind":"Status","message":"no","reason":"Forbidden","code":403,"details":{"retryAfterSeconds":3}}', (403, "Forbidden", "no", 3)),
    (JSON, b"[]", (500, "", "[]", 0)),
    ("text/plain", b" 404 page not found\n", (500, "", "404 page not found", 0)),
    (PROTOBUF, b"k8s\0\xff", (500, "", "", 0)),
]


@pytest.mark.parametrize(("content", "body", "expected"), ERRORS)
def test_error_replies(content: str, body: bytes, expected: tuple[int, str, str, int]) -> None:
    error = api_error(500, content, body)
    assert (error.code, error.reason, error.message, error.retry_after) == expected
    assert str(error)


@pytest.mark.parametrize("content", [PROTOBUF, JSON])
def test_error_events(content: str) -> None:
    stream = Stream(Recorder(), Kind.POD)
    stream.begin(content, True, -2)
    gone = message((3, "too old"), (4, "Expired"), (6, 410))
    data = frame("ERROR", gone) if content == PROTOBUF else b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}'
    with pytest.raises(ApiError) as caught:
        feed(stream, data)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


# ---- fuzz ----


def mutate(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(out))
        choice = chance.randrange(5)
        if choice == 0:
            out[at] = chance.randrange(256)
        elif choice == 1:
            del out[at : at + chance.randrange(1, 9)]
        elif choice == 2:
            out[at:at] = bytes(chance.choices(range(256), k=chance.randrange(1, 9)))
        elif choice == 3:
            out[at] ^= 1 << chance.randrange(8)
        else:
            other = chance.randrange(len(out))
            out[at:at] = out[other : other + chance.randrange(1, 40)]
        if not out:
            out = bytearray(b"\0")
    return bytes(out)


@pytest.mark.parametrize("watching", [True, False], ids=["watch", "list"])
@pytest.mark.parametrize("content", [PROTOBUF, JSON], ids=["protobuf", "json"])
@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_mutated_streams_end_in_an_error_or_not_at_all(kind: Kind, content: str, watching: bool) -> None:
    chance = random.Random(f"{kind}{content}{watching}")
    things = [one for known, one, _ in OBJECTS if known is kind]
    if watching and content == PROTOBUF:
        data = b"".join(frame("ADDED", MESSAGES[kind](one)) for one in things)
    elif watching:
        data = b"\n".join(json.dumps({"type": "ADDED", "object": one}).encode() for one in things)
    elif content == PROTOBUF:
        data = wrap(message((1, message((2, "99"))), *((2, MESSAGES[kind](one)) for one in things)))
    else:
        data = json.dumps({"metadata": {"resourceVersion": "9"}, "items": things}).encode()
    outcomes = set()
    for _ in range(1500):
        stream = Stream(Recorder(), kind, True)
        stream.begin(content, watching, -2)
        try:
            feed(stream, mutate(data, chance), chance.choice([3, 50, 100000]))
            whole = stream.end()
            if not watching:
                stream.finish_list()
            outcomes.add(whole)
        except (StreamError, ApiError) as error:
            outcomes.add(type(error))
    assert StreamError in outcomes
    assert True in outcomes, "some mutations do no harm"


@pytest.mark.parametrize("watching", [True, False], ids=["watch", "list"])
def test_a_refused_message_costs_itself_alone(watching: bool) -> None:
    """A port with a length beyond its message, an event of an unknown type, an object without a name."""
    recorder = Recorder()
    stream = Stream(recorder, Kind.SERVICE)
    good, bad = ({"metadata": {"namespace": "d", "name": name, "resourceVersion": "7"}, "spec": {"clusterIP": "10.0.0.1"}} for name in ("good", "bad"))
    encode = MESSAGES[Kind.SERVICE]
    broken = encode(bad) + field(2, b"\x0a\x7f")
    nameless = message((1, message((3, "d"))))
    stream.begin_list()
    stream.begin(PROTOBUF, True, -2)
    feed(stream, frame("ADDED", encode(bad)))
    stream.commit_list()
    assert set(recorder.objects(Kind.SERVICE)) == {("d", "bad")}
    stream.begin(PROTOBUF, watching, -2)
    if watching:
        feed(stream, frame("MODIFIED", broken) + frame("ODD", encode(good)) + frame("ADDED", nameless) + frame("ADDED", encode(good)))
    else:
        stream.begin_list()
        feed(stream, wrap(message((1, message((2, "99"))), *((2, one) for one in (broken, nameless, encode(good))))))
        stream.commit_list()
    assert stream.end()
    assert set(recorder.objects(Kind.SERVICE)) == {("d", "good")}
    assert list(stream.refusals.standing) == [("d", "bad")]
    stream.begin(PROTOBUF, True, -2)
    feed(stream, frame("MODIFIED", encode(bad)))
    assert set(recorder.objects(Kind.SERVICE)) == {("d", "good"), ("d", "bad")}
    assert not stream.refusals.standing


def test_random_octets_as_every_framing() -> None:
    chance = random.Random(1)
    for _ in range(3000):
        stream = Stream(Recorder(), chance.randrange(6), True)
        stream.begin(chance.choice([PROTOBUF, JSON]), chance.random() < 0.5, chance.choice([-1, -2, 40]))
        data = chance.choice([b"", b"k8s\0", b'{"items":[', b"28\r\n", b"\0\0\0\x20"]) + chance.randbytes(60)
        try:
            feed(stream, data, chance.choice([1, 7, 100]))
        except (StreamError, ApiError):
            pass


def test_splitter() -> None:
    data = b' {"a":"}\\""} \n{"b":[1,{"c":2}]}'
    for size in (1, 3, 100):
        splitter = Splitter(False)
        found = []
        for at in range(0, len(data), size):
            found += splitter.feed(data[at : at + size])
        assert found == [(b'{"a":"}\\""}', 1), (b'{"b":[1,{"c":2}]}', 14)]
        assert splitter.complete
