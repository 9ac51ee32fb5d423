"""Threads for functions that take long: what has less to do is done first."""

from __future__ import annotations

import os
import threading

import pytest

from fastdns.control import Pool
from fastdns.control.sized import SizedPool
from fastdns.system.thread import hold_priority, release_priority
from tests.waiting import LIMIT, until


def test_the_smallest_is_first() -> None:
    pool = SizedPool("test", 1)
    go, begun = threading.Event(), threading.Event()
    order: list[int] = []

    def hold() -> None:
        begun.set()
        assert go.wait(LIMIT)

    first = pool.submit(100, hold)
    assert begun.wait(LIMIT)
    others = [pool.submit(size, lambda number=number: order.append(number)) for number, size in enumerate([5, 1, 3, 1])]  # type: ignore[misc]
    go.set()
    for future in [first, *others]:
        future.result(LIMIT)
    assert order == [1, 3, 2, 0]


def test_large_ones_leave_a_thread() -> None:
    pool = SizedPool("test", 3, large=10)
    go = threading.Event()
    running: list[int] = []
    large = [pool.submit(10 + number, lambda number=number: (running.append(number), go.wait(LIMIT))) for number in range(5)]  # type: ignore[misc]
    until(lambda: len(running) == 2)
    assert pool.submit(9, lambda: "small").result(LIMIT) == "small"
    assert running == [0, 1]
    go.set()
    for future in large:
        future.result(LIMIT)
    assert sorted(running) == [0, 1, 2, 3, 4]


def look() -> int:
    """The calling thread's niceness."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_what_a_start_waits_for_is_not_niced() -> None:
    """On a machine with busy threads, it would wait for minutes."""
    sized, pool = SizedPool("test", 1, niceness=19), Pool("test", 1)
    hold_priority("start")
    try:
        assert sized.submit(0, look).result(LIMIT) == pool.submit(look).result(LIMIT) == look()
        assert sized.submit(0, look).result(LIMIT) == pool.submit(look).result(LIMIT) == look()
    finally:
        release_priority("start")
    assert sized.submit(0, look).result(LIMIT) == pool.submit(look).result(LIMIT) == 19


def test_niceness_and_exceptions() -> None:
    assert SizedPool("test", 1, niceness=19).submit(0, look).result(LIMIT) == 19
    assert SizedPool("test", 1).submit(0, look).result(LIMIT) == look()
    pool = SizedPool("test", 1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(0, lambda: 1 // 0).result(LIMIT)
    assert pool.submit(0, lambda: 7).result(LIMIT) == 7
