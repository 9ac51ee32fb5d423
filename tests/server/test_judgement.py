"""Which canaries fail, by the counts of their clients."""

from __future__ import annotations

import random

import pytest

from fastdns.server.judgement import ClientCount, exceeds
from fastdns.walk.tally import ClientCounts

SHARE = 0.01
SERVFAIL = 2


def some(count: int, bad: int, total: int, first: int = 0, network: int = 1, proven: bool = False) -> list[ClientCount]:
    """Clients of one network with equal counts."""
    return [(network, first + number, proven, bad, total) for number in range(count)]


GOOD = some(5, 0, 50, 1000)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("bad", [2, 30, 10**6])
def test_one_client_decides_nothing(bad: int, workers: int) -> None:
    """With however many answers and workers, also if it proves its address on some of them and nobody else asks much."""
    one = [(9, 7, proven, bad, bad) for proven in (False, True) for _ in range(workers)]
    assert not exceeds(SHARE, some(5, 0, 50) + one, GOOD)
    assert not exceeds(SHARE, some(1, 0, 1) + one, GOOD)
    assert not exceeds(SHARE, one, GOOD)
    # Nor does it on the other side: neither a canary that fails altogether nor one that fails a little is hidden by it.
    assert exceeds(SHARE, some(5, 3, 3), GOOD + one)
    assert exceeds(SHARE, some(5, 3, 50), GOOD + one)


@pytest.mark.parametrize("count", [2, 3, 5, 50])
@pytest.mark.parametrize("serving", [[], some(1, 0, 1, 1000), GOOD])
def test_several_clients_end_it_at_once(count: int, serving: list[ClientCount]) -> None:
    assert exceeds(SHARE, some(count, 1, 1), serving)
    assert exceeds(SHARE, some(count, 1, 1) + some(3, 0, 20, 500), serving)


def test_too_few_answers() -> None:
    """Those that LEAST lacks count as good ones."""
    assert not exceeds(0.05, some(5, 1, 1), GOOD)
    assert exceeds(0.05, some(6, 1, 1), GOOD)
    assert exceeds(0.05, some(2, 3, 3), GOOD)


def test_floods_of_good_answers_hide_nothing() -> None:
    broken = some(2, 15, 15)
    assert exceeds(SHARE, broken + some(1, 0, 10**7, 50), GOOD)
    assert exceeds(0.2, broken + some(250, 0, 10**5, 50, network=2), GOOD), "of a network with many addresses"
    forged = [(number, number, False, 0, 1) for number in range(2000, 6000)]
    proven = some(2, 15, 15, proven=True)
    assert not exceeds(SHARE, broken + forged, GOOD + forged), "nothing tells forged addresses from others"
    assert exceeds(SHARE, proven + forged, GOOD + forged), "where clients prove their addresses they are judged apart"


def test_what_fails_in_both_is_no_difference() -> None:
    """Clients that fail in any case are on either side as chance will have it."""
    for seed in range(200):
        chance = random.Random(seed)
        sides: tuple[list[ClientCount], list[ClientCount]] = ([], [])
        for number in range(400):
            sides[chance.randrange(2)].append((number // 50, number, False, 20 if number % 4 == 0 else 0, 20))
        assert not exceeds(SHARE, *sides), seed
        assert exceeds(SHARE, [(network, client, False, total, total) for network, client, _, _, total in sides[0]], sides[1])


def test_a_little_more_than_in_the_serving_configuration() -> None:
    assert not exceeds(0.05, some(20, 8, 100), some(20, 4, 100, 1000)), "4 % more of 5 % allowed"
    assert exceeds(0.05, some(20, 12, 100), some(20, 4, 100, 1000))


# ---- the table of a worker ----


def address(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_clients_are_counted() -> None:
    counts = ClientCounts()
    for _ in range(3):
        counts.count(address(1), False, SERVFAIL)
    counts.count(address(1), False, 0)
    counts.count(address(1), True, 0)
    counts.count(bytes(16), False, 0)
    counts.count(bytes(15) + b"\1", False, SERVFAIL)
    rows = counts.rows(SERVFAIL)
    assert sorted((proven, bad, total) for _, _, proven, bad, total in rows) == [(False, 1, 2), (False, 3, 4), (True, 0, 1)]
    assert len({client for _, client, *_ in rows}) == 2, "an IPv6 /64 is one client, and so is an address that is proven or not"
    counts.begin()
    assert counts.rows(SERVFAIL) == []


def test_the_table_is_bounded_and_forged_addresses_evict_each_other() -> None:
    """A hundred thousand of them: clients with proof stay, and so do nearly all that ask more than once."""
    counts = ClientCounts()
    for number in range(100):
        for _ in range(20):
            counts.count(address(number << 8), False, SERVFAIL)
        counts.count(address(number << 8), True, SERVFAIL)
    for number in range(100000):
        counts.count(address(1 << 30 | number * 40503), False, 0)
    rows = counts.rows(SERVFAIL)
    assert len(rows) <= 1024
    assert sum(proven for _, _, proven, *_ in rows) == 100
    # Where the hash puts five of them into one bucket it has no room for all without proof.
    assert sum(bad == 20 for *_, bad, _ in rows) >= 90
