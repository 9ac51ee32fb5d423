"""Queries that a worker gathers for a while."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.latency import parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]
COREFILE = """
.:{port} {
    bind 127.0.0.1
    BUDGET
    hosts {
        192.0.2.1 a.test
    }
}
"""
QUERIES = 4000


def text(budget: str) -> str:
    return COREFILE.replace("BUDGET", budget)


def ask(server: Server, queries: int, pause: float) -> int:
    """How many of so many queries, with pauses between them, get their answer. All come from one socket, so one worker has them."""
    query = dns.message.make_query("a.test.", "A")
    wire = bytearray(query.to_wire())
    seen: set[int] = set()

    def read(client: socket.socket) -> None:
        while True:
            try:
                reply = client.recv(512)
            except (BlockingIOError, TimeoutError):
                return
            assert reply[3] & 15 == 0
            assert reply.endswith(bytes((192, 0, 2, 1)))
            seen.add(int.from_bytes(reply[:2], "big"))
            if len(seen) == queries:
                return

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        client.setblocking(False)
        client.connect(("127.0.0.1", server.port))
        at = time.perf_counter()
        for number in range(queries):
            wire[:2] = number.to_bytes(2, "big")
            client.send(wire)
            read(client)
            at += pause
            while time.perf_counter() < at:
                pass
        client.settimeout(2)
        if len(seen) < queries:
            read(client)
    return len(seen)


@pytest.mark.parametrize("pause", [0.005, 0.0001, 0])
def test_all_are_answered(serve: Serve, pause: float) -> None:
    """At rates below that where gathering pays, where it does, and where a worker has enough to do."""
    server = serve(text("latency 300us"), "-workers", "1")
    queries = 200 if pause > 0.001 else QUERIES
    assert ask(server, queries, pause) >= queries * 0.99  # a full buffer may lose some


def test_a_worker_wakes_up_less_often(serve: Serve) -> None:
    """Once for many queries, and no more when none come."""
    server = serve(text("latency 5ms"), "-workers", "1")
    before = server.waits()
    assert ask(server, QUERIES, 0.0002) >= QUERIES * 0.99
    assert server.waits() - before < QUERIES / 5

    def idle() -> bool:
        begun = server.waits()
        time.sleep(0.5)
        return server.waits() - begun < 40  # 100 if it read every 5 ms

    until(idle, "a worker that sleeps")


def test_reload(serve: Serve) -> None:
    server = serve(text("latency 300us"), "-workers", "1")
    for budget in ("", "latency 1ms", ""):
        assert ask(server, QUERIES, 0.0001) >= QUERIES * 0.99
        server.reload(text(budget))
    assert ask(server, QUERIES, 0.0001) >= QUERIES * 0.99


def test_the_last_block_of_an_address_counts(serve: Serve) -> None:
    """Its budget is that of the address."""
    server = serve(text("") + "b.test:{port} {\n bind 127.0.0.1\n latency 5ms\n whoami\n}\n", "-workers", "1")
    before = server.waits()
    assert ask(server, QUERIES, 0.0002) >= QUERIES * 0.99
    assert server.waits() - before < QUERIES / 5


@pytest.mark.parametrize(("budget", "wanted"), [("10us", 10_000), ("300us", 300_000), ("1.5ms", 1_500_000), ("10ms", 10_000_000)])
def test_read(budget: str, wanted: int) -> None:
    assert parse(Controller.of(f"latency {budget}")) == wanted


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("latency", "Wrong argument count"),
        ("latency 1ms 2ms", "Wrong argument count"),
        ("latency 1ms\nlatency 1ms", "Wrong argument count"),
        ("latency 300", "invalid latency budget"),
        ("latency soon", "invalid latency budget"),
        ("latency 9us", r"latency budget must be in range \[10us, 10ms\]: 9us"),
        ("latency 1s", r"latency budget must be in range \[10us, 10ms\]: 1s"),
    ],
)
def test_errors(line: str, said: str) -> None:
    with pytest.raises(CorefileError, match=said):
        parse(Controller.of(line))
