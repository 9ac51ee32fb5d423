"""PROXY headers before a TLS handshake, through sockets."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

import dns.message
import dns.rcode
import pytest

from tests.certificates import client_context, write_certificates
from tests.proxying import LOCAL, SIGNATURE, UNSPEC, binary, block, text, tlv, whose
from tests.server import Server
from tests.tls.client import framed, is_closed, read
from tests.waiting import LIMIT

Serve = Callable[..., Server]

COREFILE = """
tls://.:{port} {
    bind 127.0.0.1
    tls server.pem server.key
    proxyproto%s
    timeouts {
        read 2s
    }
    log . "{remote} {local} {proto} {name}"
    acl {
        block net 192.0.2.66/32
    }
    whoami
}
"""


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(COREFILE % "", prepare=write_certificates)


def plain(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(LIMIT)
    return connection


def encrypted(server: Server, connection: socket.socket) -> ssl.SSLSocket:
    return client_context(server.folder).wrap_socket(connection)


def asked(connection: ssl.SSLSocket, count: int = 3) -> list[dns.message.Message]:
    connection.sendall(framed(*[dns.message.make_query("a.", "A", id=number) for number in range(count)]))
    return [read(connection) for _ in range(count)]


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"", "127.0.0.1"),
        (text("192.0.2.7"), "192.0.2.7"),
        (text("2001:db8::7"), "2001:db8::7"),
        (binary("192.0.2.7", tlvs=tlv(1, b"dot") + tlv(3, bytes(4))), "192.0.2.7"),
        (binary("2001:db8::7"), "2001:db8::7"),
        (block(LOCAL, UNSPEC, b""), "127.0.0.1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ],
)
def test_the_client_is_the_headers(server: Server, header: bytes, client: str) -> None:
    with plain(server) as connection:
        connection.sendall(header)
        with encrypted(server, connection) as tls:
            assert [whose(reply)[0] for reply in asked(tls)] == [client] * 3


def test_log_and_acl_see_it(server: Server) -> None:
    with plain(server) as connection:
        connection.sendall(binary("192.0.2.66", "203.0.113.5"))
        with encrypted(server, connection) as tls:
            assert asked(tls, 1)[0].rcode() == dns.rcode.REFUSED
    server.wait_log(r"192\.0\.2\.66 203\.0\.113\.5 tcp a\.")


def test_a_header_in_pieces(server: Server) -> None:
    with plain(server) as connection:
        for octet in binary("192.0.2.7"):
            connection.sendall(bytes((octet,)))
            time.sleep(0.001)
        with encrypted(server, connection) as tls:
            assert whose(asked(tls, 1)[0])[0] == "192.0.2.7"


@pytest.mark.parametrize("options", ["", "{\n default reject\n}"])
def test_refused(serve: Serve, options: str) -> None:
    """Malformed, and one that may not be sent: the connection is closed before the handshake."""
    server = serve(COREFILE % f" {options}", prepare=write_certificates)
    header = binary("192.0.2.7") if options else block(0x31, 0x11, bytes(12))
    with plain(server) as connection:
        connection.sendall(header)
        assert is_closed(connection)


def test_ignored(serve: Serve) -> None:
    server = serve(COREFILE % " {\n allow 192.0.2.0/24\n}", prepare=write_certificates)
    with plain(server) as connection:
        connection.sendall(binary("192.0.2.7"))
        with encrypted(server, connection) as tls:
            assert whose(asked(tls, 1)[0])[0] == "127.0.0.1"


@pytest.mark.parametrize("octets", [b"", SIGNATURE, binary("192.0.2.7"), binary("192.0.2.7") + b"\x16\x03\x01"])
def test_silence_ends_with_the_read_timeout(server: Server, octets: bytes) -> None:
    """Header and handshake share it."""
    with plain(server) as connection:
        begun = time.monotonic()
        connection.sendall(octets)
        try:
            assert connection.recv(100) == b""
        except ConnectionResetError:
            pass
        assert time.monotonic() - begun >= 1.9


def test_in_clear_text(serve: Serve) -> None:
    """Without a certificate, behind a proxy that ends TLS."""
    server = serve((COREFILE % "").replace("    tls server.pem server.key\n", ""))
    with plain(server) as connection:
        connection.sendall(text("192.0.2.7") + framed(dns.message.make_query("a.", "A")))
        assert whose(read(connection))[0] == "192.0.2.7"


@pytest.mark.parametrize("clear", [False, True])
def test_https(serve: Serve, clear: bool) -> None:
    """HTTP/1.1 with TLS and without. Both requests of the connection have the client of its header."""
    corefile = (COREFILE % "").replace("tls://", "https://")
    server = serve(corefile.replace("    tls server.pem server.key\n", "") if clear else corefile, prepare=write_certificates)
    body = dns.message.make_query("a.", "A", id=0).to_wire()
    request = b"POST /dns-query HTTP/1.1\r\nHost: server.test\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with plain(server) as connection:
        connection.sendall(binary("192.0.2.7"))
        with connection if clear else encrypted(server, connection) as stream:
            for _ in range(2):
                stream.sendall(request)
                head, _, rest = received_until(stream, b"\r\n\r\n").partition(b"\r\n\r\n")
                length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")).split(b":")[1])
                while len(rest) < length:
                    rest += stream.recv(4096)
                assert whose(dns.message.from_wire(rest))[0] == "192.0.2.7"


def received_until(stream: socket.socket, end: bytes) -> bytes:
    octets = b""
    while end not in octets:
        part = stream.recv(4096)
        assert part, octets
        octets += part
    return octets
