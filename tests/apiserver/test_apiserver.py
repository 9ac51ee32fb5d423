"""The API server behaves as clients of a real one expect."""

from __future__ import annotations

import gzip
import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.process import ROOT, ApiServer
from tests.waiting import LIMIT

pytestmark = pytest.mark.slow

PODS, SERVICES, SLICES = "/api/v1/pods", "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"
IMPORTS = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports"
CONFIGS = "/api/v1/namespaces/default/configmaps"
STREAMING = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Asked(ApiServer):
    """With a small synthetic cluster, asked for statuses and headers, too."""

    def __init__(self, *flags: str) -> None:
        super().__init__(*flags)
        self.populate()

    def raw(
        self, path: str, method: str = "GET", body: Any = None, token: str | None = None, tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, Message, bytes]:
        """Status, headers and body; over HTTPS if a context is given. An empty ``token`` leaves the credentials out."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            sent["Authorization"] = f"Bearer {token or self.token}"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        request = urllib.request.Request(self.info["https" if tls else "http"] + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT, context=tls) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def status(self, path: str, **arguments: Any) -> int:
        return self.raw(path, **arguments)[0]

    def get(self, path: str) -> Any:
        return json.loads(self.raw(path)[2])

    def count(self, path: str) -> int:
        return len(self.get(path)["items"])

    def watch(self, path: str) -> list[Any]:
        return [json.loads(line) for line in self.raw(path)[2].splitlines()]


@pytest.fixture(scope="module")
def servers(cluster_programs: Path) -> Iterator[Callable[..., Asked]]:
    """``servers(*flags)`` is a running server with these flags."""
    started: dict[tuple[str, ...], Asked] = {}

    def get(*flags: str) -> Asked:
        if flags not in started:
            started[flags] = Asked(*flags)
        return started[flags]

    yield get
    for server in started.values():
        server.stop()


WITHOUT_CACHE = "--watch-cache=false"
WITHOUT_SNAPSHOTS = "--feature-gates=ListFromCacheSnapshot=false"


@pytest.mark.parametrize("flags", [(), (WITHOUT_CACHE,), (WITHOUT_SNAPSHOTS,)])
def test_lists(servers: Callable[..., Asked], flags: tuple[str, ...]) -> None:
    server = servers(*flags)
    everything = server.get(PODS)
    assert len(everything["items"]) == server.count(f"{PODS}?resourceVersion=0") == 200
    assert "kind" not in everything["items"][0]
    pages, following = [], ""
    while True:
        page = server.get(f"{PODS}?limit=30&continue={following}")
        pages.append(len(page["items"]))
        following = page["metadata"].get("continue", "")
        if not following:
            break
        assert page["metadata"]["remainingItemCount"] == 200 - sum(pages)
    assert pages == [30] * 6 + [20]
    assert server.count(f"{SERVICES}?fieldSelector=metadata.name%3Dsvc-00003") == 1
    assert server.count(f"{SERVICES}?fieldSelector=metadata.namespace%3Dteam-0001") == 8
    assert server.count(f"{SLICES}?labelSelector=kubernetes.io/service-name%3Dsvc-00003") == 2, "one for each IP family"
    assert server.status(f"{SERVICES}?fieldSelector=spec.nothing%3D1") == 400
    assert server.status(f"{SERVICES}?resourceVersion=99999999") == 504, "a revision of the future"


@pytest.mark.parametrize("flags", [(), (WITHOUT_CACHE,)])
def test_watches(servers: Callable[..., Asked], flags: tuple[str, ...]) -> None:
    server = servers(*flags)
    events = server.watch(f"{SERVICES}?{STREAMING}")
    assert [event["type"] for event in events] == ["ADDED"] * server.count(SERVICES) + ["BOOKMARK"]
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    since = server.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    server.ask("POST", CONFIGS, {"metadata": {"name": "a"}})
    server.ask("PUT", f"{CONFIGS}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    server.ask("DELETE", f"{CONFIGS}/a")
    events = server.watch(f"/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={since}")
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]


def test_formats(servers: Callable[..., Asked]) -> None:
    server = servers()
    _, headers, body = server.raw(PODS, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["kind"] == "PodList"
    assert server.raw(PODS, Accept=PROTOBUF)[2].startswith(b"k8s\0")
    assert server.status(IMPORTS, Accept=PROTOBUF) == 406, "custom resources have no protobuf"
    assert server.raw(IMPORTS, Accept=f"{PROTOBUF},application/json")[1]["Content-Type"] == "application/json"
    assert server.status(PODS, Accept="application/cbor") == 406


@pytest.mark.parametrize("path", ["/version", "/readyz", "/healthz", "/livez", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/metrics"])
def test_documents(servers: Callable[..., Asked], path: str) -> None:
    assert servers().status(path) == 200


def test_addresses_of_services(servers: Callable[..., Asked]) -> None:
    server = servers()
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "demo"}})
    services = "/api/v1/namespaces/demo/services"

    def create(name: str, **spec: Any) -> tuple[int, Any]:
        status, _, body = server.raw(services, method="POST", body={"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}})
        return status, json.loads(body).get("spec")

    single, dual = create("single")[1], create("dual", ipFamilyPolicy="PreferDualStack")[1]
    assert single["clusterIP"].startswith("10.96.")
    assert single["ports"][0]["protocol"] == "TCP"
    assert dual["ipFamilies"] == ["IPv4", "IPv6"]
    assert len(dual["clusterIPs"]) == 2
    assert create("headless", clusterIP="None")[1]["clusterIPs"] == ["None"]
    assert "clusterIP" not in create("external", type="ExternalName", externalName="example.org")[1]
    assert create("clash", clusterIP=single["clusterIP"])[0] == 422
    assert create("9invalid")[0] == 422
    server.ask("DELETE", "/api/v1/namespaces/demo")
    assert server.count(services) == 0, "a namespace takes its contents along"


def test_changes_are_recorded(servers: Callable[..., Asked], tmp_path: Path) -> None:
    server, output = servers(), tmp_path / "changes"
    command = [sys.executable, "-m", "tests.apiserver.churn", "--server", server.http, "--output", str(output), "--rate", "20", "--seconds", "1"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    changes = [json.loads(line) for line in output.read_text().splitlines()]
    assert 10 <= len(changes) <= 20
    last = changes[-1]
    stored = server.get(f"/apis/discovery.k8s.io/v1/namespaces/{last['object']['metadata']['namespace']}/endpointslices/{last['object']['metadata']['name']}")
    assert last["new"] in {address for endpoint in stored["endpoints"] for address in endpoint["addresses"]}
    assert last["old"] != last["new"]
    assert last["name"].endswith(".svc.cluster.local.")


def test_an_outage_after_which_the_past_is_forgotten(servers: Callable[..., Asked]) -> None:
    server = servers()
    before = server.count(SERVICES)
    server.command("compact")
    server.command("stop")
    with pytest.raises(urllib.error.URLError):
        server.raw("/readyz")
    server.command("start")
    assert server.count(SERVICES) == before
    (event,) = server.watch(f"{PODS}?watch=1&resourceVersion=2&timeoutSeconds=2")
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410


@pytest.mark.parametrize("flag", [WITHOUT_CACHE, WITHOUT_SNAPSHOTS])
def test_a_compaction_ends_a_list_in_pages(servers: Callable[..., Asked], flag: str) -> None:
    server = servers(flag)
    following = server.get(f"{PODS}?limit=50")["metadata"]["continue"]
    server.ask("POST", CONFIGS, {"metadata": {"generateName": "x-"}})
    server.command("compact")
    assert server.status(f"{PODS}?limit=50&continue={following}") == 410


def test_credentials(servers: Callable[..., Asked]) -> None:
    server = servers("--deny-anonymous", "--client-cert-auth")
    anyone = ssl.create_default_context(cafile=server.info["ca"])
    certified = ssl.create_default_context(cafile=server.info["ca"])
    certified.load_cert_chain(server.info["client_cert"], server.info["client_key"])
    assert server.status(SERVICES, tls=anyone) == 200
    assert server.status(SERVICES, tls=anyone, token="") == server.status(SERVICES, token="") == 401
    assert server.status(SERVICES, tls=anyone, token="wrong") == 401
    assert server.status(SERVICES, tls=certified, token="") == 200
