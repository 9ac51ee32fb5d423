"""No key fills the zone for the others: what each holds, what each is sure of, and that databases keep it."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from fastdns._wire import name_wire
from fastdns.index.zone import Zone
from fastdns.plugins.dynupdate.content import Limits, Row, record_size
from fastdns.plugins.dynupdate.holdings import Held, Holdings, ShareError
from fastdns.plugins.dynupdate.store import DynamicZone
from tests.plugins.dynupdate.zones import SHARED, acme, fill, message, narrow, seed, send
from tests.server import Server
from tests.waiting import LIMIT

Serve = Callable[..., Server]

KEYS = [name_wire(f"{name}.") for name in ("a", "b", "c", "d")]
SOA = name_wire("example.org."), 6, 60, bytes(22)
TXT = 16


def txt(name: str, text: str = "x", ttl: int = 60) -> Row:
    return name_wire(f"{name}.example.org."), TXT, ttl, bytes([len(text)]) + text.encode()


class Book:
    """A zone's records, without the zone."""

    def __init__(self, limits: Limits, nobody: int = 0) -> None:
        self.limits = limits
        self.rows: dict[tuple[bytes, bytes], tuple[Row, bytes | None]] = {}
        self.holdings = Holdings()
        self.nobody = nobody
        self.made = 0

    @property
    def total(self) -> Held:
        return Held(len(self.rows) + self.nobody, sum(record_size(row[0], row[3]) for row, _ in self.rows.values()))

    def change(self, who: bytes, add: list[Row] = [], delete: list[Row] = []) -> bool:  # noqa: B006
        former = [self.rows[row[0], row[3]][0] for row in [*delete, *add] if (row[0], row[3]) in self.rows]
        total = Held(
            self.total.records + len(add) - len(former),
            self.total.octets + sum(record_size(row[0], row[3]) for row in add) - sum(record_size(row[0], row[3]) for row in former),
        )
        if total.records > self.limits.records or total.octets > self.limits.octets:
            return False
        deleted, added = [SOA, *former], [SOA, *add]
        try:
            self.holdings.check(deleted, added, who, KEYS, total, self.limits)
        except ShareError:
            return False
        self.holdings.apply(deleted, added, who)
        for row in former:
            del self.rows[row[0], row[3]]
        for row in add:
            self.rows[row[0], row[3]] = row, who
        return True

    def fill(self, who: bytes, length: int = 1, most: int = 10**6) -> int:
        """Adds records of one name until it is refused; their number."""
        for number in range(most):
            self.made += 1
            if not self.change(who, [txt("one", f"{self.made}".ljust(length))]):
                return number
        raise AssertionError("never refused")


def test_each_key_is_sure_of_a_share() -> None:
    """Half of the room is divided; the other half is for who comes first."""
    book = Book(Limits(records=100, octets=10**6), nobody=20)
    assert book.fill(KEYS[0]) == 40 + 10
    assert book.fill(KEYS[1]) == 10
    assert book.fill(KEYS[2]) == 10
    assert book.fill(KEYS[3]) == 10
    assert book.total.records == 100


def test_octets_as_well_as_records() -> None:
    book = Book(Limits(records=10**6, octets=80_000))
    book.fill(KEYS[0], 200)
    assert book.holdings.of(KEYS[0]).octets <= 50_000
    for other in KEYS[1:]:
        book.fill(other, 200)
        assert book.holdings.of(other).octets > 9_000


def test_one_key_alone_has_the_whole_zone() -> None:
    holdings = Holdings()
    rows = [txt("a", str(number)) for number in range(100)]
    holdings.check([], rows, KEYS[0], KEYS[:1], Held(100, 4000), Limits(records=100, octets=4000))


def test_deletions_give_back_and_who_writes_last_holds() -> None:
    book = Book(Limits(records=80, octets=10**6))
    book.fill(KEYS[0])
    assert book.holdings.of(KEYS[0]).records == 50
    rows = [row for row, _ in book.rows.values()]
    assert book.change(KEYS[1], delete=rows[:20])
    assert book.holdings.of(KEYS[0]).records == 30
    # Another TTL is another writer.
    assert book.change(KEYS[1], add=[(*row[:2], 99, row[3]) for row in rows[20:25]])
    assert (book.holdings.of(KEYS[0]).records, book.holdings.of(KEYS[1]).records) == (25, 5)
    assert book.fill(KEYS[0]) == 25
    # A key gets no more by writing what others hold, once that would take a share.
    assert not book.change(KEYS[0], add=[(*rows[20][:2], 7, rows[20][3]), txt("more")])
    # Without growth a change is never refused.
    assert book.change(KEYS[0], add=[txt("one", "other")], delete=[rows[30]])


