"""secondary: what transfers under way may take, and who is given up first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import dns.message
import dns.rrset
import pytest

from fastdns.index.zone import Zone
from fastdns.plugins.secondary import underway
from fastdns.plugins.secondary._receive import TransferError
from fastdns.plugins.secondary.exchange import Limits, transfer
from fastdns.plugins.secondary.primary import primary_of
from fastdns.plugins.secondary.receivers import MOST, PRIMARY_MOST, SURE_MOST, Receivers
from fastdns.plugins.secondary.underway import GIVEN_UP, MEMORY_SHARE, OCTETS_DEFAULT, UNDER_WAY, Entry, UnderWay
from fastdns.system.host import memory_limit
from tests.plugins.secondary.primary import Messages, Primary
from tests.plugins.secondary.test_secondary import endless, zone
from tests.waiting import LIMIT, until

Make = Callable[..., Primary]


def given_up(primary: str, reason: str) -> float:
    return next((float(value) for labels, value in GIVEN_UP.collect() if labels == (primary, reason)), 0.0)  # type: ignore[arg-type]


def drip(one: Primary, request: dns.message.Message) -> Messages:
    """A record a message, without end, each before the wait for it is over."""
    yield one.reply(request, [one.soa()])
    for number in range(100_000):
        time.sleep(0.02)
        yield one.reply(request, [dns.rrset.from_text(f"n{number}.example.org.", 60, "IN", "A", "192.0.2.1")])


def test_a_primary_that_drips_has_an_end(primary: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(underway, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(underway, "RATE_LEAST", 1_000_000)
    one = primary(zone(1))
    one.script = drip
    with pytest.raises(TransferError, match=r"the transfer is slower than 1000000 octets a second after 0\.5 s"):
        transfer(Zone("example.org."), primary_of(one.address), None, Limits(), None)
    assert given_up(one.address, "slow") == 1
    assert not UNDER_WAY._entries


def test_progress_has_as_long_as_max_time(primary: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(underway, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(underway, "RATE_LEAST", 1)
    limits = Limits()
    limits.seconds = 1.0
    one = primary(zone(1))
    one.script = drip
    with pytest.raises(TransferError, match=r"the transfer took too long: more than 1 s \(max_time\)"):
        transfer(Zone("example.org."), primary_of(one.address), None, limits, None)
    assert given_up(one.address, "time") == 1


def test_a_transfer_without_end_is_given_up_before_memory_is_full(primary: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """First that of the primary that has most, although it is below its own bound; the other one goes on up to its bound."""
    monkeypatch.setattr(UNDER_WAY, "most", 300_000)
    go = threading.Event()

    def large(one: Primary, request: dns.message.Message) -> Messages:
        sent = 0
        for message in endless(one, request):
            yield message
            sent += len(message.to_wire()) if isinstance(message, dns.message.Message) else len(message or b"")
            if sent > 200_000:
                assert go.wait(LIMIT)

    most, other = primary(zone(1)), primary(zone(1))
    most.script, other.script = large, endless
    errors: list[str] = []

    def run() -> None:
        try:
            transfer(Zone("example.org."), primary_of(most.address), None, limits, None)
        except TransferError as error:
            errors.append(str(error))

    limits = Limits()
    limits.octets = 300_000
    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: any(entry.octets > 200_000 for entry in list(UNDER_WAY._entries)), "the first transfer")
    with pytest.raises(TransferError, match=r"too many octets: more than 300000 \(max_octets\)"):
        transfer(Zone("example.org."), primary_of(other.address), None, limits, None)
    thread.join(LIMIT)
    go.set()
    assert errors == ["all transfers under way have more than 300000 octets, and those of this primary most"]
    assert (given_up(most.address, "memory"), given_up(other.address, "octets")) == (1, 1)
    assert UNDER_WAY._octets == 0


def test_the_largest_of_the_primary_that_has_most_goes_first() -> None:
    ended: list[str] = []
    all_of_them = UnderWay(1000)

    def enter(primary: str) -> Entry:
        entry = Entry(primary, 1000, 60.0, lambda: ended.append(primary))
        all_of_them.enter(entry)
        return entry

    single, first, second = enter("single"), enter("several"), enter("several")
    all_of_them.add(single, 400)
    all_of_them.add(first, 300)
    all_of_them.add(second, 299)
    with pytest.raises(TransferError):
        all_of_them.add(first, 10)
    assert (single.refused, second.refused, ended) == ("", "", ["several"])
    all_of_them.add(second, 1)  # what the first has is still there, and nobody else pays for it
    assert second.refused == ""
    all_of_them.leave(first)
    all_of_them.add(second, 200)
    assert single.refused == second.refused == ""


def test_the_default_is_a_share_of_the_memory() -> None:
    assert Limits().octets == OCTETS_DEFAULT == UNDER_WAY.most
    assert Limits().octets == (memory_limit() // MEMORY_SHARE or 4 << 30)


@pytest.fixture
def held() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_primaries_that_hold_all_receivers_hold_no_other_primary_back(held: threading.Event) -> None:
    """Each other one has a thread for one of its zones at a time."""
    all_of_them = Receivers()
    begun = threading.Semaphore(0)

    def hold() -> None:
        begun.release()
        assert held.wait(LIMIT)

    for number in range(MOST // PRIMARY_MOST):
        for _ in range(3 * PRIMARY_MOST):
            all_of_them.submit(f"bad{number}", 0, hold)
    for _ in range(MOST):
        assert begun.acquire(timeout=LIMIT)
    order: list[int] = []
    ended = threading.Semaphore(0)
    for number in range(5):
        all_of_them.submit("good", 0, lambda number=number: (order.append(number), ended.release()))  # type: ignore[misc]
    for _ in range(5):
        assert ended.acquire(timeout=LIMIT)
    assert order == list(range(5))
    assert not begun.acquire(blocking=False)  # nobody has more than before
    assert MOST < SURE_MOST
