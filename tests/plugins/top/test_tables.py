"""The tables of *top* by themselves: their bounds of error on streams whose truth is known, and the spans that windows are made of."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from fastdns.plugins.top import windows
from fastdns.plugins.top._tables import TableSet
from fastdns.plugins.top.windows import TABLES, Windows

ROWS = 256
#: Octets of a table set, from the struct in _summary.pxd: rows of 152 octets, buckets, heap.
SET_OCTETS = 10 * (ROWS * 152 + 512 * 2 + ROWS * 2 + 16)


def zipf(items: int, seed: int, exponent: float = 1.0, keys: int = 100_000) -> list[int]:
    """A stream of keys whose frequency falls with their number."""
    weights = list(itertools.accumulate(1 / (key + 1) ** exponent for key in range(keys)))
    return random.Random(seed).choices(range(keys), cum_weights=weights, k=items)


def rows(found: TableSet) -> tuple[int, int, dict[bytes, tuple[int, int]]]:
    total, least, some = found.read()[0]
    return total, least, {key: (count, error) for _, key, _, count, error in some}


def check(found: TableSet, truth: Counter[int], factor: int = 1) -> None:
    """No count is too low, no count less its error too high, and all that is frequent is there."""
    total, least, some = rows(found)
    assert total == truth.total()
    assert least <= factor * total / ROWS
    for key, (count, error) in some.items():
        true = truth[int(key)]
        assert count - error <= true <= count
        assert error <= factor * total / ROWS
    frequent = {str(key).encode() for key, true in truth.items() if true > least}
    assert frequent <= some.keys()
    assert {str(key).encode() for key, true in truth.items() if true > factor * total / ROWS} <= frequent


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.3])
def test_a_zipf_stream(exponent: float) -> None:
    stream = zipf(400_000, 7, exponent)
    found = TableSet()
    for key in stream:
        found.add(0, str(key).encode(), 1)
    check(found, Counter(stream))


def test_one_key_each_pushes_nothing_frequent_out() -> None:
    """What an attacker does who invents a name for each query: half of the stream."""
    stream = zipf(100_000, 3)
    truth = Counter(stream)
    found = TableSet()
    for number, key in enumerate(stream):
        found.add(0, str(key).encode(), 1)
        found.add(0, str(1_000_000 + number).encode(), 1)
        truth[1_000_000 + number] += 1
    check(found, truth)


def test_sets_that_are_merged() -> None:
    streams = [zipf(100_000, seed) for seed in range(4)]
    merged = TableSet()
    for stream in streams:
        for at in range(0, len(stream), 1000):  # as often as it is read
            found = TableSet()
            for key in stream[at : at + 1000]:
                found.add(0, str(key).encode(), 1)
            merged.merge(found)
    check(merged, Counter(itertools.chain(*streams)), factor=2)


def test_a_set_that_is_cleared_is_as_new() -> None:
    found = TableSet()
    for key in zipf(10_000, 1):
        found.add(0, str(key).encode(), 1)
    found.clear()
    assert rows(found) == (0, 0, {})
    found.add(0, b"1", 5)
    assert rows(found) == (5, 0, {b"1": (5, 0)})


def test_keys_have_their_bounds() -> None:
    found = TableSet()
    found.add(9, b"x" * 119, 1)
    with pytest.raises(ValueError, match="120 octets"):
        found.add(0, b"x" * 120, 1)
    with pytest.raises(ValueError, match="table 10"):
        found.add(10, b"x", 1)


class Clock:
    """Time as the windows see it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(windows, "time", clock)
    return clock


@pytest.fixture
def remembered(clock: Clock):
    made = Windows()
    made.acquire()
    made.begin()
    yield made
    made.release()


def count(remembered: Windows, key: bytes, times: int = 1) -> None:
    remembered._spans[0].open.add(0, key, times)


def totals(remembered: Windows) -> dict[int, int]:
    return {window: remembered.read(window)[2]["names"].total for window in windows.WINDOWS}


def test_windows_hold_what_they_say(clock: Clock, remembered: Windows) -> None:
    """A count each second: a window has at most its seconds of them, and at least those less the longest of its spans."""
    for second in range(1, 3 * 3600):
        clock.now += 1
        count(remembered, b"x")
        if second % 15 == 0:
            remembered.turn()
        if second % 97 == 0:
            for window, (span, kept) in windows.WINDOWS.items():
                seconds, _, tables = remembered.read(window)
                total = tables["names"].total
                assert abs(total - seconds) <= 1
                assert total <= window
                assert total >= min(second, span * kept)


def test_what_is_over_is_forgotten(clock: Clock, remembered: Windows) -> None:
    count(remembered, b"x", 1000)
    assert totals(remembered) == {60: 1000, 600: 1000, 3600: 1000}
    for wanted in ({60: 0, 600: 1000, 3600: 1000}, {60: 0, 600: 0, 3600: 1000}, {60: 0, 600: 0, 3600: 0}):
        until = clock.now + {600: 60, 3600: 600}.get(next((window for window in (600, 3600) if wanted[window]), 0), 3600)
        while clock.now < until:
            clock.now += 15
            remembered.turn()
        assert totals(remembered) == wanted


def test_a_key_that_some_spans_have_not(clock: Clock, remembered: Windows) -> None:
    """It may have been there below the least frequent row: count and error say so."""
    truth: Counter[int] = Counter()
    for part in range(3):
        stream = zipf(20_000, part)
        truth += Counter(stream)
        for key in stream:
            count(remembered, str(key).encode())
        clock.now += 15
        remembered.turn()
    table = remembered.read(60)[2]["names"]
    assert table.total == truth.total()
    for key, _, counted, error in table.rows:
        assert counted - error <= truth[int(key)] <= counted
    found = {int(key) for key, *_ in table.rows}
    assert {key for key, true in truth.items() if true > table.error} <= found
    certain = [counted - error for _, _, counted, error in table.rows]
    assert certain == sorted(certain, reverse=True)


def test_memory_is_eight_megabytes_at_most() -> None:
    """All spans, the spare set and that of one worker."""
    sets = sum(kept + 1 for _, kept in windows.WINDOWS.values()) + 2
    assert sets * SET_OCTETS <= 8_000_000
    assert len(TABLES) == 10


def test_only_the_last_release_ends_it(remembered: Windows) -> None:
    remembered.acquire()
    assert not remembered.release()
    assert totals(remembered)[60] == 0
