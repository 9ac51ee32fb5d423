"""What a list of pods costs to decode and to store, as the API server sends it: protobuf and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastdns.bench.micro.conftest import Timed
from fastdns.plugins.kubernetes.decode.stream import JSON, PROTOBUF, Stream
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind

PODS = 2000
IMAGE = "registry.example.org/web:1.0"


def pod(i: int) -> tuple[str, str, str]:
    """Name, namespace, address."""
    return f"web-{i:05}-7d4b9c6f5d-x2x9p", f"team-{i % 40}", f"10.{i // 62500}.{i // 250 % 250}.{i % 250 + 1}"


def field(number: int, value: bytes | str) -> bytes:
    """A field of a protobuf message that has a length."""
    octets = value.encode() if isinstance(value, str) else value
    length, left = bytearray(), len(octets)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    return bytes([number << 3 | 2, *length, left]) + octets


def protobuf() -> bytes:
    """A PodList in the envelope of k8s.io/apimachinery's runtime.Unknown."""
    pods = []
    for i in range(PODS):
        name, namespace, address = pod(i)
        meta = field(1, name) + field(3, namespace) + field(5, f"0000-{i}") + field(6, str(i + 1)) + field(11, field(1, "app") + field(2, "web"))
        spec = field(2, field(1, "web") + field(2, IMAGE)) + field(10, f"node-{i % 50}")
        status = field(1, "Running") + field(5, "192.0.2.1") + field(6, address) + field(12, field(1, address))
        pods.append(field(2, field(1, meta) + field(2, spec) + field(3, status)))
    return b"k8s\0" + field(1, field(1, "v1") + field(2, "PodList")) + field(2, field(1, field(2, "123456")) + b"".join(pods))


def text() -> bytes:
    items: list[dict[str, Any]] = []
    for i in range(PODS):
        name, namespace, address = pod(i)
        meta = {"name": name, "namespace": namespace, "uid": f"0000-{i}", "resourceVersion": str(i + 1), "labels": {"app": "web"}}
        spec = {"containers": [{"name": "web", "image": IMAGE}], "nodeName": f"node-{i % 50}"}
        status = {"phase": "Running", "hostIP": "192.0.2.1", "podIP": address, "podIPs": [{"ip": address}]}
        items.append({"metadata": meta, "spec": spec, "status": status})
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "123456"}, "items": items}).encode()


@pytest.mark.parametrize(("content", "body"), [(PROTOBUF, protobuf()), (JSON, text())], ids=["protobuf", "json"])
def test_list(timed: Timed, content: str, body: bytes) -> None:
    def decode() -> Store:
        store = Store()
        stream = Stream(store, Kind.POD)
        stream.begin_list()
        stream.begin(content, False, len(body))
        stream.feed(body, len(body))
        stream.end()
        stream.finish_list()
        stream.commit_list()
        return store

    assert timed(PODS, decode).counts()["pods"] == PODS
