"""A cluster read from an API server, page after page."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads import cluster, synthetic
from fastdns.plugins.kubernetes.watch.manifests import convert

SHAPE = synthetic.Shape(services=12, endpoints=40)
PLURALS = {"/api/v1/namespaces": "Namespace", "/api/v1/services": "Service", "/api/v1/pods": "Pod", "/apis/discovery.k8s.io/v1/endpointslices": "EndpointSlice"}
#: Objects of a page, whatever limit is asked for.
PAGE = 7


class API(BaseHTTPRequestHandler):
    status = 200
    objects: tuple[dict[str, Any], ...] = ()

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        start = int(dict(urllib.parse.parse_qsl(url.query)).get("continue", 0))
        items = [item for item in self.objects if item["kind"] == PLURALS[url.path]]
        following = {"continue": str(start + PAGE)} if start + PAGE < len(items) else {}
        body = json.dumps({"kind": "List", "metadata": {"resourceVersion": "1", **following}, "items": items[start : start + PAGE]}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(API, "objects", tuple(synthetic.objects(SHAPE)))
    with ThreadingHTTPServer(("127.0.0.1", 0), API) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "kubeconfig"
        contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("here", "there")]
        places = [("here", server.server_port), ("there", 1)]
        clusters = [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}} for name, port in places]
        path.write_text(json.dumps({"contexts": contexts, "clusters": clusters, "users": [{"name": "u", "user": {}}], "current-context": "here"}))
        yield path
        server.shutdown()


def test_all_pages_are_read(kubeconfig: Path) -> None:
    found = cluster.live(str(kubeconfig))
    wanted = cluster.Cluster(item for thing in synthetic.objects(SHAPE) for item in convert(thing))
    assert vars(found) == vars(wanted)
    assert len(found.pods) == 60


def test_refusals_are_told(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(API, "status", 403)
    with pytest.raises(WorkloadError, match=r"^API server: 403 "):
        cluster.live(str(kubeconfig))
    with pytest.raises(WorkloadError, match=r"^API server: .*refused"):
        cluster.live(str(kubeconfig), "there")
    with pytest.raises(WorkloadError, match=r"^kubeconfig: .*nowhere"):
        cluster.live(str(kubeconfig), "nowhere")
    with pytest.raises(WorkloadError, match=r"^kubeconfig: "):
        cluster.live(str(tmp_path / "missing"))
