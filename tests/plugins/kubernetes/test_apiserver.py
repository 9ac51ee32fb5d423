"""Against the real API server of tests/apiserver: what it sends is what its JSON says, through changes, compactions and restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dns.rcode
import pytest

from fastdns.plugins.kubernetes.watch import reflector
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig
from fastdns.plugins.kubernetes.watch.resources import RESOURCES, Kind
from tests.apiserver.process import ApiServer
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.conftest import addresses
from tests.plugins.kubernetes.test_centres import WATCHED
from tests.plugins.kubernetes.test_journal import REPLICA
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.1)


def items(server: ApiServer, kind: Kind) -> dict[tuple[str, str], int]:
    found = server.ask("GET", RESOURCES[kind].path)["items"]
    return {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): int(one["metadata"]["resourceVersion"]) for one in found}


def versions(recorder: Recorder, kind: Kind) -> dict[tuple[str, str], int]:
    return {name: view["version"] for name, view in recorder.objects(kind).items()}


STREAMED = (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD, Kind.IMPORT)


@pytest.mark.parametrize("accept", [reflector.ACCEPT, "application/json"], ids=["protobuf", "json"])
@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "chunks"])
def test_everything_arrives(apiserver: ApiServer, follow: Any, monkeypatch: pytest.MonkeyPatch, streaming: bool, accept: str) -> None:
    monkeypatch.setattr(reflector, "ACCEPT", accept)
    monkeypatch.setattr(reflector, "CHUNK", 30)
    if not streaming:

        async def refuse(self: Any) -> None:
            raise reflector.NoStreaming

        monkeypatch.setattr(reflector.Reflector, "_streaming_list", refuse)
    recorder, _ = follow(Endpoint(apiserver.http), *STREAMED)
    for kind in STREAMED:
        assert versions(recorder, kind) == items(apiserver, kind)
    assert len(recorder.objects(Kind.POD)) == 200
    service = recorder.objects(Kind.SERVICE)["default", "kubernetes"]
    assert service["cluster_ips"] == [("10.96.0.1", 4, bytes([10, 96, 0, 1]))]
    assert service["ports"] == [("https", "TCP", 443)]


def test_service_imports_arrive(apiserver: ApiServer, follow: Any) -> None:
    recorder, _ = follow(Endpoint(apiserver.http), Kind.IMPORT)
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceimports"
    spec = {"type": "ClusterSetIP", "ips": ["10.42.0.1"], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}
    body = {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"name": "far"}, "spec": spec}
    apiserver.ask("POST", path, body)
    (view,) = until(lambda: list(recorder.objects(Kind.IMPORT).values()))
    assert (view["ips"], view["ports"]) == ([("10.42.0.1", 4, bytes([10, 42, 0, 1]))], [("http", "TCP", 80)])
    apiserver.ask("DELETE", path + "/far")
    until(lambda: not recorder.objects(Kind.IMPORT))


def test_acl_knows_pods_by_what_the_server_says(apiserver: ApiServer, serve: Any) -> None:
    """Also which of them share their node's network."""
    rules = "  allow namespace default label app=asker\n  block\n"
    server = serve(f".:{{port}} {{\n acl {{\n{rules} }}\n kubernetes cluster.local {{\n  endpoint {apiserver.http}\n  pods verified\n }}\n whoami\n}}\n")

    def rcode(source: str) -> str:
        return dns.rcode.to_text(server.query("a.test.", source=source).rcode())

    assert rcode("127.0.0.41") == rcode("127.0.0.42") == "REFUSED"
    path = "/api/v1/namespaces/default/pods"
    for name, address, host in (("agent", "127.0.0.42", True), ("asker", "127.0.0.41", False)):
        spec = {"hostNetwork": host, "containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": name, "labels": {"app": "asker"}}, "spec": spec, "status": {"podIP": address, "phase": "Running"}}
        apiserver.ask("POST", path, {"apiVersion": "v1", "kind": "Pod", **body})
    until(lambda: rcode("127.0.0.41") == "NOERROR")
    assert rcode("127.0.0.42") == "REFUSED"
    for name in ("asker", "agent"):
        apiserver.ask("DELETE", f"{path}/{name}")
    until(lambda: rcode("127.0.0.41") == "REFUSED")


