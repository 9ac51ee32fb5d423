"""DNS over TCP through sockets: pipelining, limits of time and number, broken clients (RFC 7766; spec/server.md 8.2, and where we differ)."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator

import dns.message
import dns.rcode
import pytest

from tests.server import Server
from tests.waiting import LIMIT

COREFILE = """
.:{port} {
    bind 127.0.0.1
    hosts /dev/null {
        192.0.2.1 www.example.org
        fallthrough
    }
    plugin {dir}/../slow.py
    whoami
}
"""

SLOW = """
import asyncio
from fastdns.plugin import Plugin

class Slow(Plugin):
    zones = ["slow.example."]

    async def serve(self, query, next):
        await asyncio.sleep(int(query.name.split(".")[0]) / 1000)
        return query.reply("A 192.0.2.2")

def setup(controller):
    return Slow()
"""


def framed(name: str, number: int, rdtype: str = "A") -> bytes:
    query = dns.message.make_query(name, rdtype)
    query.id = number
    wire = query.to_wire()
    return struct.pack("!H", len(wire)) + wire


def read_reply(connection: socket.socket) -> dns.message.Message | None:
    """The next message; None at the end of the stream."""
    head = b""
    while len(head) < 2:
        part = connection.recv(2 - len(head))
        if not part:
            return None
        head += part
    (size,) = struct.unpack("!H", head)
    body = b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            return None
        body += part
    return dns.message.from_wire(body)


@pytest.fixture
def server(serve: Callable[..., Server], tmp_path: Iterator[object]) -> Server:
    (tmp_path / "slow.py").write_text(SLOW)  # type: ignore[operator]
    return serve(COREFILE)


def connect(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(LIMIT)
    return connection


def test_pipelined_queries_are_all_answered(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(b"".join(framed("www.example.org.", i) for i in range(500)))
        replies = [read_reply(connection) for _ in range(500)]
        assert sorted(reply.id for reply in replies if reply) == list(range(500))


def test_a_slow_query_does_not_hold_up_others(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(framed("800.slow.example.", 1) + framed("www.example.org.", 2))
        first, second = read_reply(connection), read_reply(connection)
        assert first is not None
        assert second is not None
        assert (first.id, second.id) == (2, 1)


def test_at_most_64_are_under_way(server: Server) -> None:
    """With 64 queries unanswered the 65th, though quick, waits for one of them."""
    with connect(server) as connection:
        connection.sendall(b"".join(framed("300.slow.example.", i) for i in range(64)) + framed("www.example.org.", 999))
        first = read_reply(connection)
        assert first is not None
        assert first.id != 999
        rest = {reply.id for _ in range(64) if (reply := read_reply(connection))}
        assert rest | {first.id} == {*range(64), 999}


def test_one_octet_at_a_time(server: Server) -> None:
    with connect(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in framed("www.example.org.", 7):
            connection.send(bytes([octet]))
            time.sleep(0.002)
        reply = read_reply(connection)
        assert reply is not None
        assert reply.id == 7


def test_the_client_may_close_its_side(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(framed("200.slow.example.", 1) + framed("www.example.org.", 2))
        connection.shutdown(socket.SHUT_WR)
        assert {reply.id for _ in range(2) if (reply := read_reply(connection))} == {1, 2}
        assert read_reply(connection) is None


def test_silence_is_ended_first_after_3_and_later_after_10_seconds(server: Server) -> None:
    start = time.monotonic()
    with connect(server) as silent, connect(server) as dripping, connect(server) as used:
        used.sendall(framed("www.example.org.", 1))
        assert read_reply(used) is not None
        dripping.send(b"\0")
        assert silent.recv(1) == b""
        assert dripping.recv(1) == b""
        assert 2.5 < time.monotonic() - start < 9
        assert used.recv(1) == b""
        assert time.monotonic() - start > 9.5


def test_messages_that_are_none(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(b"\0\5hello" + b"\0\0" + framed("www.example.org.", 3))
        reply = read_reply(connection)
        assert reply is not None
        assert reply.id == 3
        broken = framed("www.example.org.", 4)
        connection.sendall(struct.pack("!H", len(broken) - 5) + broken[2:-3])
        reply = read_reply(connection)
        assert reply is not None
        assert (reply.id, reply.rcode()) == (4, dns.rcode.FORMERR)


def test_clients_that_vanish(server: Server) -> None:
    for i in range(200):
        connection = connect(server)
        connection.sendall(framed(f"{i}.slow.example.", i) * 3)
        if i % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    time.sleep(0.5)  # within which some were answered, to nobody
    assert server.answers("www.example.org.", tcp=True) == ["192.0.2.1"]


def test_a_client_that_does_not_read(server: Server) -> None:
    """It is not read from either once its replies pile up, and others are served."""
    with connect(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1)
        sent = 0
        try:
            while sent < 40_000_000:
                sent += connection.send(framed("www.example.org.", 1) * 100)
        except (TimeoutError, ConnectionResetError):  # reset: the time to write is up on a slow machine
            pass
        assert sent < 40_000_000
        assert server.answers("www.example.org.") == ["192.0.2.1"]
        assert server.answers("www.example.org.", tcp=True) == ["192.0.2.1"]
