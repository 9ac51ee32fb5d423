"""Records that carry nothing, and keys that change without end: a connection of them ends, and others are served meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import dns.message
import dns.rcode
import pytest

from tests.certificates import write_certificates
from tests.server import Server
from tests.tls.client import ask, framed
from tests.tls.raw import APPLICATION_DATA, RawClient

#: An alert (RFC 8446 6.2).
UNEXPECTED_MESSAGE = 10

COREFILE = "tls://.:{port} {\n tls server.pem server.key\n timeouts {\n read 1h\n idle 1h\n }\n whoami\n}"


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve(COREFILE, "-workers", "1", prepare=write_certificates)


def query(number: int) -> bytes:
    return framed(dns.message.make_query("a.test.", "A", id=number))


def number_of(reply: bytes) -> int:
    return int.from_bytes(reply[:2], "big")


@pytest.mark.parametrize("kind", ["key update", "empty", "padded"])
def test_sixteen_records_without_octets_are_served(server: Server, kind: str) -> None:
    with RawClient(server) as client:
        client.socket.sendall(client.record(APPLICATION_DATA, query(1)))
        assert number_of(client.reply()) == 1
        for number in range(2, 4):
            octets = b"".join(nothing(client, kind) for _ in range(16))
            client.socket.sendall(octets + client.record(APPLICATION_DATA, query(number)))
            assert number_of(client.reply()) == number


@pytest.mark.parametrize("kind", ["key update", "empty"])
def test_more_in_a_row_end_the_connection(server: Server, kind: str) -> None:
    with RawClient(server) as client:
        client.socket.sendall(b"".join(nothing(client, kind) for _ in range(18)))
        assert client.reply() == b""
        assert client.alert == UNEXPECTED_MESSAGE


@pytest.mark.parametrize("kind", ["key update", "empty", "padded"])
def test_one_after_another(server: Server, kind: str) -> None:
    with RawClient(server) as client:
        try:
            for _ in range(40):
                client.socket.sendall(nothing(client, kind))
        except ConnectionError:
            pass
        assert client.is_ended()
    assert ask(server).rcode() == dns.rcode.NOERROR


def test_key_updates_between_single_octets(server: Server) -> None:
    """As many as of 32, however little comes between them."""
    with RawClient(server) as client:
        octets = b"".join(client.key_update() + client.record(APPLICATION_DATA, bytes([byte])) for byte in query(1) + query(2))
        try:
            client.socket.sendall(octets)
        except ConnectionError:
            pass
        assert client.is_ended()


def nothing(client: RawClient, kind: str) -> bytes:
    if kind == "key update":
        return client.key_update()
    return client.record(APPLICATION_DATA, b"", 0 if kind == "empty" else 1000)


def test_messages_in_pieces(server: Server) -> None:
    """An octet a record, and records in single octets on the wire."""
    with RawClient(server) as client:
        for octet in client.record(APPLICATION_DATA, query(1)):
            client.socket.sendall(bytes([octet]))
        client.socket.sendall(b"".join(client.record(APPLICATION_DATA, bytes([octet])) for octet in query(2)))
        assert {number_of(client.reply()), number_of(client.reply())} == {1, 2}


def test_a_flood_costs_what_sixteen_records_cost(server: Server) -> None:
    """Connection after connection of megabytes of KeyUpdates: a handful of each is ever decrypted."""
    before = server.cpu()
    for _ in range(20):
        with RawClient(server) as client:
            octets = b"".join(client.key_update() for _ in range(3000))
            try:
                client.socket.sendall(octets)
            except ConnectionError:
                pass
            assert client.is_ended()
    assert server.cpu() - before < 0.5
    assert ask(server).rcode() == dns.rcode.NOERROR
