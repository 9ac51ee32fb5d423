"""UDP sessions: whose they are, how long they live, and who loses one when the table is full."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from fastdns.proxy.sessions import LIMIT, Sessions

SECOND = 10**9
LIFETIME = 28 * SECOND

End = tuple[bytes, int]


def peer(number: int, proxy: int = 1) -> End:
    """A port of a proxy."""
    return bytes((192, 0, 2, proxy)), 1024 + number


def client(number: int) -> End:
    return bytes(12) + number.to_bytes(4, "big"), number % 65536


def test_store_and_find() -> None:
    sessions = Sessions(10)
    assert sessions.find(peer(1), 0, LIFETIME) is None
    sessions.store(peer(1), 0, LIFETIME, client(7))
    assert sessions.find(peer(1), 1, LIFETIME) == client(7)
    assert sessions.find(peer(2), 1, LIFETIME) is None
    assert sessions.find(peer(1, proxy=2), 1, LIFETIME) is None
    sessions.store(peer(1), 2, LIFETIME, client(8))
    assert sessions.find(peer(1), 3, LIFETIME) == client(8)
    assert len(sessions) == 1


def test_tlvs() -> None:
    """They are those of the last header, and end with the session."""
    sessions = Sessions(10)
    sessions.store(peer(1), 0, LIFETIME, client(7), b"\1\0\1x")
    sessions.store(peer(2), 0, LIFETIME, client(8))
    assert [sessions.find_tlvs(peer(number), 1, LIFETIME) for number in (1, 2, 3)] == [b"\1\0\1x", b"", b""]
    assert sessions.tlvs == 4
    sessions.store(peer(1), 2, LIFETIME, client(7), b"\2\0\0")
    assert sessions.find_tlvs(peer(1), 3, LIFETIME) == b"\2\0\0"
    assert sessions.tlvs == 3
    assert sessions.find_tlvs(peer(1), 3 + LIFETIME, LIFETIME) == b""
    assert (sessions.tlvs, len(sessions)) == (0, 1)
    sessions.store(peer(2), 4, LIFETIME, client(7), b"\1\0\1x")
    sessions.store(peer(2), 5, LIFETIME, client(7))
    assert (sessions.tlvs, sessions.find_tlvs(peer(2), 6, LIFETIME)) == (0, b"")


@pytest.mark.parametrize("capacity", [1, 10, 1000])
def test_tlvs_are_bounded(capacity: int) -> None:
    """By 256 octets for each session, and those of the longest header; the session that was stored last has its own."""
    sessions = Sessions(capacity)
    tlvs = b"\xe0\x0f\xf0" + bytes(4080)
    for number in range(2 * capacity):
        sessions.store(peer(number), number, LIFETIME, client(number), tlvs)
        assert sessions.find_tlvs(peer(number), number, LIFETIME) == tlvs
        assert sessions.tlvs <= 256 * capacity + 4096
        assert len(sessions) == sessions.tlvs // len(tlvs)
    for number in range(2 * capacity, 4 * capacity):
        sessions.store(peer(number), number, LIFETIME, client(number))
    assert len(sessions) == capacity
    assert sessions.tlvs == 0


def test_a_session_lives_from_its_last_use() -> None:
    sessions = Sessions(10)
    sessions.store(peer(1), 0, LIFETIME, client(1))
    for second in range(0, 200, 27):
        assert sessions.find(peer(1), second * SECOND, LIFETIME) == client(1)
    assert sessions.find(peer(1), 189 * SECOND + LIFETIME, LIFETIME) is None
    assert len(sessions) == 0


def test_the_least_recently_used_one_of_a_proxy_ends() -> None:
    sessions = Sessions(3)
    for i in range(3):
        sessions.store(peer(i), i, LIFETIME, client(i))
    assert sessions.find(peer(0), 10, LIFETIME) == client(0)
    sessions.store(peer(3), 11, LIFETIME, client(3))
    assert [sessions.find(peer(i), 12, LIFETIME) for i in range(4)] == [client(0), None, client(2), client(3)]


def test_the_proxy_with_most_sessions_loses_one() -> None:
    """One that opens session after session takes no place of another proxy."""
    sessions = Sessions(100)
    for i in range(10):
        sessions.store(peer(i, proxy=2), i, LIFETIME, client(i))
    for i in range(1000):
        sessions.store(peer(i), 100 + i, LIFETIME, client(i))
    assert all(sessions.find(peer(i, proxy=2), 2000, LIFETIME) for i in range(10))
    assert len(sessions) == 100


def test_expired_ones_end_first() -> None:
    sessions = Sessions(100)
    sessions.store(peer(0, proxy=2), 0, LIFETIME, client(0))
    for i in range(99):
        sessions.store(peer(i), LIFETIME, LIFETIME, client(i))
    sessions.store(peer(99), LIFETIME + 1, LIFETIME, client(99))
    assert sessions.find(peer(0), LIFETIME + 1, LIFETIME) == client(0)
    assert len(sessions) == 100


@pytest.mark.parametrize("capacity", [1, 2, 511, 1024, 10_240, 20_000])
def test_the_table_is_bounded(capacity: int) -> None:
    """A large one has parts, which share its capacity."""
    sessions = Sessions(capacity)
    for i in range(3 * capacity):
        sessions.store(peer(i % 60000, proxy=i // 60000), i, LIFETIME, client(i))
    assert len(sessions) <= capacity
    assert len(sessions) > 0.98 * capacity - 16


def test_random_use_of_one_proxy_is_that_of_an_lru() -> None:
    rng = random.Random(5)
    sessions = Sessions(50)
    model: OrderedDict[int, tuple[int, int]] = OrderedDict()
    now = 0
    for _ in range(20_000):
        now += rng.randrange(SECOND // 4)
        number = rng.randrange(100)
        held = model.pop(number, None)
        if rng.random() < 0.3:
            if held is None and len(model) == 50:
                model.popitem(last=False)
            value = rng.randrange(1000)
            model[number] = (value, now)
            sessions.store(peer(number), now, LIFETIME, client(value))
        else:
            if held is not None and now - held[1] < LIFETIME:
                model[number] = (held[0], now)
            found = sessions.find(peer(number), now, LIFETIME)
            assert found == (client(model[number][0]) if number in model else None)


@pytest.mark.parametrize("capacity", [0, LIMIT + 1])
def test_limits(capacity: int) -> None:
    with pytest.raises(ValueError, match=f"{capacity} sessions"):
        Sessions(capacity)
