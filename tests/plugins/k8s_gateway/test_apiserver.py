"""Against a real API server: CustomResourceDefinitions that come and go, in several versions, and everything that changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.k8s_gateway.cluster import Cluster
from tests.plugins.k8s_gateway.conftest import ALL, Asked
from tests.plugins.k8s_gateway.objects import endpoint, gateway, ingress, route, service, slice_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(cluster_programs: Path) -> Iterator[Cluster]:
    found = Cluster()
    yield found
    found.stop()


@pytest.fixture
def asked(cluster: Cluster, serve: Any) -> Asked:
    """A server that was there before any kind was installed."""
    corefile = f".:{{port}} {{\n bind 127.0.0.1\n errors\n k8s_gateway example.org {{\n  endpoint {cluster.server.http}\n  resources {ALL}\n }}\n}}\n"
    return Asked(serve(corefile), corefile)


def test_kinds_come_and_go(cluster: Cluster, asked: Asked) -> None:
    cluster.write(service("default/lb", "192.0.2.1", spec={"clusterIP": "10.96.3.1"}))
    asked.becomes("lb.default.example.org", "A 192.0.2.1")
    cluster.install("gateways", "v1")
    cluster.install("httproutes", "v1", "v1beta1")
    cluster.write(gateway("default/edge", "203.0.113.1"))
    cluster.write(route("default/web", "web.example.org", "*.apps.example.org"))
    asked.becomes("web.example.org", "A 203.0.113.1")
    asked.becomes("x.apps.example.org", "A 203.0.113.1")
    cluster.write(gateway("default/edge", "203.0.113.2", "2001:db8::2"))
    asked.becomes("web.example.org", "A 203.0.113.2")
    asked.becomes("web.example.org", "AAAA 2001:db8::2", kind="AAAA")
    cluster.remove("httproutes")
    asked.becomes("web.example.org", "NXDOMAIN")
    assert asked.answer("lb.default.example.org") == ["A 192.0.2.1"]


@pytest.mark.parametrize(
    ("plural", "kind", "version"), [("httproutes", "HTTPRoute", "v1beta1"), ("tlsroutes", "TLSRoute", "v1alpha2"), ("grpcroutes", "GRPCRoute", "v1")]
)
def test_versions(cluster: Cluster, asked: Asked, plural: str, kind: str, version: str) -> None:
    cluster.install("gateways", "v1beta1")
    cluster.install(plural, version)
    cluster.write(gateway("default/edge", "203.0.113.1", version="gateway.networking.k8s.io/v1beta1"))
    cluster.write(route("default/web", "web.example.org", kind=kind, version=f"gateway.networking.k8s.io/{version}"))
    asked.becomes("web.example.org", "A 203.0.113.1")


def test_all_resources(cluster: Cluster, asked: Asked) -> None:
    cluster.install("dnsendpoints", "v1alpha1")
    cluster.write(ingress("default/one", "198.51.100.1", hosts=("one.example.org",)))
    cluster.write(endpoint("default/records", ("a.example.org", "A", ["192.0.2.20"], 30), ("t.example.org", "TXT", ["some text"])))
    notes = {"k8s-gateway.dns/resolve-endpoints": "true"}
    cluster.write(slice_of("default/db-1", "db", "10.1.0.1", "!10.1.0.2"))
    cluster.write(service("default/db", type="ClusterIP", spec={"clusterIP": "None"}, annotations=notes))
    asked.becomes("one.example.org", "A 198.51.100.1")
    asked.becomes("a.example.org", "A 192.0.2.20")
    asked.becomes("t.example.org", 'TXT "some text"', kind="TXT")
    asked.becomes("db.default.example.org", "A 10.1.0.1")


def test_a_restart_and_a_compaction_lose_nothing(cluster: Cluster, asked: Asked) -> None:
    cluster.write(service("default/first", "192.0.2.1", spec={"clusterIP": "10.96.3.1"}))
    asked.becomes("first.default.example.org", "A 192.0.2.1")
    cluster.server.command("stop")
    assert asked.answer("first.default.example.org") == ["A 192.0.2.1"]
    cluster.server.command("compact")
    cluster.server.command("start")
    cluster.delete(service("default/first"))
    cluster.write(service("default/second", "192.0.2.2", spec={"clusterIP": "10.96.3.2"}))
    asked.becomes("second.default.example.org", "A 192.0.2.2")
    asked.becomes("first.default.example.org", "NXDOMAIN")
