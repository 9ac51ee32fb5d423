"""DNS over TLS: whole servers, asked over real connections."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest

from tests.certificates import client_context, common_name, write_certificate, write_certificates
from tests.server import Server
from tests.waiting import REPLY, until

COREFILE = "tls://.:{port} {\n tls server.pem server.key\n whoami\n}"


def connect(server: Server, certificate: str = "", port: int = 0) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port or server.port), REPLY)
    return client_context(server.folder, certificate).wrap_socket(plain)


def framed(*messages: dns.message.Message) -> bytes:
    return b"".join(struct.pack(">H", len(octets)) + octets for octets in (message.to_wire() for message in messages))


def read(connection: socket.socket) -> dns.message.Message:
    return dns.query.receive_tcp(connection, None)[0]


def ask(server: Server, name: str = "a.test.", certificate: str = "", port: int = 0) -> dns.message.Message:
    with connect(server, certificate, port) as connection:
        connection.sendall(framed(dns.message.make_query(name, "A")))
        return read(connection)


def is_closed(connection: socket.socket) -> bool:
    """Waits for the end of the connection."""
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def test_many_queries_on_one_connection(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    queries = [dns.message.make_query("a.test.", "A", id=i) for i in range(500)]
    with connect(server) as connection:
        octets = framed(*queries)
        for start in range(0, len(octets), 1000):  # messages in pieces, and several in one
            connection.sendall(octets[start : start + 1000])
        replies = [read(connection) for _ in queries]
    assert sorted(reply.id for reply in replies) == list(range(500))
    assert all(str(reply.additional[1].name) == "_tcp.a.test." for reply in replies)


def test_clear_text_without_a_certificate(serve: Callable[..., Server]) -> None:
    server = serve("tls://.:{port} {\n whoami\n}")
    assert server.query("a.test.", tcp=True).rcode() == dns.rcode.NOERROR


@pytest.mark.parametrize(
    ("client_auth", "served"),
    [
        ("nocert", {"", "client", "stranger"}),
        ("verify_if_given", {"", "client"}),
        ("require_and_verify", {"client"}),
    ],
)
def test_certificates_of_clients(serve: Callable[..., Server], client_auth: str, served: set[str]) -> None:
    corefile = "tls://.:{port} {\n tls server.pem server.key ca.pem {\n client_auth " + client_auth + "\n }\n whoami\n}"
    server = serve(corefile, prepare=write_certificates)

    def is_served(certificate: str) -> bool:
        try:
            return ask(server, certificate=certificate).rcode() == dns.rcode.NOERROR
        except (EOFError, OSError):
            return False

    assert {certificate for certificate in ("", "client", "stranger") if is_served(certificate)} == served


def test_an_old_protocol_is_refused(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    context = client_context(server.folder)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain, pytest.raises(OSError, match="(?i)protocol|alert|eof|reset"):
        context.wrap_socket(plain)


def test_a_reload_brings_a_renewed_certificate_and_keeps_connections(serve: Callable[..., Server]) -> None:
    corefile = COREFILE.replace("whoami", "timeouts {\n read 1h\n idle 1h\n }\n whoami")
    server = serve(corefile, prepare=write_certificates)
    with connect(server) as before:
        assert common_name(before.getpeercert(True)) == "server.test"
        write_certificate(server.folder, "server", "renewed.test")
        with connect(server) as same:
            assert common_name(same.getpeercert(True)) == "server.test"
        server.reload(corefile.replace("whoami", "hosts {\n 192.0.2.9 a.test\n }"))

        def name() -> str:
            with connect(server) as fresh:
                return common_name(fresh.getpeercert(True))

        until(lambda: name() == "renewed.test")
        before.sendall(framed(dns.message.make_query("a.test.", "A")))
        assert read(before).answer  # the new configuration answers on the connection of old


def test_what_cannot_be_served_is_said(serve: Callable[..., Server]) -> None:
    server = serve("tls://.:{port} {\n tls server.pem ca.key\n whoami\n}", prepare=write_certificates, wait=False)
    assert server.exit_status() == 1
    assert "plugin/tls: could not load TLS cert: tls: private key does not match public key" in server.log()