def change(server: ApiServer, name: str, address: str) -> None:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
    server.create(body)


@pytest.mark.parametrize("way", ["kubeconfig", "token over https"])
def test_changes_arrive(apiserver: ApiServer, follow: Any, way: str) -> None:
    api = Kubeconfig(apiserver.info["kubeconfig"]) if way == "kubeconfig" else Endpoint(apiserver.info["https"], ca=apiserver.info["ca"])
    recorder, _ = follow(api)
    change(apiserver, "new", "10.96.7.7")
    until(lambda: addresses(recorder).get("new") == "10.96.7.7")
    apiserver.ask("DELETE", "/api/v1/namespaces/default/services/new")
    until(lambda: "new" not in addresses(recorder))


def test_a_restart_and_a_compaction_lose_nothing(cluster_programs: Path, follow: Any, lines: list[str]) -> None:
    server = ApiServer()
    try:
        change(server, "first", "10.96.7.1")
        recorder, lease = follow(Endpoint(server.http), Kind.NAMESPACE, Kind.SERVICE)
        server.command("stop")
        time.sleep(0.5)
        assert addresses(recorder)["first"] == "10.96.7.1"
        assert lease.synced
        server.command("start")
        change(server, "second", "10.96.7.2")
        until(lambda: "second" in addresses(recorder))
        # The watch cannot resume over a compaction that the server's cache has not seen.
        server.command("stop")
        server.command("compact")
        server.command("start")
        server.ask("DELETE", "/api/v1/namespaces/default/services/first")
        until(lambda: "first" not in addresses(recorder))
        assert addresses(recorder)["second"] == "10.96.7.2"
        assert recorder.log.count(("upsert", "service", "default", "kubernetes")) == 1
    finally:
        server.stop()


@pytest.fixture
def strict(cluster_programs: Path) -> Iterator[ApiServer]:
    server = ApiServer("--deny-anonymous", "--client-cert-auth")
    yield server
    server.stop()


def test_credentials(strict: ApiServer, follow: Any, lines: list[str], tmp_path: Path) -> None:
    info = strict.info
    follow(Endpoint(info["https"], ca=info["ca"]), wait=0)
    until(lambda: lines)
    assert lines == ["[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1.Service: Unauthorized"]
    follow(Endpoint(info["https"], info["client_cert"], info["client_key"], info["ca"]))
    follow(Kubeconfig(info["kubeconfig"]))


def test_an_etcd_that_is_restored(cluster_programs: Path, serve: Any) -> None:
    """Objects and revisions go back. A watch from a revision that is not yet there is silent, so the server is asked for it first."""
    api = ApiServer()
    try:
        change(api, "web", "10.96.7.1")
        change(api, "old", "10.96.7.2")
        server = serve(WATCHED.replace("URL", api.http))
        replica = serve(REPLICA.replace("FROM", f"127.0.0.1:{server.port}\n        stale serve 2s"))
        replica.until("old.default.svc.cluster.local.", "A", ["10.96.7.2"])
        api.command("backup")
        for name in ("web", "old"):
            api.ask("DELETE", f"/api/v1/namespaces/default/services/{name}")
        change(api, "web", "10.96.7.11")
        change(api, "new", "10.96.7.3")
        for one in (server, replica):
            one.until("old.default.svc.cluster.local.", "A", ["NXDOMAIN"])
            one.until("web.default.svc.cluster.local.", "A", ["10.96.7.11"])
        api.command("restore")
        change(api, "later", "10.96.7.4")
        for one in (server, replica):
            one.until("old.default.svc.cluster.local.", "A", ["10.96.7.2"])
            one.until("web.default.svc.cluster.local.", "A", ["10.96.7.1"])
            one.until("new.default.svc.cluster.local.", "A", ["NXDOMAIN"])
            one.until("later.default.svc.cluster.local.", "A", ["10.96.7.4"])
    finally:
        api.stop()
