"""Hostile and broken TCP clients (spec: robustness, sections 2, 5 and 6)."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.edns
import dns.message
import pytest

from tests.engine.test_tcp import framed, read_reply
from tests.server import Server
from tests.waiting import LIMIT, until

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


#: A plugin file that sets timeouts.
CONFIGURED = """
def setup(controller):
    controller.next()
    controller.config.read_timeout, controller.config.write_timeout, controller.config.idle_timeout = {read}, {write}, {idle}
"""
#: Seconds; so long that whoever has to wait for a timeout is told from whoever is merely slow.
PATIENCE = 600
SOON = LIMIT


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve(COREFILE)


@pytest.fixture
def patient(serve: Callable[..., Server], tmp_path: Path) -> Server:
    """A server on which no broken client ends by itself while a test looks at the others."""
    (tmp_path / "timeouts.py").write_text(CONFIGURED.format(read=PATIENCE, write=PATIENCE, idle=PATIENCE))
    return serve(COREFILE.replace("whoami", "plugin {dir}/../timeouts.py\n    whoami"), "-workers", "2")


def connect(server: Server, number: int) -> list[socket.socket]:
    sockets = []
    for _ in range(number):
        sock = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        sockets.append(sock)
    return sockets


@contextmanager
def limit_of_descriptors(count: int) -> Iterator[None]:
    """Of this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def served(server: Server) -> None:
    """Others are served, over UDP and over a fresh connection."""
    for tcp in (False, True):
        assert server.answers("www.example.org.", tcp=tcp, timeout=SOON) == ["192.0.2.1"]


def limit_descriptors(server: Server, more: int) -> None:
    limit = server.descriptors() + more
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))


def test_CVE_2017_15133_one_octet_and_silence_on_a_thousand_connections(server: Server, patient: Server) -> None:
    """They hold up nobody, cost little and end with the read timeout of three seconds, not with the ten of a connection that was used."""
    before = patient.memory()
    sockets = connect(patient, 500)
    for sock in sockets:
        sock.send(b"\0")
    more = connect(patient, 500)
    for sock in more:
        sock.send(b"\0\x20ab")
    served(patient)
    assert patient.memory() - before < 1000 * 30_000
    close([*sockets, *more])
    start = time.monotonic()
    sockets = connect(server, 1000)
    for i, sock in enumerate(sockets):
        sock.send(b"\0\x20ab" if i % 2 else b"\0")
    made = time.monotonic()
    assert all(sock.recv(1) == b"" for sock in sockets)
    assert time.monotonic() - start > 2.5
    assert time.monotonic() - made < 9
    close(sockets)
    served(server)


def test_slowloris_dripping_does_not_keep_a_connection(server: Server) -> None:
    """Octet by octet no message comes about in time: only whole messages count as life."""
    start = time.monotonic()
    sockets = connect(server, 100)
    stream = framed("www.example.org.", 1)
    gone = False
    for i in range(len(stream) - 1):
        for sock in sockets:
            try:
                sock.send(stream[i : i + 1])
            except OSError:
                gone = True
        served(server)
        if gone:
            break
        time.sleep(0.25)
    assert gone
    assert time.monotonic() - start > 2.5
    close(sockets)


def test_an_idle_connection_ends_after_the_idle_timeout(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "timeouts.py").write_text(CONFIGURED.format(read=0.5, write=5, idle=4))
    server = serve(COREFILE.replace("whoami", "plugin {dir}/../timeouts.py\n    whoami"))
    (sock,) = connect(server, 1)
    sock.sendall(framed("www.example.org.", 1))
    assert read_reply(sock)
    time.sleep(1)  # beyond the read timeout, within the idle timeout
    start = time.monotonic()
    sock.sendall(framed("www.example.org.", 2))
    assert read_reply(sock)
    assert sock.recv(1) == b""
    assert time.monotonic() - start > 3.5
    sock.close()


def test_R12_without_descriptors_udp_goes_on_and_nothing_spins(patient: Server) -> None:
    """EMFILE: accepting rests, UDP is served, and connections are served again as soon as there are descriptors."""
    limit_descriptors(patient, 20)
    sockets = connect(patient, 60)
    time.sleep(0.3)
    used = patient.cpu()
    start = time.monotonic()
    for _ in range(20):
        assert patient.answers("www.example.org.") == ["192.0.2.1"]
        time.sleep(0.05)
    assert patient.cpu() - used < 0.15 * (time.monotonic() - start)
    close(sockets)
    assert patient.answers("www.example.org.", tcp=True) == ["192.0.2.1"]


def test_no_more_than_so_many_connections_and_a_new_client_gets_in(patient: Server) -> None:
    """Where descriptors are out because of idle clients, the one that has been idle longest makes room."""
    limit_descriptors(patient, 40)
    sockets = connect(patient, 200)
    for sock in sockets:
        sock.send(b"\0")
    for _ in range(3):
        assert patient.answers("www.example.org.", tcp=True, timeout=SOON) == ["192.0.2.1"]
    close(sockets)


