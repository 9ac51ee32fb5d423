"""Several servers as one: by their addresses, and as pods by the Kubernetes API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apiserver.process import ApiServer
from tests.server import Server, command, free_port

Serve = Callable[..., Server]
TOKEN = "correct-horse-battery-staple"


def top(*words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run([*command(), "top", "-once", "-json", *words], capture_output=True, text=True, timeout=90, check=False, env=env)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def replicas(serve: Serve, tmp_path: Path) -> tuple[int, list[Server]]:
    """Two servers whose consoles have the same port, as those of pods, and the token of ``token``."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    port = free_port()
    corefile = ".:{{port}} {{\n console 127.0.0.{host}:{port} {{\n  token {token}\n }}\n whoami\n}}"
    found = [serve(corefile.format(host=host, port=port, token=tmp_path / "token")) for host in (2, 3)]
    for number, server in enumerate(found):
        for _ in range(3 + number):
            server.query("example.org.")
    return port, found


def test_addresses(replicas: tuple[int, list[Server]], tmp_path: Path) -> None:
    port, servers = replicas
    addresses = [f"127.0.0.{host}:{port}" for host in (2, 3)]
    status, out, err = top("-token", str(tmp_path / "token"), *addresses)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert [(row["source"], row["pid"]) for row in found["servers"]] == [(address, server.pid) for address, server in zip(addresses, servers, strict=True)]
    assert found["totals"]["queries"] == 7
    status, out, _ = top("-token", str(tmp_path / "token"), addresses[0], "127.0.0.4:1")
    found = json.loads(out)
    assert status == 1
    assert [bool(row["error"]) for row in found["servers"]] == [False, True]
    assert found["totals"]["queries"] == 3


def test_bounds_of_a_key_that_one_server_does_not_list(serve: Serve) -> None:
    """Its table is longer than what is read of it: the truth is still between count - error and count."""
    servers = [serve(".:{port} {\n console 127.0.0.1:{port2}\n top\n whoami\n}") for _ in range(2)]
    for _ in range(30):
        servers[0].query("hot.test")
    for number in range(150):
        for _ in range(3):
            servers[1].query(f"n{number}.test")
    for _ in range(2):
        servers[1].query("hot.test")
    status, out, err = top(*(f"127.0.0.1:{server.ports['port2']}" for server in servers))
    assert (status, err) == (0, "")
    names = json.loads(out)["top"]["tables"]["names"]
    assert names["rows"][0] == {"key": {"name": "hot.test."}, "count": 33, "error": 3}
    assert (names["total"], len(names["rows"]), names["absent"]) == (482, 100, 3)


def test_a_wrong_token(replicas: tuple[int, list[Server]], tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("x" * 20)
    status, out, _ = top("-token", str(tmp_path / "wrong"), f"127.0.0.2:{replicas[0]}")
    assert status == 1
    assert json.loads(out)["servers"][0]["error"] == "the token is missing or wrong"


@pytest.fixture
def cluster(cluster_programs: Path) -> Iterator[ApiServer]:
    """An API server, and a cluster with two pods of the servers and two others."""
    server = ApiServer()
    pods = [("dns-a", "kube-dns", "127.0.0.2"), ("dns-b", "kube-dns", "127.0.0.3"), ("other", "web", "127.0.0.5"), ("new", "kube-dns", "")]
    try:
        for name, app, address in pods:
            status = {"phase": "Running", "podIP": address} if address else {"phase": "Pending"}
            spec = {"containers": [{"name": "c", "image": "i"}]}
            body = {"metadata": {"name": name, "namespace": "kube-system", "labels": {"k8s-app": app}}, "spec": spec, "status": status}
            server.ask("POST", "/api/v1/namespaces/kube-system/pods", {"apiVersion": "v1", "kind": "Pod", **body})
        yield server
    finally:
        server.stop()


def test_pods_by_their_labels(replicas: tuple[int, list[Server]], cluster: ApiServer, tmp_path: Path) -> None:
    port, servers = replicas
    words = ("--selector", "k8s-app=kube-dns", "--port", str(port), "--token", str(tmp_path / "token"))
    status, out, err = top(*words, "--kubeconfig", cluster.info["kubeconfig"])
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert [(row["source"], row["pid"]) for row in found["servers"]] == [("dns-a", servers[0].pid), ("dns-b", servers[1].pid)]
    assert found["totals"]["queries"] == 7
    env = {"KUBECONFIG": cluster.info["kubeconfig"], "PATH": "/usr/bin:/bin"}
    assert top(*words, env=env)[0] == 0, "as kubectl finds it"
    status, _, err = top("-selector", "k8s-app=none", "-kubeconfig", cluster.info["kubeconfig"])
    assert (status, err) == (1, "no pod with an address has the labels k8s-app=none in the namespace kube-system\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-selector", "a in", "-kubeconfig", "/none"), "unable to parse requirement"),
        (("-selector", "a=b", "-kubeconfig", "/none"), "no credentials for the API server: stat /none: no such file or directory"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], text: str) -> None:
    status, out, err = top(*words)
    assert (status, out) == (1, "")
    assert text in err
