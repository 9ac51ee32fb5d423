"""forward over TLS and HTTPS: certificates, kept connections, failures, health checks."""

from __future__ import annotations

import base64
import contextlib
import datetime
import ipaddress
import itertools
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rcode
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fastdns.testing import Upstream
from tests.certificates import write_certificates
from tests.plugins.forward.test_forward import GIVE_UP, accepted, corefile, metrics, reply
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and cert.pem and key.pem for dns.test and 127.0.0.1."""
    folder = tmp_path_factory.mktemp("certificates")
    begin, end = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca = (
        x509.CertificateBuilder(ca_name, ca_name, ca_key.public_key(), 1, begin, end)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.DNSName("dns.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dns.test")])
    cert = (
        x509.CertificateBuilder(ca_name, subject, key.public_key(), 2, begin, end)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "cert.pem").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return folder


class Encrypted:
    """A TLS listener on a free port; ``_serve_connection`` of a subclass speaks on each connection."""

    def __init__(self, certificates: Path, port: int = 0) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        self.listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen: list[dns.message.Message] = []
        self.lines: list[str] = []
        self.open: list[ssl.SSLSocket] = []
        self.rcode = 0
        #: Replies leave while it is set.
        self.going = threading.Event()
        self.going.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            with self.context.wrap_socket(connection, server_side=True) as encrypted:
                self.open.append(encrypted)
                self._serve_connection(encrypted)
        except (OSError, EOFError, ValueError):
            connection.close()

    def _serve_connection(self, connection: socket.socket) -> None:
        raise AssertionError

    def answer(self, octets: bytes) -> bytes:
        query = dns.message.from_wire(octets)
        self.seen.append(query)
        self.going.wait(2 * LIMIT)
        return reply(query, "@ 5 A 192.0.2.1", rcode=self.rcode).to_wire()

    def hang_up(self) -> None:
        for connection in self.open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        self.going.set()
        self.listener.close()
        self.hang_up()


class TlsServer(Encrypted):
    def _serve_connection(self, connection: socket.socket) -> None:
        lock = threading.Lock()

        def one(octets: bytes) -> None:
            answer = self.answer(octets)
            with lock, contextlib.suppress(OSError):
                connection.sendall(struct.pack("!H", len(answer)) + answer)

        with connection.makefile("rb") as stream:
            while head := stream.read(2):
                octets = stream.read(struct.unpack("!H", head)[0])
                threading.Thread(target=one, args=(octets,), daemon=True).start()


class HttpsServer(Encrypted):
    chunked = False

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while line := stream.readline().decode().strip():
                self.lines.append(line)
                headers = dict(part.decode().strip().lower().split(": ", 1) for part in iter(stream.readline, b"\r\n"))
                assert headers["accept"] == "application/dns-message"
                method, path, _ = line.split()
                if method == "POST":
                    assert path == "/dns-query"
                    assert headers["content-type"] == "application/dns-message"
                    octets = stream.read(int(headers["content-length"]))
                else:
                    text = path.removeprefix("/dns-query?dns=")
                    octets = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
                assert octets[:2] == b"\0\0", "RFC 8484 4.1: id 0"
                body = self.answer(octets)
                if self.chunked:
                    parts = b"".join(b"%x;note=x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n")
                else:
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


@pytest.fixture
def tls(certificates: Path) -> Iterator[TlsServer]:
    server = TlsServer(certificates)
    yield server
    server.close()


@pytest.fixture
def https(certificates: Path) -> Iterator[HttpsServer]:
    server = HttpsServer(certificates)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("to", "options", "wanted"),
    [
        ("tls://{up}", "tls {ca}\n tls_servername dns.test", "192.0.2.1"),
        ("tls://127.0.0.1%dns.test:{up_port}", "tls {ca}", "192.0.2.1"),
        ("tls://{up}", "tls {ca}", "192.0.2.1"),
        ("tls://{up}", "tls {ca}\n tls_servername other.test", "SERVFAIL"),
        ("tls://{up}", "tls_servername dns.test", "SERVFAIL"),
        ("tls://{up}", "tls {cert} {key} {ca}", "192.0.2.1"),
    ],
)
def test_certificates(serve: Serve, certificates: Path, tls: TlsServer, to: str, options: str, wanted: str) -> None:
    options = options.format(ca=certificates / "ca.pem", cert=certificates / "cert.pem", key=certificates / "key.pem")
    to = to.format(up=tls.address, up_port=tls.address.rpartition(":")[2])
    server = serve(corefile(f"max_connect_attempts 1\n {options}", to, before="errors"))
    assert server.answers("A.test.") == [wanted]
    if wanted == "SERVFAIL":
        server.wait_log(r"\[ERROR\] plugin/errors: 2 a\.test\. A: tls: failed to verify certificate")
    else:
        assert server.answers("b.test.", tcp=True) == [wanted]
        assert tls.seen[0].question[0].name.to_text() == "A.test."


def test_connections_are_kept_and_closed_ones_replaced(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    connections = accepted(tls)  # type: ignore[arg-type]
    options = f"tls {certificates}/ca.pem\n max_connect_attempts 1"
    server = serve(corefile(options, f"tls://{tls.address}", before="prometheus 127.0.0.1:{port2}"))
    for i in range(5):
        assert server.answers(f"{i}.test.") == ["192.0.2.1"]
    assert len(connections) == 1
    tls.hang_up()
    assert server.answers("again.test.") == ["192.0.2.1"]
    assert len(connections) == 2
    page = metrics(server)
    hits, misses = (page[f'coredns_proxy_conn_cache_{what}_total{{proto="tcp-tls",proxy_name="forward",to="{tls.address}"}}'] for what in ("hits", "misses"))
    assert hits + misses == 6


def test_connection_takes_several_questions(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    tls.going.clear()
    connections = accepted(tls)  # type: ignore[arg-type]
    server = serve(corefile(f"tls {certificates}/ca.pem\n read_timeout 12s", f"tls://{tls.address}"))
    got: list[str] = []
    threads = [threading.Thread(target=lambda i=i: got.extend(server.answers(f"{i}.test."))) for i in range(40)]
    for thread in threads:
        thread.start()
    until(lambda: len(tls.seen) == 40, "that all are asked while none is answered")
    tls.going.set()
    for thread in threads:
        thread.join()
    assert got == ["192.0.2.1"] * 40
    assert len(connections) <= 10


def test_silent_tls_upstream_times_out(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    tls.going.clear()
    server = serve(corefile(f"tls {certificates}/ca.pem\n read_timeout 200ms", f"tls://{tls.address}", before="errors"))
    begun = time.monotonic()
    assert server.answers("a.test.") == ["SERVFAIL"]
    assert time.monotonic() - begun < GIVE_UP
    server.wait_log(rf"read tcp 127\.0\.0\.1:\d+->{tls.address}: i/o timeout")


@pytest.mark.parametrize("scheme", ["tls", "https"])
def test_health_of_an_encrypted_upstream(serve: Serve, certificates: Path, scheme: str) -> None:
    port = free_port()
    options = f"tls {certificates}/ca.pem\n health_check 50ms\n max_fails 1\n failfast_all_unhealthy_upstreams"
    server = serve(corefile(options, f"{scheme}://127.0.0.1:{port}", before="errors"))
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(r"connect: connection refused")
    numbers = itertools.count()

    def down() -> bool:
        name = f"b{next(numbers)}.test."
        assert server.answers(name) == ["SERVFAIL"]
        return bool(server.wait_log(rf"{name} A: (.*)")[1] == "no healthy proxies")

    until(down)
    upstream = TlsServer(certificates, port) if scheme == "tls" else HttpsServer(certificates, port)
    try:
        server.until("c.test.", "A", ["192.0.2.1"])

        def probes() -> list[str]:
            return [query.question[0].to_text() for query in upstream.seen if query.question[0].name.to_text() == "."]

        assert set(probes()) == {". IN NS"}
        time.sleep(0.2)  # what was under way
        count = len(probes())
        time.sleep(0.3)
        assert len(probes()) == count, "it is up, and not asked any more"
    finally:
        upstream.close()


@pytest.mark.parametrize(("method", "chunked"), [("POST", False), ("GET", False), ("POST", True)])
def test_https(serve: Serve, certificates: Path, https: HttpsServer, method: str, chunked: bool) -> None:
    https.chunked = chunked
    connections = accepted(https)  # type: ignore[arg-type]
    server = serve(corefile(f"tls {certificates}/ca.pem\n doh_method {method}", f"https://{https.address}"))
    for i in range(4):
        assert server.answers(f"{i}.test.", tcp=i % 2 == 1) == ["192.0.2.1"]
    assert [line.split()[0] for line in https.lines] == [method] * 4
    assert len(connections) == 1
    https.hang_up()
    assert server.answers("again.test.") == ["192.0.2.1"]
    https.rcode = 3
    assert server.query("nx.test.").rcode() == dns.rcode.NXDOMAIN


def test_more_questions_than_connections_of_http1(serve: Serve, certificates: Path, https: HttpsServer) -> None:
    https.going.clear()
    connections = accepted(https)  # type: ignore[arg-type]
    server = serve(corefile(f"tls {certificates}/ca.pem\n read_timeout 30s", f"https://{https.address}"), "-workers", "1")
    got: list[str] = []
    threads = [threading.Thread(target=lambda i=i: got.extend(server.answers(f"{i}.test."))) for i in range(80)]
    for thread in threads:
        thread.start()
    until(lambda: len(https.seen) == 64, "that each connection has a question")
    https.going.set()
    for thread in threads:
        thread.join()
    assert got == ["192.0.2.1"] * 80
    assert len(connections) == 64


def test_https_gives_up_after_two_seconds(serve: Serve, certificates: Path, https: HttpsServer) -> None:
    https.going.clear()
    server = serve(corefile(f"tls {certificates}/ca.pem\n max_connect_attempts 1", f"https://{https.address}"))
    begun = time.monotonic()
    assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL
    assert 1.9 < time.monotonic() - begun < 9


def test_certificates_that_change_on_disk(serve: Serve, certificates: Path, tls: TlsServer, tmp_path: Path) -> None:
    """First the file has a certificate that is no CA of the upstream's, then the right one."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes((write_certificates(tmp_path) / "ca.pem").read_bytes())
    server = serve(corefile(f"tls {trusted}\n max_fails 0\n max_connect_attempts 1", f"tls://{tls.address}", before="errors"))
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(r"tls: failed to verify certificate: unable to get local issuer certificate")
    replacement = tmp_path / "replacement.pem"
    replacement.write_bytes((certificates / "ca.pem").read_bytes())
    replacement.replace(trusted)
    server.wait_log(rf"\[INFO\] plugin/forward: Read {trusted} again")
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_reload_closes_connections(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    server = serve(corefile(f"tls {certificates}/ca.pem\n expire 1h", f"tls://{tls.address}"))
    assert server.answers("b.test.") == ["192.0.2.1"]
    (connection,) = tls.open
    server.reload(corefile("", "127.0.0.1:1"))
    until(lambda: connection.fileno() == -1, "that the connection is closed")


def test_sessions_are_resumed(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    reused: list[bool | None] = []
    inner = tls._serve_connection

    def note(connection: ssl.SSLSocket) -> None:
        reused.append(connection.session_reused)
        inner(connection)

    tls._serve_connection = note  # type: ignore[assignment, method-assign]
    server = serve(corefile(f"tls {certificates}/ca.pem", f"tls://{tls.address}"), "-workers", "1")
    for i in range(3):
        assert server.answers(f"n{i}.test.") == ["192.0.2.1"]
        tls.hang_up()
    assert server.answers("last.test.") == ["192.0.2.1"]
    assert reused == [False, True, True, True]


@pytest.mark.parametrize("scheme", ["tls", "https"])
def test_a_handshake_that_hangs_holds_nobody_up(serve: Serve, certificates: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, Upstream(lambda query: reply(query, "@ 5 A 192.0.2.9")) as quick:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        slow = f"forward slow.test {scheme}://{address} {{\n tls {certificates}/ca.pem\n max_connect_attempts 1\n}}"
        server = serve(corefile("", quick.address, before=f"errors\n{slow}"), "-workers", "1")
        got: list[list[str]] = []
        asking = threading.Thread(target=lambda: got.append(server.answers("a.slow.test.")))
        asking.start()
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1) == b"\x16"
            for i in range(50):
                assert server.answers(f"n{i}.test.") == ["192.0.2.9"]
            asking.join()
        assert got == [["SERVFAIL"]]
        server.wait_log(rf"dial tcp {address}: i/o timeout" if scheme == "tls" else rf'Post "https://{address}/dns-query": context deadline exceeded')


@pytest.mark.parametrize("scheme", ["tls", "https"])
def test_a_server_without_tls(serve: Serve, certificates: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        address = f"127.0.0.1:{plain.getsockname()[1]}"
        server = serve(corefile("max_connect_attempts 1\n max_fails 0", f"{scheme}://{address}", before="errors"))
        got: list[list[str]] = []
        asking = threading.Thread(target=lambda: got.append(server.answers("a.test.")))
        asking.start()
        connection, _ = plain.accept()
        with connection:
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            asking.join()
        assert got == [["SERVFAIL"]]
        server.wait_log(r"plugin/errors: 2 a\.test\. A: tls: wrong version number")


def test_a_connection_that_ends_mid_message(serve: Serve, certificates: Path, tls: TlsServer) -> None:
    """The first reply of each connection is whole; behind it comes half of one, and the end."""
    whole = [True]

    def half(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while head := stream.read(2):
                answer = tls.answer(stream.read(struct.unpack("!H", head)[0]))
                octets = struct.pack("!H", len(answer)) + answer
                if not whole[0]:
                    whole[0] = True
                    connection.sendall(octets[:20])
                    return
                connection.sendall(octets)

    tls._serve_connection = half  # type: ignore[method-assign]
    server = serve(corefile(f"tls {certificates}/ca.pem\n max_connect_attempts 1", f"tls://{tls.address}"), "-workers", "1")
    assert server.answers("a.test.") == ["192.0.2.1"]
    whole[0] = False
    assert server.answers("b.test.") == ["192.0.2.1"]
    assert [str(query.question[0].name) for query in tls.seen] == ["a.test.", "b.test.", "b.test."]
