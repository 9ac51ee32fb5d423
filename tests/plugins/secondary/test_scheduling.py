"""Many transfers at once: none waits for one that is slow, and receiving has the process's priority."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.name
import dns.rrset
import pytest

from fastdns.control.tasks import NICENESS
from fastdns.index.zone import Zone
from fastdns.plugins.secondary.exchange import Limits
from fastdns.plugins.secondary.keeper import Keeper, receivers
from fastdns.plugins.secondary.primary import primary_of
from fastdns.plugins.secondary.receivers import PRIMARY_MOST, Receivers
from tests.plugins.secondary.primary import Messages, Primary
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]


class Stalling(Primary):
    """Serves any zone: large ones stop after their first message until `go`, broken ones are garbage, others have one address."""

    def __init__(self) -> None:
        super().__init__("@ 60 IN SOA ns host 1 3600 600 86400 60\n")
        self.go = threading.Event()
        self.begun: set[str] = set()
        self.script = lambda _, request: self.serve_zone(request)

    def serve_zone(self, request: dns.message.Message) -> Messages:
        zone = request.question[0].name.to_text()
        soa = dns.rrset.from_text(zone, 60, "IN", "SOA", "ns. host. 1 3600 600 86400 60")
        address = dns.rrset.from_text(f"www.{zone}", 60, "IN", "A", "192.0.2.1")
        yield self.reply(request, [soa])
        self.begun.add(zone)
        if zone.startswith("broken"):
            yield b"\0" * 20
        if zone.startswith("large"):
            for number in range(20):
                yield self.reply(request, [dns.rrset.from_text(f"n{number}-{other}.{zone}", 60, "IN", "A", "192.0.2.1") for other in range(100)])
            assert self.go.wait(LIMIT)
        yield self.reply(request, [address, soa])


@pytest.fixture
def primary() -> Iterator[Callable[[], Stalling]]:
    made: list[Stalling] = []

    def make() -> Stalling:
        made.append(Stalling())
        return made[-1]

    yield make
    for one in made:
        one.go.set()
        one.close()


def corefile(zones: dict[str, Primary]) -> str:
    return "".join(f"{zone}:{{port}} {{\n    secondary {{\n        transfer from {one.address}\n    }}\n}}\n" for zone, one in zones.items())


def test_small_zones_are_served_while_large_ones_are_stalled(serve: Serve, primary: Callable[[], Stalling]) -> None:
    one = primary()
    large = [f"large{number}.test" for number in range(PRIMARY_MOST - 2)]
    server = serve(corefile(dict.fromkeys([*large, "broken.test", "small.test"], one)))
    until(lambda: len(one.begun) == PRIMARY_MOST, "that all transfers begin")
    server.until("www.small.test.", "A", ["192.0.2.1"])
    server.wait_log(r"Failed to transfer `broken\.test\.' from")
    assert [server.answers(f"www.{zone}.") for zone in large] == [["SERVFAIL"]] * len(large)
    one.go.set()
    for zone in large:
        server.until(f"www.{zone}.", "A", ["192.0.2.1"])


def test_a_primary_holds_back_its_own_zones_only(serve: Serve, primary: Callable[[], Stalling]) -> None:
    one, other = primary(), primary()
    large = [f"large{number}.test" for number in range(2 * PRIMARY_MOST)]
    server = serve(corefile(dict.fromkeys(large, one) | {"small.test": other}))
    until(lambda: len(one.begun) == PRIMARY_MOST, "that transfers begin")
    server.until("www.small.test.", "A", ["192.0.2.1"])
    assert [server.answers(f"www.{zone}.") for zone in large] == [["SERVFAIL"]] * len(large)
    assert len(one.begun) == PRIMARY_MOST
    one.go.set()
    for zone in large:
        server.until(f"www.{zone}.", "A", ["192.0.2.1"])


def niceness(name: str) -> set[int]:
    """Of the threads whose names begin like this."""
    found = set()
    for thread in threading.enumerate():
        if thread.name.startswith(name) and thread.native_id is not None:  # it has begun to run
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
            found.add(int(fields[16]))
    return found


def test_priorities(primary: Callable[[], Stalling]) -> None:
    one = primary()
    keeper = Keeper(Zone("large.test."), [primary_of(one.address)], None, Limits(), None)
    receivers.start()
    keeper.start()
    try:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        # The thread lowers its own priority, as the first thing that it does.
        until(lambda: niceness("zone-") == {max(NICENESS, before)}, "that the zone is built, niced")
        assert niceness("secondary") == {before}
        one.go.set()
        until(lambda: keeper.zone.serial == 1, "that the zone is there")
    finally:
        keeper.stop()


def test_jobs_that_wait_begin_by_size() -> None:
    waiting = Receivers()
    go, done = threading.Event(), threading.Event()
    order: list[int] = []
    ended = [threading.Event() for _ in range(4)]

    def note(number: int) -> None:
        order.append(number)
        ended[number].set()

    held = [threading.Event() for _ in range(PRIMARY_MOST)]
    for number, begun in enumerate(held):
        # All but one end at once when the test does; the jobs behind take turns in the place of the first.
        waiting.submit("a", 0, lambda number=number, begun=begun: (begun.set(), go.wait(LIMIT) if number == 0 else done.wait(LIMIT)))  # type: ignore[misc]
    for begun in held:
        assert begun.wait(LIMIT)
    for number, size in enumerate([30, 10, 20, 10]):
        waiting.submit("a", size, lambda number=number: note(number))  # type: ignore[misc]
    go.set()
    for one in ended:
        assert one.wait(LIMIT)
    done.set()
    assert order == [1, 3, 2, 0]
