"""Queries that wait: limits of their number, time and depth, and what the others notice of them."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dns.message
import dns.rrset
import pytest

from fastdns._wire import name_wire
from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    hosts {
        192.0.2.1 www.example.org
        fallthrough
    }
    forward . 127.0.0.1:UPSTREAM {
        read_timeout 8s
    }
}
"""
SLOTS = 4096
#: Of these, for children and for queries that do not wait.
SPARE = SLOTS // 16
#: Queries that the server may have read before the first of them waits.
BATCH = 32


def queries(start: int, number: int) -> list[bytes]:
    return [struct.pack("!6H", i & 0xFFFF, 0x0100, 1, 0, 0, 0) + name_wire(f"n{i}.waits.example.") + b"\0\1\0\1" for i in range(start, start + number)]


@pytest.fixture
def silence(closing: Callable[[socket.socket], socket.socket]) -> int:
    """The port of an upstream that never answers."""
    sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return port


def test_overload_the_oldest_makes_room_for_the_newest(serve: Callable[..., Server], silence: int, closing: Callable[[socket.socket], socket.socket]) -> None:
    """With all slots taken, the query that has waited longest gets SERVFAIL at once; what needs no waiting is answered as ever."""
    server = serve(COREFILE.replace("UPSTREAM", str(silence)), "-workers", "1")
    sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.connect(("127.0.0.1", server.port))
    failed: list[int] = []
    extra = 300
    start = time.monotonic()
    for i, octets in enumerate(queries(0, SLOTS + extra)):
        sock.send(octets)
        if i % 100 == 99:
            assert server.answers("www.example.org.") == ["192.0.2.1"]
    sock.settimeout(LIMIT)
    try:
        while True:
            reply = sock.recv(512)
            assert reply[3] & 15 == 2
            failed.append(int.from_bytes(reply[:2], "big"))
            if len(failed) >= extra + SPARE - BATCH:  # there may be a few more
                sock.settimeout(0.3)
    except TimeoutError:
        pass
    assert time.monotonic() - start < 7.9, "before the first of them has waited for its upstream in vain"
    assert extra + SPARE - BATCH <= len(failed) <= extra + SPARE + 2
    assert failed == sorted(failed)
    assert failed[-1] < extra + SPARE + 5
    # The rest fails with the upstream, each of them once, and nothing is left behind.
    sock.settimeout(LIMIT)
    seen = Counter(failed)
    while sum(seen.values()) < SLOTS + extra:
        reply = sock.recv(512)
        assert reply[3] & 15 == 2
        seen[int.from_bytes(reply[:2], "big")] += 1
    assert max(seen.values()) == 1
    for tcp in (False, True):
        assert server.answers("www.example.org.", tcp=tcp) == ["192.0.2.1"]


def test_overload_what_is_known_is_answered_meanwhile(serve: Callable[..., Server], closing: Callable[[socket.socket], socket.socket]) -> None:
    """With twice as many questions as slots for a silent upstream, names of the cache and of an index are answered, and what is given up is counted."""

    def known(query: dns.message.Message) -> dns.message.Message | None:
        name = query.question[0].name
        if name.to_text().endswith(".waits.example."):
            return None
        reply = dns.message.make_response(query)
        reply.answer.append(dns.rrset.from_text(name, 3600, "IN", "A", "192.0.2.53"))
        return reply

    with Upstream(known) as upstream:
        server = serve(COREFILE.replace("127.0.0.1:UPSTREAM", upstream.address).replace("forward", "cache 3600\n    forward"), "-workers", "2")
        for i in range(8):
            server.until(f"n{i}.cached.example.", "A", ["192.0.2.53"])
        sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.connect(("127.0.0.1", server.port))
        failed: Counter[int] = Counter()
        asked = 2 * SLOTS
        for i, octets in enumerate(queries(0, asked)):
            sock.send(octets)
            if i % 128 == 127:
                number = i // 128
                assert server.answers("www.example.org.", tcp=number % 2 == 1) == ["192.0.2.1"], "of an index"
                assert server.answers(f"n{number % 8}.cached.example.", tcp=number % 3 == 1) == ["192.0.2.53"], "of the cache"
                assert server.metric(server.ports["port2"], "fastdns_parked_queries") <= SLOTS
        sock.settimeout(LIMIT)
        while sum(failed.values()) < asked:
            reply = sock.recv(512)
            assert reply[3] & 15 == 2
            failed[int.from_bytes(reply[:2], "big")] += 1
        assert max(failed.values()) == 1, "each has one reply"
        assert server.metric(server.ports["port2"], "fastdns_evicted_queries_total") > 0
        until(lambda: server.metric(server.ports["port2"], "fastdns_parked_queries") == 0, "that no query waits")


