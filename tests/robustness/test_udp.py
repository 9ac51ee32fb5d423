"""Hostile and odd datagrams (spec: robustness, sections 2 and 5)."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns._wire import accept, name_wire
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

COREFILE = """
.:{port} {
    HOST
    hosts {
        192.0.2.1 www.example.org
        192.0.2.2 www.example.org
        fallthrough
    }
    whoami
}
"""
QUESTION = name_wire("www.example.org.") + b"\0\1\0\1"


def header(flags: int = 0x0100, *counts: int, number: int = 0x1234) -> bytes:
    return struct.pack("!6H", number, flags, *(counts or (1, 0, 0, 0)))


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve(COREFILE.replace("HOST", "bind 127.0.0.1"))


@pytest.fixture
def ask(server: Server) -> Callable[..., bytes | None]:
    """``ask(octets)`` gives the reply, None when there is none within the timeout."""

    def send(octets: bytes, timeout: float = REPLY, tcp: bool = False) -> bytes | None:
        kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
        with socket.socket(socket.AF_INET, kind) as sock:
            sock.settimeout(timeout)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(struct.pack("!H", len(octets)) + octets if tcp else octets)
            try:
                reply = sock.recv(65535)
            except TimeoutError:
                return None
            return reply[2:] if tcp else reply

    return send


Ask = Callable[..., "bytes | None"]


# ---- what is accepted: one function for every transport ----

POLICY = [
    # (octets, wanted: None for silence, else (rcode, QDCOUNT))
    (b"", None),
    (header()[:11], None),
    (header(0x8100) + QUESTION, None),
    *((header(opcode << 11) + QUESTION, (4, 0)) for opcode in range(16) if opcode not in (0, 4)),
    (header(0x0100, 0, 0, 0, 0) + QUESTION, (1, 0)),
    (header(0x0100, 2, 0, 0, 0) + QUESTION * 2, (1, 0)),
    (header(0x0100, 1, 2, 0, 0) + QUESTION, (1, 0)),
    (header(0x0100, 1, 0, 2, 0) + QUESTION, (1, 0)),
    (header(0x0100, 1, 0, 0, 3) + QUESTION, (1, 0)),
    *((header(0x0100, *(65535 if i == at else 1 if i == 0 else 0 for i in range(4))) + QUESTION, (1, 0)) for at in range(4)),
    (header() + b"\xc0\x0c\0\1\0\1", (1, 0)),
    (header() + b"\x3fabc", (1, 0)),
    (header(0x0100, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\x10\0\0\0\0\0\0\5", (1, 1)),
    (header(0x0100, 1, 0, 0, 1) + b"\3BAD\xc0\0\0\1\0\1" + b"\xff", (1, 0)),
    (header() + QUESTION, (0, 1)),
    (header(0x0100, 1, 1, 0, 0) + QUESTION, (0, 1)),
    (header() + QUESTION + b"trailing", (0, 1)),
    (header(0x2000) + QUESTION, (0, 1)),
]


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_CVE_2026_86003_what_is_accepted_is_the_same_on_every_transport(ask: Ask, tcp: bool) -> None:
    """GHSA-9gm5: UPDATE and other opcodes, and every check of a header, over UDP as over TCP."""
    for octets, wanted in POLICY:
        reply = ask(octets, 0.1 if wanted is None else REPLY, tcp)
        if wanted is None:
            assert reply is None, octets
            continue
        assert reply is not None, octets
        assert reply[:2] == octets[:2]
        assert (reply[3] & 15, struct.unpack("!H", reply[4:6])[0]) == wanted, octets
        dns.message.from_wire(reply)
        assert accept(octets)[1] == wanted[0]


def test_CVE_2026_82399_counts_are_not_believed(server: Server, ask: Ask) -> None:
    """GHSA-mrg3: 65,535 records announced in each section, over and over, cost no memory."""

    packets = [header(0x0100, *(65535 if i == at else 1 for i in range(4))) + QUESTION + bytes(400) for at in range(4)]
    for octets in packets:
        assert ask(octets) is not None

    def flood(octets: list[bytes], number: int) -> int:
        """The server's memory after so many datagrams, sent in bursts so that batches are as large as they get."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", server.port))
            for i in range(number):
                sock.send(octets[i % len(octets)])
                if i % 40 == 39:
                    sock.recv(512)
        # What it did not get round to may have filled its socket.
        until(lambda: ask(header() + QUESTION, 1.0), "a reply")
        return server.memory()

    before = flood([header() + QUESTION + bytes(400)], 4000)
    assert flood(packets, 8000) - before < 2_000_000


