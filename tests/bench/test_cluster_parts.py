"""The synthetic cluster and the API server of scenarios."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

import dns.rdatatype
import dns.zone
import pytest

from fastdns.bench.parts.api import APIServer
from fastdns.bench.parts.cluster import Cluster, address_of, questions
from fastdns.bench.workloads.synthetic import Shape
from tests.waiting import REPLY

SMALL = Cluster(Shape(services=38, headless=2, endpoints=130, namespaces=2, pods=7))


def test_the_zone_gives_the_answers_that_the_questions_expect() -> None:
    zone = dns.zone.from_text("".join(SMALL.zone()), "cluster.local.", relativize=False)
    workload = questions(SMALL.addresses, 1)
    # Those of the cluster itself are asked for, too.
    assert len(workload.questions) == 40
    for question in workload.questions:
        rdataset = zone.find_rdataset(question.name, dns.rdatatype.A)
        assert {rdata.to_digestable() for rdata in rdataset} == question.answers
    assert questions(SMALL.addresses, 1) == workload
    assert questions(SMALL.addresses, 2).questions != workload.questions


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"clusterIP": "10.0.0.1"}, True),
        ({"clusterIP": "None"}, False),
        ({"clusterIP": ""}, False),
        ({"clusterIP": "fd00::1"}, False),
        ({"type": "ExternalName", "externalName": "example.org"}, False),
        ({}, False),
    ],
)
def test_services_with_an_address(spec: dict[str, str], found: bool) -> None:
    address = address_of({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    assert address == (("a.b.svc.cluster.local.", IPv4Address("10.0.0.1")) if found else None)


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with APIServer(SMALL) as server:
        yield server.url


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=REPLY) as reply:
        return json.load(reply)


def send(method: str, url: str, thing: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(url, method=method, data=json.dumps(thing or {}).encode())
    with urllib.request.urlopen(request, timeout=REPLY) as reply:
        return json.load(reply)


def service(name: str, address: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "ns-1"}, "spec": {"clusterIP": address}}


def test_lists(api: str) -> None:
    listed = get(f"{api}/api/v1/services?limit=500")
    assert (listed["kind"], len(listed["items"])) == ("ServiceList", 43)
    assert [thing["metadata"]["name"] for thing in get(f"{api}/api/v1/namespaces/kube-system/services")["items"]] == ["kube-dns"]
    assert get(f"{api}/api/v1/namespaces/kube-system/services/kube-dns")["metadata"]["name"] == "kube-dns"
    for path in ("/api/v1/nothing", "/apis/apps/v1/deployments", "/api/v1/namespaces/ns-1/services/absent"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(api + path)


def test_watches_tell_every_change(api: str) -> None:
    version = get(f"{api}/api/v1/services")["metadata"]["resourceVersion"]
    with urllib.request.urlopen(f"{api}/api/v1/services?watch=1&resourceVersion={version}", timeout=REPLY) as watch:
        send("POST", f"{api}/api/v1/namespaces/ns-1/services", service("new", "10.0.0.1"))
        send("PUT", f"{api}/api/v1/namespaces/ns-1/services/new", service("new", "10.0.0.2"))
        send("DELETE", f"{api}/api/v1/namespaces/ns-1/services/new")
        events = [json.loads(watch.readline()) for _ in range(3)]
        seen = [(event["type"], event["object"]["metadata"]["name"], event["object"]["spec"]["clusterIP"]) for event in events]
        assert seen == [("ADDED", "new", "10.0.0.1"), ("MODIFIED", "new", "10.0.0.2"), ("DELETED", "new", "10.0.0.2")]
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
        assert int(version) < versions[0] < versions[1] < versions[2]


def test_streamed_lists_end_with_a_bookmark(api: str) -> None:
    with urllib.request.urlopen(f"{api}/api/v1/namespaces?watch=1&sendInitialEvents=true&resourceVersion=", timeout=REPLY) as watch:
        events = [json.loads(watch.readline()) for _ in range(5)]
    assert [event["type"] for event in events] == ["ADDED"] * 4 + ["BOOKMARK"]
    assert events[4]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_expired_watches_end_and_cannot_be_resumed(api: str) -> None:
    version = get(f"{api}/api/v1/pods")["metadata"]["resourceVersion"]
    with urllib.request.urlopen(f"{api}/api/v1/pods?watch=1&resourceVersion={version}", timeout=REPLY) as watch:
        send("POST", f"{api}/-/expire")
        assert watch.read() == b""
    with urllib.request.urlopen(f"{api}/api/v1/pods?watch=1&resourceVersion={version}", timeout=REPLY) as watch:
        assert json.loads(watch.readline())["object"]["code"] == 410
