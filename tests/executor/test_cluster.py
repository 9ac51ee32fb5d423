"""What a Python plugin may ask of its server block: metadata, the client's pod, the cluster's store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.server import Server

Serve = Callable[..., Server]

PLUGIN = """
import json
from fastdns.plugin import Plugin

before = "BEFORE"

class Shows(Plugin):
    zones = ["shows.example."]

    def serve(self, query):
        what, _, rest = query.name.partition(".")
        return query.reply("TXT " + json.dumps(json.dumps(getattr(self, what)(query, rest.split(".")))), ttl=0)

    def metadata(self, query, rest):
        found = query.metadata
        try:
            missing = found["kubernetes/nothing"]
        except KeyError as error:
            missing = repr(error)
        return [found.get("kubernetes/client-namespace", "?"), found.get("kubernetes/client-label/app"), "kubernetes/zone" in found,
                "other/x" in found, missing]

    def pod(self, query, rest):
        return query.client_pod

    def service(self, query, rest):
        return query.cluster and query.cluster.service(rest[1], rest[0].upper())

    def endpoints(self, query, rest):
        return query.cluster.endpoints(rest[1], rest[0])

    def address(self, query, rest):
        return [query.cluster.pod("127.0.0.3"), query.cluster.pod(bytes([127, 0, 0, 4])), query.cluster.pod("::1")]

    def wrong(self, query, rest):
        errors = []
        for call in (lambda: query.cluster.service("a" * 64, "b"), lambda: query.cluster.endpoints("", "b"), lambda: query.cluster.pod("x")):
            try:
                call()
            except ValueError as error:
                errors.append(str(error))
        return errors

    def none(self, query, rest):
        return [query.cluster, query.client_pod, query.metadata.get("kubernetes/client-namespace", "unset")]

def setup(controller):
    return Shows()
"""
LATE = """
import asyncio
from fastdns.plugin import Log, Plugin

class Late(Plugin):
    deadline = 0.3

    async def serve(self, query, next):
        if query.name.startswith("below"):
            await next(query)
            return query.reply(f"TXT {query.metadata['kubernetes/client-pod-name']}")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            try:
                Log().info(query.metadata["kubernetes/client-namespace"])
            except RuntimeError as error:
                Log().info(f"late: {error}")
            raise

def setup(controller):
    return Late()
"""


def pod(name: str, address: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name, "x.org/y": "z"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"podIP": address, "phase": "Running"}}


def service(name: str, namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


HTTP = {"name": "http", "protocol": "TCP", "port": 80}
OBJECTS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hidden"}},
    pod("web", "127.0.0.1"),
    pod("db", "127.0.0.3"),
    pod("agent", "127.0.0.4", hostNetwork=True),
    pod("old", "127.0.0.5"),
    pod("new", "127.0.0.5"),
    service(
        "web", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1", "fd00::1"], externalIPs=["192.0.2.1"], ports=[{"name": "http", "protocol": "TCP", "port": 80}]
    ),
    service("peers", clusterIP="None", clusterIPs=["None"]),
    service("alias", type="ExternalName", externalName="db.example.org"),
    service("secret", "hidden", clusterIP="10.0.0.9", clusterIPs=["10.0.0.9"]),
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "peers-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "peers"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "protocol": "UDP", "port": 53}],
        "endpoints": [
            {"addresses": ["10.1.0.1"], "conditions": {"ready": True}, "hostname": "one", "zone": "a", "targetRef": {"kind": "Pod", "name": "peer-1"}},
            {"addresses": ["10.1.0.2"], "conditions": {"ready": True}},
            {"addresses": ["10.1.0.3"], "conditions": {"ready": False}},
        ],
    },
]
KUBERNETES = "kubernetes cluster.local {\n  manifests {dir}/objects.yaml\n  namespaces shop\n  pods verified\n }"
COREFILE = ".:{port} {\n bind 127.0.0.1\n metadata\n plugin {dir}/../shows.py\n " + KUBERNETES + "\n whoami\n}\n"


@pytest.fixture(params=["kubernetes", "forward"])
def server(serve: Serve, tmp_path: Path, request: pytest.FixtureRequest) -> Server:
    """With the plugin above and below *kubernetes*."""
    (tmp_path / "shows.py").write_text(PLUGIN.replace("BEFORE", request.param))
    return serve(COREFILE, prepare=lambda folder: (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS)))


def ask(server: Server, name: str, **options: Any) -> Any:
    (text,) = server.answers(f"{name}.shows.example.", "TXT", **options)
    return json.loads(json.loads(text.replace("\\\\", "\\")))


def test_metadata(server: Server) -> None:
    assert ask(server, "metadata") == ["shop", "web", False, False, "KeyError('kubernetes/nothing')"]
    assert ask(server, "metadata", source="127.0.0.2")[:2] == ["?", ""]


def test_the_clients_pod(server: Server) -> None:
    assert ask(server, "pod") == ["shop", "web", {"app": "web", "x.org/y": "z"}]
    # No pod, the node's network, two pods with one address.
    assert [ask(server, "pod", source=f"127.0.0.{i}") for i in (2, 4, 5)] == [None] * 3
    assert ask(server, "address") == [["shop", "db", {"app": "db", "x.org/y": "z"}], None, None]


def test_services_and_endpoints(server: Server) -> None:
    http = ["http", "tcp", 80]
    assert ask(server, "service.web.shop") == ["shop", "web", ["10.0.0.1", "fd00::1"], [http], False, "", ["192.0.2.1"]]
    assert ask(server, "service.peers.shop")[4]
    assert ask(server, "service.alias.shop")[5] == "db.example.org"
    assert ask(server, "service.secret.hidden") is None
    assert ask(server, "service.none.shop") is None
    port = ["", "udp", 53]
    assert ask(server, "endpoints.peers.shop") == [["10.1.0.1", [port], "one", "peer-1", "a"], ["10.1.0.2", [port], "", "", ""]]
    assert ask(server, "endpoints.web.shop") == []
    assert [error.partition(" is ")[2] or error for error in ask(server, "wrong")] == ["no name of an object"] * 2 + [
        "'x' does not appear to be an IPv4 or IPv6 address"
    ]


def test_the_view_follows_the_cluster(server: Server) -> None:
    assert ask(server, "service.late.shop") is None
    new = server.folder / ".objects.yaml"
    new.write_text(yaml.safe_dump_all([*OBJECTS, service("late", clusterIP="10.0.0.7", clusterIPs=["10.0.0.7"])]))
    new.rename(server.folder / "objects.yaml")
    server.until("late.shop.svc.cluster.local.", "A", ["10.0.0.7"])
    assert ask(server, "service.late.shop")[2] == ["10.0.0.7"]


def test_a_block_without(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text(PLUGIN.replace("BEFORE", "forward"))
    server = serve(".:{port} {\n bind 127.0.0.1\n plugin {dir}/../shows.py\n whoami\n}\n")
    assert ask(server, "none") == [None, None, "unset"]


def test_metadata_of_a_query_that_was_given_up(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    corefile = COREFILE.replace("shows.py", "late.py")
    server = serve(corefile, prepare=lambda folder: (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS)))
    assert server.answers("below.example.", "TXT") == ['"web"']
    assert server.answers("late.example.") == ["SERVFAIL"]
    server.wait_log("late: the query was given up: its deadline has passed")