def test_compression_pointers_at_each_offset(server: Server, ask: Ask) -> None:
    """All 2-octet pointers at each place of a question and of a record's owner: FORMERR or an answer, at once."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(REPLY)
        seen = 0
        for target in range(64):
            for octets in (
                header() + struct.pack("!H", 0xC000 | target) + b"\0\1\0\1",
                header() + b"\1a" + struct.pack("!H", 0xC000 | target) + b"\0\1\0\1",
                header(0x0100, 1, 0, 0, 1) + QUESTION + struct.pack("!H", 0xC000 | target) + b"\0\x29\x04\xd0\0\0\0\0\0\0",
            ):
                sock.send(octets)
                reply = sock.recv(512)
                dns.message.from_wire(reply)
                assert reply[3] & 15 in (0, 1, 2)
                seen += 1
    assert seen == 192
    # A chain of pointers, each to the one before, as long as a datagram holds.
    chain = b"".join(struct.pack("!H", 0xC000 | max(12, 12 + 2 * (i - 1))) for i in range(240))
    used = server.cpu()
    assert ask(header() + b"\0\0\1\0\1" + chain) is not None
    assert server.cpu() - used < 0.3


# ---- sizes ----


def test_a_query_over_512_octets_is_answered(ask: Ask) -> None:
    """CoreDNS cuts what is longer and answers FORMERR; up to 4,096 octets are read here (padding, RFC 7830)."""
    for size in (400, 513, 1500, 4000, 4096 - 12 - len(QUESTION) - 15):
        opt = b"\0\0\x29\x04\xd0\0\0\0\0" + struct.pack("!HHH", size + 4, 12, size) + bytes(size)
        reply = ask(header(0x0100, 1, 0, 0, 1) + QUESTION + opt)
        assert reply is not None
        assert struct.unpack("!H", reply[6:8])[0] in (0, 2)
    opt = b"\0\0\x29\x04\xd0\0\0\0\0" + struct.pack("!HHH", 5004, 65001, 5000) + bytes(5000)
    reply = ask(header(0x0100, 1, 0, 0, 1) + QUESTION + opt)
    assert reply is not None
    assert reply[3] & 15 == 1


def test_amplification_is_bounded_by_what_the_client_takes(serve: Callable[..., Server]) -> None:
    """No reply over UDP is larger than the size that its query names, 512 without one."""
    lines = "\n".join(f"        10.0.{i // 250}.{i % 250} big.example.org" for i in range(500))
    server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n    hosts {{\n{lines}\n    }}\n}}\n")
    for payload in (None, 0, 100, 512, 1232, 4096, 65535):
        query = dns.message.make_query("big.example.org.", "A")
        if payload is not None:
            query.use_edns(0, 0, payload)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(REPLY)
            sock.sendto(query.to_wire(), ("127.0.0.1", server.port))
            reply = sock.recv(65535)
        assert len(reply) <= max(512, payload or 0)
        assert bool(reply[2] & 2) == (payload != 65535)


def test_60_kilobytes_of_options_cost_little(server: Server, ask: Ask) -> None:
    """EDNS abuse: long option lists over TCP are read once; the time for a query with them is that of reading it."""
    options = b"".join(struct.pack("!HH", 3, 0) for _ in range(15000))
    octets = header(0x0100, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\x04\xd0\0\0\0\0" + struct.pack("!H", len(options)) + options
    used = server.cpu()
    for _ in range(20):
        reply = ask(octets, tcp=True)
        assert reply is not None
        assert reply[3] & 15 == 0
    assert server.cpu() - used < 1


# ---- addresses and sockets ----


@pytest.mark.parametrize("host", ["127.0.0.2", "127.1.2.3", "::1"])
def test_replies_of_a_wildcard_leave_from_the_address_asked(serve: Callable[..., Server], host: str) -> None:
    large = "".join(f"        192.0.{number >> 8}.{number & 255} large.example.org\n" for number in range(256, 512))
    server = serve(COREFILE.replace("HOST", "").replace("        fallthrough", large + "        fallthrough"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind(("::1" if ":" in host else "127.0.0.1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with sock:
        sock.settimeout(REPLY)
        for _ in range(8):
            sock.sendto(header() + QUESTION, (host, server.port))
            assert sock.recvfrom(512)[1][:2] == (host, server.port)
        # A big one leaves in another way.
        big = header(0x0100, 1, 0, 0, 1) + name_wire("large.example.org.") + b"\0\1\0\1" + b"\0\0\x29\xff\xff\0\0\0\0\0\0"
        sock.sendto(big, (host, server.port))
        reply, peer = sock.recvfrom(65535)
        assert peer[:2] == (host, server.port)
        assert len(reply) > 3900


def workers_of(server: Server, count: int = 200) -> Counter[int]:
    """How often each worker of the server came to run for datagrams of one client socket.

    On a busy machine a worker may be interrupted before it sleeps, and find the next one there: that counts as well.
    """
    tasks = Path(f"/proc/{server.process.pid}/task")

    def switches() -> Counter[int]:
        found: Counter[int] = Counter()
        for task in tasks.iterdir():
            if not (task / "comm").read_text().startswith("worker-"):
                continue
            found[int(task.name)] = sum(map(int, re.findall(r"voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())))
        return found

    before = switches()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REPLY)
        sock.connect(("127.0.0.1", server.port))
        for _ in range(count):
            sock.send(header() + QUESTION)
            sock.recv(512)
    return Counter({task: number for task, number in (switches() - before).items() if number > count // 10})


def test_one_client_socket_reaches_all_workers(serve: Callable[..., Server]) -> None:
    """The kernel's steering is at random, not by source port; and it goes on when another process joins and leaves the group."""
    server = serve(COREFILE.replace("HOST", "bind 127.0.0.1"), "-workers", "2")
    shares = workers_of(server)
    assert len(shares) == 2
    assert min(shares.values()) > 50
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as guest:
        guest.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        guest.bind(("127.0.0.1", server.port))
        assert len(workers_of(server)) == 2
    assert len(workers_of(server)) == 2


