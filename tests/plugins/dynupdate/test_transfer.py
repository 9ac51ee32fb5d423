"""Secondaries of a dynamic zone: they are told of changes, and get what has changed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.opcode
import dns.query
import dns.rcode
import pytest

from tests.plugins.dynupdate.zones import DATABASE, MEMORY, add, message, seed, send, transferred
from tests.plugins.secondary.peers import PROGRAMS, Peer
from tests.server import Server, free_port
from tests.waiting import REPLY, until

Serve = Callable[..., Server]


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Callable[..., Peer]]:
    made: list[Peer] = []

    def make(kind: str, role: str, port: int) -> Peer:
        made.append(Peer(kind, role, tmp_path / f"{kind}{len(made)}", port))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_secondary_follows(serve: Serve, peer: Callable[..., Peer], kind: str) -> None:
    port = free_port()
    secondary = peer(kind, "secondary", port)
    server = serve(DATABASE.replace("{port}", str(port)).replace("to *", f"to {secondary.address}"), prepare=seed)
    server.ports["port"] = port
    secondary.wait(1)
    for number in range(3):
        assert add(server, "host", 60, "A", f"192.0.2.{10 + number}") == "NOERROR"
        secondary.wait(2 + number)
    assert secondary.answers("host.example.org.") == ["192.0.2.10", "192.0.2.11", "192.0.2.12"]
    # SOA, SOA, SOA, one added, SOA: not the zone.
    server.wait_log(r'Outgoing transfer of 5 records of zone "example\.org\." to 127\.0\.0\.1 for \d SOA serial')


def test_differences_lead_to_the_zone(serve: Serve) -> None:
    server = serve(MEMORY, prepare=seed)
    transferred(server.port)
    update = message()
    update.delete("www", "A", "192.0.2.1")
    update.add("host", 60, "A", "192.0.2.10")
    assert send(server, update) == "NOERROR"
    query = dns.message.make_query("example.org.", "IXFR")
    query.authority = [dns.rrset.from_text("example.org.", 60, "IN", "SOA", "ns.example.org. hostmaster.example.org. 1 3600 600 86400 60")]
    reply = dns.query.tcp(query, "127.0.0.1", port=server.port, timeout=REPLY, one_rr_per_rrset=True)
    records = [str(rdata) for rrset in reply.answer for rdata in rrset]
    assert len(records) == 6  # SOA, SOA, one deleted, SOA, one added, SOA
    assert "192.0.2.1" in records
    assert "192.0.2.10" in records
    assert "192.0.2.2" not in records


class Recipient:
    """Counts NOTIFYs, and answers each of them after a pause."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(0.05)
        self.port = self.sock.getsockname()[1]
        self.count = 0
        self.answering = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        waiting: list[tuple[bytes, tuple[str, int]]] = []
        while not self._ended.is_set():
            try:
                waiting.append(self.sock.recvfrom(4096))
                self.count += 1
            except TimeoutError:
                pass
            while self.answering.is_set() and waiting:
                octets, sender = waiting.pop()
                query = dns.message.from_wire(octets)
                assert query.opcode() == dns.opcode.NOTIFY
                self.sock.sendto(dns.message.make_response(query).to_wire(), sender)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self.sock.close()


def test_notifies_are_coalesced(serve: Serve) -> None:
    recipient = Recipient()
    try:
        server = serve(MEMORY.replace("to *", f"to 127.0.0.1:{recipient.port}"), prepare=seed)
        for number in range(20):
            assert add(server, f"h{number}") == "NOERROR"
        until(lambda: recipient.count)
        few = recipient.count
        assert few < 10
        recipient.answering.set()
        until(lambda: recipient.count > few)
    finally:
        recipient.stop()


def test_no_notify_without_a_change(serve: Serve) -> None:
    recipient = Recipient()
    recipient.answering.set()
    try:
        server = serve(MEMORY.replace("to *", f"to 127.0.0.1:{recipient.port}"), prepare=seed)
        assert add(server, "www", 60, "A", "192.0.2.1") == "NOERROR"
        update = message()
        update.absent("www")
        assert send(server, update) == "YXDOMAIN"
        assert add(server, "host") == "NOERROR"
        until(lambda: recipient.count)
        assert recipient.count == 1
    finally:
        recipient.stop()
