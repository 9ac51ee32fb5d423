"""Hostile and broken TCP clients (spec: robustness, sections 2, 5 and 6)."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import Server
from tests.test_tcp import framed, read_reply

COREFILE = """
.:{port} {
    bind 127.0.0.1
    hosts {
        192.0.2.1 www.example.org
        fallthrough
    }
    whoami
}
"""


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve(COREFILE)


def connect(server: Server, number: int) -> list[socket.socket]:
    sockets = []
    for _ in range(number):
        sock = socket.create_connection(("127.0.0.1", server.port), 10)
        sock.settimeout(10)
        sockets.append(sock)
    return sockets


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def ticks(server: Server) -> int:
    """Hundredths of a second of CPU that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def rss(server: Server) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def quick(server: Server, limit: float = 1.0) -> None:
    """Others are served, over UDP and over a fresh connection."""
    for tcp in (False, True):
        start = time.monotonic()
        assert server.answers("www.example.org.", tcp=tcp) == ["192.0.2.1"]
        assert time.monotonic() - start < limit


def test_CVE_2017_15133_one_octet_and_silence_on_a_thousand_connections(server: Server) -> None:
    """They hold up nobody, cost little and end with the read timeout of three seconds."""
    before = rss(server)
    sockets = connect(server, 500)
    for sock in sockets:
        sock.send(b"\0")
    more = connect(server, 500)
    for sock in more:
        sock.send(b"\0\x20ab")
    quick(server)
    assert rss(server) - before < 1000 * 30_000
    start = time.monotonic()
    assert all(sock.recv(1) == b"" for sock in [*sockets, *more])
    assert time.monotonic() - start < 5
    close([*sockets, *more])
    quick(server)


def test_slowloris_dripping_does_not_keep_a_connection(server: Server) -> None:
    """Octet by octet no message comes about in time: only whole messages count as life."""
    sockets = connect(server, 100)
    start = time.monotonic()
    stream = framed("www.example.org.", 1)
    gone = False
    for i in range(20):
        for sock in sockets:
            try:
                sock.send(stream[i : i + 1])
            except OSError:
                gone = True
        quick(server)
        if gone:
            break
        time.sleep(0.3)
    assert gone
    assert 2.5 < time.monotonic() - start < 6
    close(sockets)


def test_an_idle_connection_ends_after_the_idle_timeout(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    (sock,) = connect(server, 1)
    sock.settimeout(15)
    sock.sendall(framed("www.example.org.", 1))
    assert read_reply(sock)
    time.sleep(4)  # beyond the read timeout, within the idle timeout
    sock.sendall(framed("www.example.org.", 2))
    assert read_reply(sock)
    start = time.monotonic()
    assert sock.recv(1) == b""
    assert 9 < time.monotonic() - start < 12
    sock.close()


def test_R12_without_descriptors_udp_goes_on_and_nothing_spins(serve: Callable[..., Server]) -> None:
    """EMFILE: accepting rests, UDP is served, and connections are served again as soon as there are descriptors."""
    server = serve(COREFILE)
    limit = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) + 20
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    sockets = connect(server, 60)
    time.sleep(0.3)
    used = ticks(server)
    start = time.monotonic()
    for _ in range(20):
        assert server.answers("www.example.org.") == ["192.0.2.1"]
        time.sleep(0.05)
    assert (ticks(server) - used) / 100 < 0.15 * (time.monotonic() - start)
    close(sockets)
    start = time.monotonic()
    assert server.answers("www.example.org.", tcp=True) == ["192.0.2.1"]
    assert time.monotonic() - start < 1


def test_no_more_than_so_many_connections_and_a_new_client_gets_in(serve: Callable[..., Server]) -> None:
    """Where descriptors are out because of idle clients, the one that has been idle longest makes room."""
    server = serve(COREFILE)
    limit = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) + 40
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    sockets = connect(server, 200)
    for sock in sockets:
        sock.send(b"\0")
    for _ in range(3):
        start = time.monotonic()
        assert server.answers("www.example.org.", tcp=True, timeout=5) == ["192.0.2.1"]
        assert time.monotonic() - start < 1.5
    close(sockets)


def test_clients_that_do_not_read_make_room_too(serve: Callable[..., Server]) -> None:
    """Forty connections that ask for megabytes and read an octet now and then hold no place that a new client needs."""
    server = serve(COREFILE)
    limit = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) + 40
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    sockets = []
    for _ in range(40):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", server.port))
        sock.setblocking(False)
        sockets.append(sock)
    asked = framed("x" * 60 + "." + "y" * 60 + ".example.org.", 1) * 500
    for _ in range(200):
        for sock in sockets:
            try:
                sock.send(asked)
            except OSError:
                pass
    start = time.monotonic()
    for _ in range(3):
        assert server.answers("www.example.org.", tcp=True, timeout=5) == ["192.0.2.1"]
    assert time.monotonic() - start < 2
    close(sockets)


def test_lengths_that_lie(server: Server) -> None:
    """A length of 65,535 with little behind it holds no memory of that size for long; one of 0 is passed over."""
    before = rss(server)
    sockets = connect(server, 300)
    for sock in sockets:
        sock.send(b"\xff\xff" + bytes(3000))
    quick(server)
    assert rss(server) - before < 300 * 90_000
    close(sockets)
    (sock,) = connect(server, 1)
    sock.sendall(b"\0\0" * 20 + b"\0\1x" + framed("www.example.org.", 9))
    reply = read_reply(sock)
    assert reply is not None
    assert reply.id == 9
    sock.close()


def test_a_hundred_thousand_short_connections_leave_nothing(server: Server) -> None:
    """A default of 3,000: connect, ask, vanish in three ways."""
    quick(server)
    files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    for i in range(3000):
        with socket.create_connection(("127.0.0.1", server.port), 10) as sock:
            if i % 3:
                sock.sendall(framed("www.example.org.", i & 0xFFFF)[: 40 if i % 2 else 20])
            if i % 5 == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end = time.monotonic() + 5
    while len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) > files and time.monotonic() < end:
        time.sleep(0.05)
    assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) <= files
    quick(server)
