"""Load over TCP and TLS: pipelined, counted, and connections that break."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.workload import Question, Workload
from tests.bench.scripted import reply
from tests.server import free_port

QUERIES = QuerySet(Workload("test", [Question(f"n{i}.example.org.", 1, 0, frozenset({b"\x0a\0\0\1"})) for i in range(40)], array("I", range(40))))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's, with a certificate of its own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dns.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    signed = made.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1)).sign(key, hashes.SHA256())
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(file)
    return found


class Streams:
    """Serves connections, a thread each. ``patience``: queries after which it hangs up on a connection without an answer."""

    def __init__(self, context: ssl.SSLContext | None = None, patience: int = 1 << 30) -> None:
        self.context = context
        self.patience = patience
        self.connections = 0
        self.names: list[str | None] = []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self.socket.getsockname()[1]
        if context is not None:
            context.sni_callback = lambda made, name, _: self.names.append(name)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain: socket.socket) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self.context.wrap_socket(plain, server_side=True) if self.context else plain as connection, connection.makefile("rb") as stream:
                for _ in range(self.patience):
                    length = int.from_bytes(stream.read(2), "big")
                    query = stream.read(length)
                    if not length or len(query) < length:
                        return
                    answer = reply(query, "10.0.0.1")
                    whole = len(answer).to_bytes(2, "big") + answer
                    # In two pieces, as TCP may deliver it.
                    connection.sendall(whole[:5])
                    connection.sendall(whole[5:])
        except OSError:
            return


@pytest.fixture
def streams(context: ssl.SSLContext) -> Iterator[Callable[..., Streams]]:
    made: list[Streams] = []

    def start(transport: str, **options: Any) -> Streams:
        made.append(Streams(context if transport == "dot" else None, **options))
        return made[-1]

    yield start
    for each in made:
        each.socket.close()


def load(server: Streams, transport: str, **plan: Any) -> Result:
    return drive(QUERIES, Target("127.0.0.1", server.port, transport, "dns.test"), Plan(**{"seconds": 0.4, "timeout": 10, "clients": 3} | plan))


@pytest.mark.parametrize("plan", [{"rate": 600}, {"window": 30}, {"rate": 300, "warm": 0.1, "threads": 2}])
@pytest.mark.parametrize("transport", ["tcp", "dot"])
def test_pipelined(streams: Callable[..., Streams], transport: str, plan: dict[str, Any]) -> None:
    server = streams(transport)
    result = load(server, transport, **plan)
    assert result.sent == result.answered > 0
    assert (result.lost, result.wrong, result.refused) == (0, {}, 0)
    assert server.connections == 3
    assert server.names == ["dns.test"] * 3 * (transport == "dot")


@pytest.mark.parametrize("transport", ["tcp", "dot"])
def test_broken_connections_are_made_anew(streams: Callable[..., Streams], transport: str) -> None:
    server = streams(transport, patience=20)
    result = load(server, transport, rate=500, seconds=0.6, timeout=3)
    assert result.sent == result.answered + result.lost
    assert result.answered > 60
    assert server.connections > 3
    assert 0 < result.refused <= server.connections
    assert result.wrong == {}


@pytest.mark.parametrize("transport", ["tcp", "dot"])
def test_nobody_listens(transport: str) -> None:
    with pytest.raises(LoadError, match="refused"):
        drive(QUERIES, Target("127.0.0.1", free_port(), transport), Plan())


def test_no_tls_there(streams: Callable[..., Streams]) -> None:
    server = streams("tcp")
    with pytest.raises(LoadError, match=r"broken off|not connected"):
        drive(QUERIES, Target("127.0.0.1", server.port, "dot"), Plan(timeout=0.5))


def test_fastdns_over_tcp(serve: Callable[..., Any]) -> None:
    server = serve(".:{port} {\n    whoami\n    prometheus localhost:{port2}\n}\n")
    plain = QuerySet(Workload("test", [Question("www.example.org.", 1, 0)], array("I", [0])))
    result = drive(plain, Target("127.0.0.1", server.port, "tcp"), Plan(seconds=0.5, window=64))
    assert result.sent == result.answered > 100
    page = server.get(server.ports["port2"], "/metrics")
    assert sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("coredns_dns_requests_total{")) == result.sent