def test_overload_memory_is_bounded_whatever_waits(serve: Callable[..., Server], silence: int, closing: Callable[[socket.socket], socket.socket]) -> None:
    """Ten times as many queries as there are slots: memory stays where it was with the first slotful."""
    server = serve(COREFILE.replace("UPSTREAM", str(silence)))
    sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.connect(("127.0.0.1", server.port))
    asked = 0

    def ask_more() -> int:
        """Octets of the process after another slotful."""
        nonlocal asked
        for i, octets in enumerate(queries(asked, SLOTS)):
            sock.send(octets)
            if i % 200 == 199:
                time.sleep(0.005)
        asked += SLOTS
        assert server.answers("www.example.org.") == ["192.0.2.1"]
        return server.memory()

    def full() -> bool:
        ask_more()
        return server.metric(server.ports["port2"], "fastdns_parked_queries") > SLOTS - SPARE - 100

    ask_more()
    until(full, "that all slots are taken")
    sizes = [server.memory(), *(ask_more() for _ in range(6))]
    assert sizes[-1] - sizes[0] < 4_000_000, sizes
    server.process.kill()  # which waits for no query


ASKS_BELOW = """
from fastdns.plugin import Plugin

class Asks(Plugin):
    deadline = 0.5

    async def serve(self, query, next):
        return await next(query)

def setup(controller):
    return Asks()
"""


def test_what_nobody_waits_for_any_more_waits_for_nothing(serve: Callable[..., Server], silence: int, tmp_path: Path) -> None:
    """A plugin's deadline passes while it has the handlers below ask an upstream: their slots are free at once, and a process that is to end does."""
    (tmp_path / "asks.py").write_text(ASKS_BELOW)
    corefile = COREFILE.replace("forward .", "plugin {dir}/../asks.py\n    forward .").replace("read_timeout 8s", f"read_timeout {10 * LIMIT:.0f}s")
    server = serve(corefile.replace("UPSTREAM", str(silence)), "-workers", "1")
    for i in range(5):
        assert server.query(f"n{i}.waits.example.").rcode() == 2
    until(lambda: server.metric(server.ports["port2"], "fastdns_parked_queries") == 0, "that no query waits")


def test_NXNS_one_query_upstream_for_one_of_a_client(serve: Callable[..., Server]) -> None:
    """NXNSAttack, DNSBomb: what a client asks never becomes more than that upstream, and nothing is gathered up to be sent at once."""
    with Upstream() as upstream:
        server = serve(COREFILE.replace("127.0.0.1:UPSTREAM", upstream.address))
        for i in range(100):
            assert server.answers(f"n{i}.example.") == ["192.0.2.53"]
        # A datagram that is repeated, because this machine let the upstream wait, has the same id.
        asked = {(query.id, query.question[0].name.to_text(), query.question[0].rdtype) for query in upstream.seen}
        assert Counter(name for _, name, rdtype in asked if rdtype == 1).most_common(1)[0][1] == 1
        assert len(asked) <= 100 + 4  # checks of its health


