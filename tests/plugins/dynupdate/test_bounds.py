"""UPDATEs that wait: how many, whose go first, and who is held up by a disk."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.rcode

from tests.plugins.dynupdate.zones import DATABASE, SEED, add, message, seed
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

TWO = DATABASE + DATABASE.replace("example.org", "example.net").replace("file seed", "file net").replace("zone.db", "net.db")


def prepare(folder: Path) -> None:
    seed(folder)
    (folder / "net").write_text(SEED.replace("example.org", "example.net"))


@contextmanager
def hung(path: Path) -> Iterator[None]:
    """The zone's thread waits for the disk: here for a lock on the file."""
    until(path.exists)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def signed(name: str, zone: str = "example.org.") -> bytes:
    update = message(zone)
    update.add(name, 60, "A", "192.0.2.9")
    return update.to_wire()


def collected(sock: socket.socket, rcodes: list[str]) -> int:
    """The number of replies that have come, whose rcodes are appended."""
    sock.setblocking(False)
    while True:
        try:
            rcodes.append(dns.rcode.to_text(dns.rcode.Rcode(sock.recv(4096)[3] & 15)))
        except BlockingIOError:
            return len(rcodes)


def test_a_network_that_floods_keeps_nobody_out(serve: Serve) -> None:
    server = serve(DATABASE, "-workers", "1", prepare=prepare)
    assert add(server, "first") == "NOERROR"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as many, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        many.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        many.connect(("127.0.0.1", server.port))
        one.bind(("127.77.0.1", 0))
        one.connect(("127.0.0.1", server.port))
        messages = [signed(f"m{number}") for number in range(400)]
        refused: list[str] = []
        with hung(server.folder / "zone.db"):
            for octets in messages[:300]:
                many.send(octets)
            one.send(signed("one"))
            for octets in messages[300:]:
                many.send(octets)
            until(lambda: collected(many, refused) >= 100)
        one.settimeout(REPLY)
        assert one.recv(4096)[3] & 15 == 0
        assert set(refused) == {"SERVFAIL"}
        until(lambda: collected(many, refused) == 400)
    assert server.answers("one.example.org.") == ["192.0.2.9"]
    assert refused.count("NOERROR") >= 200


def test_a_disk_that_hangs_holds_up_its_zone_alone(serve: Serve) -> None:
    server = serve(TWO, prepare=prepare)
    assert add(server, "first") == "NOERROR"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", server.port))
        with hung(server.folder / "zone.db"):
            sock.send(signed("waits"))
            for number in range(5):
                began = time.monotonic()
                update = message("example.net.")
                update.add(f"n{number}", 60, "A", "192.0.2.9")
                assert server.send(update).rcode() == dns.rcode.NOERROR
                assert server.answers("first.example.org.") == ["192.0.2.9"]
                assert server.answers("waits.example.org.") == ["NXDOMAIN"]
                assert time.monotonic() - began < 4
        sock.settimeout(REPLY)
        assert sock.recv(4096)[3] & 15 == 0
    assert server.answers("waits.example.org.") == ["192.0.2.9"]


def test_a_change_costs_by_its_size(serve: Serve) -> None:
    """In a zone of 10,000 records, as in one of ten."""
    from fastdns._wire import name_wire
    from fastdns.index.zone import Zone
    from fastdns.plugins.dynupdate.changes import Draft
    from fastdns.plugins.dynupdate.content import draft_of

    def work(records: int) -> int:
        zone = Zone("example.org.")
        soa = b"\0\0" + b"".join(number.to_bytes(4, "big") for number in (1, 2, 3, 4, 5))
        rows = [(zone.wire, 6, 60, soa)] + [(name_wire(f"h{number}.example.org."), 1, 60, bytes(4)) for number in range(records)]
        zone.publish(draft_of(zone, rows))
        before = zone.index.statistics["work"]
        draft = Draft(zone)
        draft.apply([(name_wire("h1.example.org."), 1, 1, 60, b"abcd"), (name_wire("new.example.org."), 16, 1, 60, b"\1a")])
        draft.finish()
        draft.change(*draft.difference()).publish()
        return zone.index.statistics["work"] - before

    assert work(10_000) < 1000  # a long run of slots in a row is rare, and no zone
