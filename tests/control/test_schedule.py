"""Functions called from time to time, by niced threads."""

import itertools
import os
import threading
import time

import pytest

from fastdns.control import tasks as control
from tests.waiting import LIMIT, until


def test_calls_come_at_their_times_until_cancelled() -> None:
    """Never early; how late they are depends on what else the machine does."""
    quick: list[float] = []
    slow: list[float] = []
    start = time.monotonic()
    tasks = [control.every(0.02, lambda: quick.append(time.monotonic())), control.every(0.3, lambda: slow.append(time.monotonic()))]
    until(lambda: len(quick) >= 5 and len(slow) >= 2)
    for times, seconds in ((quick, 0.02), (slow, 0.3)):
        assert all(later - earlier >= seconds for earlier, later in itertools.pairwise([start, *times]))
    for task in tasks:
        task.cancel()
    others: list[None] = []
    other = control.every(0.02, lambda: others.append(None))
    until(lambda: others)  # what was under way has ended
    calls = len(quick)
    until(lambda: len(others) >= 10)
    other.cancel()
    assert len(quick) == calls


def test_a_new_task_is_not_held_up_by_a_later_one() -> None:
    late = control.every(60, lambda: None)
    done = threading.Event()
    task = control.every(0.01, done.set)
    assert done.wait(LIMIT)
    task.cancel()
    late.cancel()


def test_a_function_that_fails_is_called_again() -> None:
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise RuntimeError("out of order")

    task = control.every(0.01, fail)
    assert calls.acquire(timeout=LIMIT)
    assert calls.acquire(timeout=LIMIT)
    task.cancel()


def test_threads_of_the_pool_are_niced_and_nobody_else() -> None:
    found: list[int] = []
    done = threading.Event()

    def look() -> None:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        done.set()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    task = control.every(0.01, look)
    assert done.wait(LIMIT)
    task.cancel()
    assert found[0] == control.POOL_NICENESS
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_times_are_checked() -> None:
    with pytest.raises(ValueError, match="every 0 seconds"):
        control.every(0, print)