def test_a_worker_without_connections_gets_the_room_of_another(patient: Server) -> None:
    """One descriptor, and the kernel gives clients to either worker: it goes over to the one that has a new client, each time.

    A worker to which all clients came too late would else serve none for as long as those of the other stay.
    """
    limit_descriptors(patient, 1)
    sockets = []
    for _ in range(20):
        sockets += connect(patient, 1)
        sockets[-1].send(b"\0")
        assert patient.answers("www.example.org.", tcp=True, timeout=SOON) == ["192.0.2.1"]
    close(sockets)
    served(patient)


def test_clients_that_do_not_read_make_room_too(patient: Server) -> None:
    """Forty connections that ask for megabytes and read an octet now and then hold no place that a new client needs."""
    limit_descriptors(patient, 40)
    sockets = []
    for _ in range(40):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", patient.port))
        sock.setblocking(False)
        sockets.append(sock)
    asked = framed("x" * 60 + "." + "y" * 60 + ".example.org.", 1) * 500
    for _ in range(200):
        for sock in sockets:
            try:
                sock.send(asked)
            except OSError:
                pass
    for _ in range(3):
        assert patient.answers("www.example.org.", tcp=True, timeout=SOON) == ["192.0.2.1"]
    close(sockets)


def test_lengths_that_lie(patient: Server) -> None:
    """A length of 65,535 with little behind it holds no memory of that size for long; one of 0 is passed over."""
    before = patient.memory()
    sockets = connect(patient, 300)
    for sock in sockets:
        sock.send(b"\xff\xff" + bytes(3000))
    served(patient)
    assert patient.memory() - before < 300 * 90_000
    close(sockets)
    (sock,) = connect(patient, 1)
    sock.sendall(b"\0\0" * 20 + b"\0\1x" + framed("www.example.org.", 9))
    reply = read_reply(sock)
    assert reply is not None
    assert reply.id == 9
    sock.close()


def greedy(server: Server, count: int, sent: int) -> list[socket.socket]:
    """Connections of one client that announce 65,535 octets and send so many."""
    sockets = []
    for _ in range(count):
        sock = socket.socket()
        sock.bind(("127.0.0.2", 0))
        sock.connect(("127.0.0.1", server.port))
        sock.setblocking(False)
        try:
            sock.send(b"\xff\xff" + bytes(sent))
        except ConnectionError:
            pass  # ended already
        sockets.append(sock)
    return sockets


def ended(sockets: list[socket.socket]) -> int:
    count = 0
    for sock in sockets:
        try:
            count += sock.recv(1) == b""
        except BlockingIOError:
            pass
        except ConnectionError:
            count += 1
    return count


def test_lengths_that_are_announced_take_no_memory(patient: Server) -> None:
    """Of 2,750 connections, which would be 180 MB, none has to end."""
    with limit_of_descriptors(4000):
        sockets = greedy(patient, 2750, 4200)
        try:
            for _ in range(8):
                served(patient)
            assert ended(sockets) == 0
        finally:
            close(sockets)


def test_unfinished_messages_fill_no_memory_of_others(serve: Callable[..., Server], tmp_path: Path) -> None:
    """100 MB from one client, half finished: they end, and another one's large message is taken."""
    (tmp_path / "timeouts.py").write_text(CONFIGURED.format(read=PATIENCE, write=PATIENCE, idle=PATIENCE))
    server = serve(COREFILE.replace("whoami", "plugin {dir}/../timeouts.py\n    whoami"), "-workers", "1")
    query = dns.message.make_query("www.example.org", "A", use_edns=0, options=[dns.edns.GenericOption(65001, bytes(60000))])
    message = query.to_wire(max_size=65535)
    octets = struct.pack("!H", len(message)) + message
    with limit_of_descriptors(4000):
        other = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        other.sendall(octets[:1000])
        sockets = greedy(server, 3000, 33000)
        try:
            until(lambda: ended(sockets) > 500)
            for _ in range(8):
                served(server)
            other.sendall(octets[1000:])
            reply = read_reply(other)
            assert reply is not None
            assert reply.answer
            assert ended(sockets) < 2500, "no more than it takes"
        finally:
            other.close()
            close(sockets)


def test_a_hundred_thousand_short_connections_leave_nothing(server: Server) -> None:
    """A default of 3,000: connect, ask, vanish in three ways."""
    served(server)
    files = server.descriptors()
    for i in range(3000):
        with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
            if i % 3:
                sock.sendall(framed("www.example.org.", i & 0xFFFF)[: 40 if i % 2 else 20])
            if i % 5 == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: server.descriptors() <= files, "the end of all connections")
    served(server)
