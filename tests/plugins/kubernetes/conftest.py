"""API servers for these tests: the small one of the corpus, a scripted one, and the real one of tests/apiserver; and a cluster that feeds a recorder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastdns import control
from fastdns.plugins.kubernetes.watch import cluster as clusters
from fastdns.plugins.kubernetes.watch.cluster import Lease
from fastdns.plugins.kubernetes.watch.informers import Cluster, Options
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.apiserver.process import ApiServer
from tests.conformance.kube_api import KubeAPI
from tests.native.recorder import Recorder
from tests.server import free_port
from tests.waiting import LIMIT, until


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the plugin logs."""
    from fastdns.telemetry import log_line

    said: list[str] = []
    monkeypatch.setattr(log_line, "put", lambda *line: said.append(log_line.compose(*line).decode()))
    return said


@pytest.fixture
def follow() -> Iterator[Callable[..., tuple[Recorder, Lease]]]:
    """``follow(origin, *kinds, **options)`` starts informers into a recorder; all end with the test."""
    leases: list[Lease] = []

    def start(origin: Any, *kinds: Kind, wait: float = LIMIT, **options: Any) -> tuple[Recorder, Lease]:
        lease = clusters.acquire(origin, Options(**options), kinds or (Kind.SERVICE,), Recorder)
        leases.append(lease)
        lease.start()
        if wait:
            assert lease.wait(wait, say=False), "not synced"
        sink = lease.sink
        assert isinstance(sink, Recorder)
        return sink, lease

    yield start
    for lease in leases:
        lease.release()
    assert not clusters.registry
    until(lambda: not control.loop().tasks, "the end of all informers")


def cluster_of(lease: Lease) -> Cluster:
    return lease.cluster


@pytest.fixture
def fakekube() -> Iterator[Callable[..., KubeAPI]]:
    """``fakekube(objects, **options)`` starts the corpus's API server."""
    started: list[KubeAPI] = []

    def start(objects: list[Any] | tuple[Any, ...] = (), port: int = 0, **options: Any) -> KubeAPI:
        started.append(KubeAPI(port or free_port(), objects, **options))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a server certificate for 127.0.0.1 and two client certificates."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2")
    for name in ("server", "client", "other"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        openssl(*f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.crt".split())
    return folder


def pair(folder: Path, name: str) -> tuple[str, str]:
    return str(folder / f"{name}.crt"), str(folder / f"{name}.key")


class Scripted:
    """An API server that answers each request by a function ``(path, query) -> Answer``; anything may be wrong with its answers."""

    def __init__(self, answer: Callable[[str, dict[str, str]], Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        from urllib.parse import parse_qsl, urlsplit

        with contextlib.suppress(OSError), connection:
            head = b""
            while True:
                while b"\r\n\r\n" not in head:
                    got = connection.recv(65536)
                    if not got:
                        return
                    head += got
                raw, _, head = head.partition(b"\r\n\r\n")
                first, *rest = raw.decode().split("\r\n")
                url = urlsplit(first.split(" ")[1])
                query = dict(parse_qsl(url.query))
                self.requests.append((url.path, query, dict(line.lower().split(": ", 1) for line in rest)))
                for piece in self.answer(url.path, query):
                    if piece is None:
                        return
                    if isinstance(piece, float):
                        time.sleep(piece)
                    else:
                        connection.sendall(piece)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    started: list[Scripted] = []

    def start(answer: Callable[[str, dict[str, str]], Any]) -> Scripted:
        started.append(Scripted(answer))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def reply(body: bytes | Any, status: int = 200, content_type: str = "application/json", **headers: str) -> bytes:
    """A whole reply; what is not octets becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n{more}Content-Length: {len(data)}\r\n\r\n".encode() + data


def status(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}


def chunk(*values: Any) -> bytes:
    """Chunks of a stream, each with one JSON line."""
    pieces = [value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n" for value in values]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def service(name: str, ip: str = "10.0.0.1", version: int = 1, namespace: str = "default") -> dict[str, Any]:
    return {
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]},
    }


def service_list(*services: Any, version: int = 10, following: str = "") -> dict[str, Any]:
    return {"kind": "ServiceList", "metadata": {"resourceVersion": str(version), "continue": following}, "items": list(services)}


def addresses(recorder: Recorder) -> dict[str, str]:
    """Service -> its first cluster IP."""
    return {name: view["cluster_ips"][0][0] if view["cluster_ips"] else "None" for (_, name), view in recorder.objects(Kind.SERVICE).items()}


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives or raises, run on a loop of its own."""
    return asyncio.run(coroutine)


@pytest.fixture(scope="module")
def apiserver(cluster_programs: Path) -> Iterator[ApiServer]:
    """A real API server with a small synthetic cluster."""
    server = ApiServer()
    server.populate()
    yield server
    server.stop()
