"""TCP streams put together out of captured segments: any order, any pieces, and what it costs."""

from __future__ import annotations

import random

import pytest

from fastdns.comparison import streams
from fastdns.comparison.streams import SEGMENT_OCTETS, Streams

KEY = (b"a", 1, b"b", 53)


def message(number: int) -> bytes:
    body = number.to_bytes(4) * (1 + number % 7)
    return len(body).to_bytes(2) + body


def waiting(found: Streams) -> int:
    """What `kept` has to be."""
    return sum(len(one.octets) + sum(map(len, one.ahead.values())) + SEGMENT_OCTETS * len(one.ahead) for one in found.by_key.values())


@pytest.mark.parametrize("seed", range(20))
def test_segments_in_any_order(seed: int) -> None:
    """Pieces that overlap, that come twice, and numbers that begin again at 0: each message is there once, in its order."""
    chance = random.Random(seed)
    octets = b"".join(map(message, range(200)))
    first = chance.choice((1, 0xFFFFFFFF - 1500, 0x7FFFFF00))
    pieces: list[tuple[int, bytes]] = []
    at = 0
    while at < len(octets):
        size = chance.randrange(1, 40)
        pieces.append((at, octets[at : at + size + chance.randrange(3)]))
        at += size
    pieces += chance.choices(pieces, k=50)
    for start in range(0, len(pieces), 30):
        part = pieces[start : start + 30]
        chance.shuffle(part)
        pieces[start : start + 30] = part
    found = Streams()
    found.open(KEY, first)
    got = []
    for at, data in pieces:
        got += found.take(KEY, (first + at) & 0xFFFFFFFF, data)
        assert found.kept == waiting(found)
    assert got == [message(number)[2:] for number in range(200)]
    found.close(KEY)
    assert found.kept == 0


def test_a_segment_costs_little_whatever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes first, an octet a segment: positions are compared a logarithm of times for each."""

    class Position(int):
        compared = 0

        def __lt__(self, other: int) -> bool:
            Position.compared += 1
            return int(self) < int(other)

    push = streams.heapq.heappush
    monkeypatch.setattr(streams.heapq, "heappush", lambda heap, at: push(heap, Position(at)))
    count = 4000
    octets = (count - 2).to_bytes(2) + bytes(count - 2)
    found = Streams()
    found.open(KEY, 1000)
    for at in reversed(range(count)):
        messages = list(found.take(KEY, 1000 + at, octets[at : at + 1]))
    assert messages == [octets[2:]]
    assert count < Position.compared < 40 * count


def test_memory_of_one_octet_segments_is_bounded() -> None:
    """What Python adds to each counts."""
    found = Streams()
    found.open(KEY, 1000)
    most = 0
    for number in range(3 * streams.AHEAD // SEGMENT_OCTETS):
        list(found.take(KEY, 1002 + 2 * number, b"x"))
        most = max(most, found.kept)
        assert all(len(one.ahead) <= streams.AHEAD // SEGMENT_OCTETS for one in found.by_key.values())
    assert streams.AHEAD // 2 < most <= streams.AHEAD


def test_many_messages_in_one_segment_are_taken_out_at_once() -> None:
    found = Streams()
    assert list(found.take(KEY, 1, b"\0\1x" * 20000 + b"\0")) == [b"x"] * 20000
    assert found.kept == 1