def flood(sock: socket.socket, answers: int) -> None:
    """Keeps 200 queries in flight until so many were answered."""
    answered, end = 0, time.monotonic() + LIMIT
    sock.settimeout(0.2)
    while answered < answers:
        assert time.monotonic() < end, f"{answered} of {answers} answers"
        for i in range(200):
            sock.send(header(number=i) + QUESTION)
        with contextlib.suppress(TimeoutError):
            for _ in range(200):
                sock.recv(512)
                answered += 1


def refused(sock: socket.socket) -> bool:
    try:
        sock.send(header() + QUESTION)
        sock.recv(512)
    except ConnectionRefusedError:
        return True
    return False


def test_a_flooded_socket_sleeps_again_afterwards_and_can_be_closed(serve: Callable[..., Server], closing: Callable[[socket.socket], socket.socket]) -> None:
    """Under load a worker polls its socket; it must neither go on when the load is over nor hold on to a listener that a reload takes away."""
    server = serve(COREFILE.replace("HOST", "bind 127.0.0.1") + COREFILE.replace("HOST", "bind 127.0.0.1").replace("{port}", "{port2}"))
    sockets = [closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)]
    sockets[0].connect(("127.0.0.1", server.port))
    sockets[1].connect(("127.0.0.1", server.ports["port2"]))
    for sock in sockets:
        flood(sock, 4000)
    before, start = server.cpu(), time.monotonic()
    time.sleep(1)
    assert server.cpu() - before < 0.5 * (time.monotonic() - start)
    flooding, reloaded = threading.Event(), threading.Event()

    def flood_to_the_end() -> None:
        with contextlib.suppress(ConnectionRefusedError, AssertionError):
            while not reloaded.is_set():
                flood(sockets[1], 400)
                flooding.set()

    flooder = threading.Thread(target=flood_to_the_end)
    flooder.start()
    assert flooding.wait(LIMIT)
    server.reload(COREFILE.replace("HOST", "bind 127.0.0.1"))
    reloaded.set()
    flooder.join()
    sockets[1].settimeout(REPLY)
    until(lambda: refused(sockets[1]))
    flood(sockets[0], 400)


def test_a_socket_of_the_group_that_closes_takes_no_query_along(serve: Callable[..., Server], closing: Callable[[socket.socket], socket.socket]) -> None:
    """A second server on the address, as in an upgrade: when the first ends, all goes to the second."""
    first = serve(COREFILE.replace("HOST", "bind 127.0.0.1"), "-workers", "2")
    second = serve(COREFILE.replace("HOST", "bind 127.0.0.1").replace("{port}", str(first.port)), "-workers", "2")
    sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.settimeout(REPLY)
    sock.connect(("127.0.0.1", first.port))
    for i in range(400):
        if i == 200:
            assert first.stop() == 0
        sock.send(header(number=i) + QUESTION)
        assert sock.recv(512)[:2] == i.to_bytes(2, "big")
    second.ports["port"] = first.port
    assert len(workers_of(second)) == 2
