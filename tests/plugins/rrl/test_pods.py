"""rrl by pod and by namespace: a storm of one pod takes nothing from its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.plugins.rrl.test_rrl import replies

PODS = {"storm": ("shop", "127.0.0.10"), "web": ("shop", "127.0.0.11"), "probe": ("lab", "127.0.0.12")}

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port9}
    rrl {
        requests-per-second 20
        BY
    }
    kubernetes cluster.local {
        manifests {dir}/pods.yaml
        pods verified
    }
    whoami
}
"""


@pytest.fixture
def start(serve, tmp_path: Path):
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "status": {"podIP": address, "phase": "Running"},
        }
        for name, (namespace, address) in PODS.items()
    ]
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods))
    return lambda by: serve(COREFILE.replace("BY", by).replace("{dir}", str(tmp_path)))


@pytest.mark.parametrize(
    ("by", "neighbours", "namespace", "pod"),
    [("by pod", {"web": 15, "probe": 15}, "shop", "storm"), ("by namespace", {"web": 0, "probe": 15}, "shop", ""), ("", {"web": 0, "probe": 0}, "", "")],
)
def test_a_storm(start, by: str, neighbours: dict[str, int], namespace: str, pod: str) -> None:
    """10,000 queries of one pod; without `by` its neighbours in the /24 get nothing."""
    server = start(by)
    storm = replies(server, ["example.org."] * 10000, "127.0.0.10")
    assert 20 <= len(storm) <= 40
    assert {name: len(replies(server, ["example.org."] * 15, PODS[name][1])) for name in neighbours} == neighbours
    metrics = server.get(server.ports["port9"], "/metrics")
    line = f'fastdns_rrl_pod_exceeded_total{{client_ip="127.0.0.10",namespace="{namespace}",pod="{pod}"}}'
    assert (line in metrics) == bool(by)
    assert 'coredns_rrl_requests_exceeded_total{client_ip="127.0.0.10"}' in metrics


def test_who_is_no_pod_is_known_by_its_network(start) -> None:
    server = start("by pod")
    replies(server, ["example.org."] * 2000, "127.0.0.98")
    assert len(replies(server, ["example.org."] * 5, "127.0.0.99")) == 0
    assert len(replies(server, ["example.org."] * 5, "127.0.0.11")) == 5


def test_pods_must_be_known(serve) -> None:
    server = serve(".:{port} {\n whoami\n rrl {\n  by pod\n }\n}\n", wait=False)
    assert server.exit_status() == 1
    wanted = "Corefile:3 - Error during parsing: 'by pod' needs a plugin in the server block that knows which pod asks: kubernetes with 'pods verified'"
    assert wanted in server.log()
