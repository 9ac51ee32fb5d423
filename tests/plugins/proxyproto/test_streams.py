"""PROXY headers over TCP, through sockets: whose address a query has, what each rule does, and headers that are late, broken or alone."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

import dns.message
import dns.rcode
import pytest

from tests.proxying import LOCAL, PROXY, SIGNATURE, TCP4, UNIX, UNSPEC, binary, block, text, tlv, whose
from tests.server import Server
from tests.waiting import LIMIT

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1 ::1
    proxyproto%s
    log . "{remote} {local} {proto} {name}"
    acl {
        block net 192.0.2.66/32
    }
    whoami
}
"""


def framed(name: str, number: int = 1) -> bytes:
    query = dns.message.make_query(name, "A")
    query.id = number
    wire = query.to_wire()
    return len(wire).to_bytes(2, "big") + wire


def connect(server: Server, host: str = "127.0.0.1", source: str = "") -> socket.socket:
    connection = socket.create_connection((host, server.port), source_address=(source, 0) if source else None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(LIMIT)
    return connection


def received(connection: socket.socket) -> bytes:
    """All until the server closes; b"" also where it resets."""
    octets = b""
    try:
        while part := connection.recv(65536):
            octets += part
    except ConnectionResetError:
        pass
    return octets


def replies(octets: bytes) -> list[dns.message.Message]:
    found = []
    while octets:
        size = int.from_bytes(octets[:2], "big")
        found.append(dns.message.from_wire(octets[2 : 2 + size]))
        octets = octets[2 + size :]
    return found


def exchanged(server: Server, octets: bytes, **options: str) -> list[tuple[str, int]]:
    """What clients the replies to these octets have; the client sends no more after them."""
    with connect(server, **options) as connection:
        connection.sendall(octets)
        with suppress(OSError):  # closed already
            connection.shutdown(socket.SHUT_WR)
        return [whose(reply) for reply in replies(received(connection))]


HEADERS = [
    (text("192.0.2.7"), ("192.0.2.7", 4321)),
    (text("2001:db8::7", port=1), ("2001:db8::7", 1)),
    (binary("192.0.2.7"), ("192.0.2.7", 4321)),
    (binary("2001:db8::7", tlvs=tlv(3, bytes(4)) + tlv(4, bytes(300))), ("2001:db8::7", 4321)),
    (binary("192.0.2.7", udp=True), ("192.0.2.7", 4321)),
]

#: Headers without an address: the sender's own counts.
UNADDRESSED = [b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN 1 2 3\r\n", block(LOCAL, UNSPEC, b""), block(LOCAL, TCP4, bytes(12)), block(PROXY, UNIX, bytes(216))]

MALFORMED = [
    b"PROXY\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
    b"PROXY TCP4 192.0.2.7 127.0.0.1 99999 53\r\n",
    b"PROXY UNKNOWN\n",
    b"PROXY " + b"x" * 200,
    SIGNATURE + b"\x31\x11\0\x0c" + bytes(12),
    block(PROXY, UNSPEC, b""),
    block(PROXY, 0x13, bytes(12)),
    block(PROXY, TCP4, bytes(11)),
    block(PROXY, TCP4, bytes(12), size=5000),
]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(COREFILE % "")


def test_the_client_is_the_headers(server: Server) -> None:
    """IPv4 and IPv6, in any mixture with what the connection itself uses; all queries of the connection have it."""
    for host in ("127.0.0.1", "::1"):
        for header, client in HEADERS:
            assert exchanged(server, header + framed("a.") + framed("b."), host=host) == [client, client]
    for header in UNADDRESSED:
        found = exchanged(server, header + framed("c."))
        assert [address for address, _ in found] == ["127.0.0.1"]


def test_log_and_acl_see_it(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(binary("192.0.2.66", "203.0.113.5") + framed("blocked."))
        connection.shutdown(socket.SHUT_WR)
        (reply,) = replies(received(connection))
    assert reply.rcode() == dns.rcode.REFUSED
    server.wait_log(r"192\.0\.2\.66 203\.0\.113\.5 tcp blocked\.")


def test_without_a_header(server: Server) -> None:
    """It is optional. Octets that look like a header for a while are none."""
    assert [address for address, _ in exchanged(server, framed("a.") + framed("b."))] == ["127.0.0.1"] * 2
    with connect(server) as connection:
        connection.sendall(b"P")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection) == b""
    with connect(server) as connection:  # a message of 20,562 octets that begins with 0xff
        connection.sendall(b"PR" + b"\xff" * 14)
        connection.sendall(b"\xff" * (0x5052 - 14) + framed("after."))
        connection.shutdown(socket.SHUT_WR)
        assert len(replies(received(connection))) <= 2


@pytest.mark.parametrize("octets", MALFORMED)
def test_malformed(server: Server, octets: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(octets + framed("a."))
        assert received(connection) == b""


@pytest.mark.parametrize(
    ("options", "with_header", "without"),
    [
        ("{\n default use\n}", ["192.0.2.7"], ["127.0.0.1"]),
        ("{\n default ignore\n}", ["127.0.0.1"], ["127.0.0.1"]),
        ("{\n default reject\n}", [], ["127.0.0.1"]),
        ("{\n allow 127.0.0.0/8\n default reject\n}", ["192.0.2.7"], ["127.0.0.1"]),
        ("{\n allow 192.0.2.0/24\n}", ["127.0.0.1"], ["127.0.0.1"]),
        ("{\n allow 192.0.2.0/24\n default reject\n}", [], ["127.0.0.1"]),
    ],
)
def test_rules(serve: Serve, options: str, with_header: list[str], without: list[str]) -> None:
    server = serve(COREFILE % f" {options}")
    for header, _ in HEADERS[::2]:
        assert [address for address, _ in exchanged(server, header + framed("a."))] == with_header
    assert [address for address, _ in exchanged(server, framed("a."))] == without
    if "reject" not in options:
        for header in MALFORMED[:1]:
            assert exchanged(server, header + framed("a.")) == []


def test_skip(serve: Serve) -> None:
    """Headers are not looked for: their octets are those of a message."""
    server = serve(COREFILE % " {\n default skip\n}")
    with connect(server) as connection:
        connection.sendall(binary("192.0.2.7") + framed("a."))
        connection.shutdown(socket.SHUT_WR)
        assert received(connection) == b""
    assert [address for address, _ in exchanged(server, framed("a."))] == ["127.0.0.1"]


def test_who_is_allowed(serve: Serve) -> None:
    server = serve(COREFILE % " {\n allow 127.0.0.2/32 127.0.0.3/32\n}")
    for source, address in [("127.0.0.2", "192.0.2.7"), ("127.0.0.3", "192.0.2.7"), ("127.0.0.4", "127.0.0.4")]:
        assert [found for found, _ in exchanged(server, binary("192.0.2.7") + framed("a."), source=source)] == [address]


@pytest.mark.parametrize("header", [text("192.0.2.7"), binary("192.0.2.7"), binary("192.0.2.7", tlvs=bytes(4000))])
def test_a_header_in_pieces(server: Server, header: bytes) -> None:
    """Each octet of its first and last ones in a segment, and a query that begins in the segment where the header ends."""
    octets = header + framed("a.")
    cuts = sorted({*range(1, 40), *range(len(header) - 10, len(octets))})
    with connect(server) as connection:
        for start, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
            connection.sendall(octets[start:end])
            time.sleep(0.001)
        connection.shutdown(socket.SHUT_WR)
        assert [whose(reply) for reply in replies(received(connection))] == [("192.0.2.7", 4321)]


@pytest.mark.parametrize("octets", [b"", text("192.0.2.7"), binary("192.0.2.7"), text("192.0.2.7")[:20], SIGNATURE, SIGNATURE[:3], b"PRO"])
def test_silence_ends_with_the_read_timeout(serve: Serve, octets: bytes) -> None:
    """It counts from the connection's beginning, whether the header has come or not."""
    server = serve("timeouts {\n        read 1s\n    }\n    whoami".join((COREFILE % "").rsplit("whoami", 1)))
    with connect(server) as connection:
        begun = time.monotonic()
        connection.sendall(octets)
        assert received(connection) == b""
        assert time.monotonic() - begun >= 0.9


def test_a_header_alone(server: Server) -> None:
    for header, _ in HEADERS:
        assert exchanged(server, header) == []
    assert exchanged(server, HEADERS[0][0] + framed("a.")) == [HEADERS[0][1]]


def test_pipelined_queries(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(binary("192.0.2.7") + b"".join(framed("a.", number) for number in range(500)))
        connection.shutdown(socket.SHUT_WR)
        found = replies(received(connection))
    assert sorted(reply.id for reply in found) == list(range(500))
    assert {whose(reply) for reply in found} == {("192.0.2.7", 4321)}


def test_only_the_first_octets_are_a_header(server: Server) -> None:
    """A second one is what follows the first: the length of a message that never comes whole."""
    assert exchanged(server, text("192.0.2.7") + text("192.0.2.8") + framed("a.")) == []


def test_a_reload_counts_from_the_next_connection_on(server: Server) -> None:
    header = binary("192.0.2.7")
    with connect(server) as connection:
        connection.sendall(header + framed("a.")[:5])
        server.reload(COREFILE % " {\n default ignore\n}")
        connection.sendall(framed("a.")[5:])
        connection.shutdown(socket.SHUT_WR)
        assert [whose(reply) for reply in replies(received(connection))] == [("192.0.2.7", 4321)]
    assert [address for address, _ in exchanged(server, header + framed("a."))] == ["127.0.0.1"]
    server.reload((COREFILE % "").replace("    proxyproto\n", ""))
    assert exchanged(server, header + framed("a.")) == []
    assert [address for address, _ in exchanged(server, framed("a."))] == ["127.0.0.1"]


def test_who_waits_for_a_header_ends_with_the_address(serve: Serve) -> None:
    server = serve(COREFILE % "")
    old = server.port
    with connect(server) as connection:
        connection.sendall(SIGNATURE)
        server.reload((COREFILE % "").replace("{port}", "{port2}"))
        assert received(connection) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old)).close()