def test_metrics_cardinality(serve: Callable[..., Server]) -> None:
    """Names, types and classes of clients make no new series."""
    with Upstream() as upstream:
        server = serve(COREFILE.replace("127.0.0.1:UPSTREAM", upstream.address))

        def series() -> set[str]:
            return {line.rpartition(" ")[0] for line in server.get(server.ports["port2"], "/metrics").splitlines() if not line.startswith("#")}

        for name in ("www.example.org.", "n.example."):
            for rdtype in ("A", "AAAA", "TYPE65000"):
                server.query(name, rdtype)
        before = series()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(REPLY)
            sock.connect(("127.0.0.1", server.port))
            for i in range(1500):
                name = name_wire(f"\\000\\255%{i}.random{i}.example." if i % 2 else f"r{i}.example.")
                sock.send(struct.pack("!6H", i, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", 60000 + i, 1))
                sock.recv(512)
        assert {name for name in series() - before if "_dns_" in name and "le=" not in name} == set()
        assert len(series()) < len(before) + 100


PLUGIN = """
import asyncio
from fastdns.plugin import Plugin

class Deep(Plugin):
    deadline = 120.0

    async def serve(self, query, next):
        if query.name.startswith("stuck"):
            await asyncio.sleep(300)
        await asyncio.sleep(0.001)
        return await next(query)

def setup(controller):
    return Deep()
"""


@pytest.mark.parametrize(("plugins", "rcode"), [(1, 0), (10, 0), (11, 2), (20, 2)])
def test_children_are_so_deep_and_no_deeper(serve: Callable[..., Server], tmp_path: Path, plugins: int, rcode: int) -> None:
    """Each of these plugins waits for a child of its own; at a depth of ten the query fails, and its parents with it, at once."""
    names = [f"deep{i}.py" for i in range(plugins)]
    for name in names:
        (tmp_path / name).write_text(PLUGIN)
    lines = "".join(f"    plugin {{dir}}/../{name}\n" for name in names)
    server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n{lines}    whoami\n}}\n")
    for _ in range(30):
        assert server.query("www.example.org.", timeout=LIMIT).rcode() == rcode, "at once is well before the deadline"


def test_a_deadline_ends_a_whole_family(serve: Callable[..., Server], tmp_path: Path) -> None:
    """The innermost child hangs: every level lets go of it, and the slots come back."""
    for i in range(5):
        (tmp_path / f"deep{i}.py").write_text(PLUGIN.replace('"stuck"', '"nothing"').replace("120.0", "1.0"))
    (tmp_path / "last.py").write_text(PLUGIN)
    lines = "".join(f"    plugin {{dir}}/../deep{i}.py\n" for i in range(5))
    server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n{lines}    plugin {{dir}}/../last.py\n    whoami\n}}\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(LIMIT)
        sock.connect(("127.0.0.1", server.port))
        for part in range(3):
            for i in range(200):
                sock.send(struct.pack("!6H", part * 200 + i, 0x0100, 1, 0, 0, 0) + name_wire(f"stuck{i}.example.") + b"\0\1\0\1")
            replies = [sock.recv(512) for _ in range(200)]
            assert all(reply[3] & 15 == 2 for reply in replies)
    assert server.query("other.example.").additional
    server.process.kill()  # which does not wait for the innermost ones


def test_reload_with_parked_queries(serve: Callable[..., Server]) -> None:
    """They are answered by the configuration that they came to, though several followed."""

    answered = threading.Event()

    def slow(query: dns.message.Message) -> dns.message.Message:
        answered.wait(LIMIT)
        reply = dns.message.make_response(query)
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.53"))
        return reply

    with Upstream(slow) as upstream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        server = serve(COREFILE.replace("127.0.0.1:UPSTREAM", upstream.address))
        sock.settimeout(LIMIT)
        sock.connect(("127.0.0.1", server.port))
        sock.send(queries(1, 1)[0])
        until(lambda: upstream.seen)
        for i in range(3):
            server.reload(f".:{{port}} {{\n    bind 127.0.0.1\n    hosts {{\n        192.0.2.{i} www.example.org\n    }}\n}}\n")
        assert server.answers("www.example.org.") == ["192.0.2.2"]
        answered.set()
        assert dns.message.from_wire(sock.recv(512)).answer[0][0].to_text() == "192.0.2.53"