def test_rapid_changes_lose_nothing() -> None:
    """Ten thousand random ones: the numbers are those of the records, and nobody is below its share."""
    chance = random.Random(1)
    book = Book(Limits(records=60, octets=10**6))
    for step in range(10_000):
        who = KEYS[min(chance.randrange(12), 3)]
        if who == KEYS[3] or chance.random() < 0.6:
            book.change(who, [txt(f"n{chance.randrange(40)}", str(chance.randrange(5)), step)])
        else:
            book.change(who, delete=chance.sample([row for row, _ in book.rows.values()], min(len(book.rows), 2)))
    for who in KEYS:
        mine = [row for row, writer in book.rows.values() if writer == who]
        assert book.holdings.of(who) == Held(len(mine), sum(record_size(row[0], row[3]) for row in mine))
    for other in KEYS[:3]:
        book.fill(other)
        assert book.holdings.of(other).records >= 60 // 8


# ---- through sockets ----


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(SHARED, prepare=seed)


def numbers(server: Server, name: str) -> float:
    return server.metric(server.ports["port2"], f'{name}{{key="narrow.",zone="example.org."}}')


def test_a_key_that_floods_leaves_others_their_share(server: Server) -> None:
    """Of the forty records beside those of the seed it gets twenty and its share of six; the attribution outlasts SIGKILL."""
    assert fill(server) == 28
    assert numbers(server, "fastdns_dynupdate_key_records") == 28
    assert numbers(server, "fastdns_dynupdate_key_refused_total") == 1
    server.wait_log(r"UPDATE for example\.org\. failed: key narrow\. exceeds its part of max_records \(48\): 12 are kept for other keys")
    assert [acme(server, text) for text in "abc"] == ["NOERROR"] * 3
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait(LIMIT)
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)
    assert fill(server) == 0 or numbers(server, "fastdns_dynupdate_key_records") == 28
    assert [acme(server, text) for text in "def"] == ["NOERROR"] * 3
    assert server.log().count("exceeds its part") == 2, "once in each process"
    update = message(with_key=narrow())
    update.delete("host", "TXT")
    assert send(server, update) == "NOERROR"
    update = message(with_key=narrow())
    update.add("host", 60, "TXT", "again")
    assert send(server, update) == "NOERROR"
    server.wait_log(r"example\.org\.: key narrow\. is within its part again")


def test_databases_of_former_versions_go_on(server: Server) -> None:
    """Their records are nobody's, and those that are written from then on have a writer."""
    assert acme(server, "first") == "NOERROR"
    server.stop()
    path = server.folder / "zone.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE writer")
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)
    assert server.metric(server.ports["port2"], 'fastdns_dynupdate_key_records{key="stranger.",zone="example.org."}') == 0
    assert acme(server, "second") == "NOERROR"
    assert server.metric(server.ports["port2"], 'fastdns_dynupdate_key_records{key="stranger.",zone="example.org."}') == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM writer WHERE key = ?", (name_wire("stranger."),)).fetchone() == (1,)


def test_keys_take_turns() -> None:
    """One that sends many UPDATEs holds up others by one at a time, and its own stay in order."""
    zone = DynamicZone(Zone("example.org."), "", 0, Limits())
    order: list[str] = []
    over = threading.Event()

    def begin() -> None:
        for number in range(5):
            zone.submit(partial(order.append, f"a{number}"), KEYS[0])
        for who, name in ((KEYS[1], "b"), (KEYS[2], "c"), (b"", "other")):
            zone.submit(partial(order.append, name), who)
        zone.submit(over.set, KEYS[0])

    zone.submit(begin)
    assert over.wait(LIMIT)
    assert order == ["a0", "b", "c", "other", "a1", "a2", "a3", "a4"]
