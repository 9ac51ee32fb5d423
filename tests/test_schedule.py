"""Functions called from time to time, by one niced thread."""

import os
import threading
import time

import pytest

from fastdns import schedule


def test_calls_come_at_their_times_until_cancelled() -> None:
    calls: list[str] = []
    quick = schedule.every(0.02, lambda: calls.append("quick"))
    slow = schedule.every(0.3, lambda: calls.append("slow"))
    time.sleep(0.25)
    assert calls.count("quick") >= 4
    assert "slow" not in calls
    time.sleep(0.25)
    assert calls.count("slow") == 1
    quick.cancel()
    slow.cancel()
    time.sleep(0.05)
    calls.clear()
    time.sleep(0.15)
    assert calls == []


def test_a_new_task_is_not_held_up_by_a_later_one() -> None:
    late = schedule.every(60, lambda: None)
    done = threading.Event()
    task = schedule.every(0.01, done.set)
    assert done.wait(5)
    task.cancel()
    late.cancel()


def test_a_function_that_fails_is_called_again() -> None:
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise RuntimeError("out of order")

    task = schedule.every(0.01, fail)
    assert calls.acquire(timeout=5)
    assert calls.acquire(timeout=5)
    task.cancel()


def test_the_thread_is_niced_and_nobody_else() -> None:
    found: list[int] = []
    done = threading.Event()

    def look() -> None:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        done.set()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    task = schedule.every(0.01, look)
    assert done.wait(5)
    task.cancel()
    assert found[0] == schedule.NICENESS
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_times_are_checked() -> None:
    with pytest.raises(ValueError, match="every 0 seconds"):
        schedule.every(0, print)
