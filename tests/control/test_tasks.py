"""The thread with an event loop: tasks, timers, what blocks, its priority and its end."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from fastdns.control import Pool, Signal, Timer, readable, sleep, writable
from fastdns.control import tasks as control
from fastdns.control.eventloop import EventLoop, TaskGroup
from fastdns.system.thread import lower_priority, priority_is_held
from tests.waiting import LIMIT, until


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is logged."""
    from fastdns.telemetry import log_line

    found: list[str] = []
    monkeypatch.setattr(log_line, "put", lambda *line: found.append(log_line.compose(*line).decode()))
    return found


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[EventLoop]:
    made = EventLoop("test", request.param, control.NICENESS)
    made.start()
    yield made
    assert made.stop()
    assert not made.tasks


async def forever() -> None:
    await sleep(None)


def priority(loop: EventLoop) -> int:
    return loop.submit(_priority()).result(LIMIT)


async def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


# ---- tasks ----


def test_a_cancelled_task_ends_where_it_waits(loop: EventLoop) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def run() -> None:
        begun.set()
        try:
            await sleep(None)
        finally:
            ended.set()

    task = loop.spawn(run())
    assert begun.wait(LIMIT)
    task.cancel()
    assert ended.wait(LIMIT)
    until(lambda: task.done and not loop.tasks)
    task.cancel()


def test_a_task_cancelled_before_it_begins_never_does(loop: EventLoop) -> None:
    calls: list[None] = []
    ended: list[object] = []
    done = threading.Event()

    async def run() -> None:
        calls.append(None)

    def both() -> None:
        loop.spawn(run(), ended=ended.append).cancel()
        loop.call_soon(done.set)

    loop.call_soon(both)
    assert done.wait(LIMIT)
    until(lambda: ended)
    assert not calls


def test_an_exception_is_logged_with_the_tasks_name_and_ends_nothing_else(loop: EventLoop, lines: list[str]) -> None:
    async def fail() -> None:
        raise ValueError("out of order")

    loop.spawn(fail(), "the watch of services")
    until(lambda: lines)
    assert lines == ["[ERROR] the watch of services ended unexpectedly: ValueError('out of order')"]
    loop.call_soon(lambda: 1 // 0)
    until(lambda: len(lines) == 2)
    assert "ZeroDivisionError" in lines[1]
    loop.call_soon(_leave)
    until(lambda: len(lines) == 3)
    assert "SystemExit" in lines[2]
    done = threading.Event()
    loop.call_soon(done.set)
    assert done.wait(LIMIT)


def _leave() -> None:
    raise SystemExit(3)


def test_submit_gives_the_result_or_the_exception(loop: EventLoop, lines: list[str]) -> None:
    async def divide(number: int) -> float:
        await asyncio.sleep(0)
        return 6 / number

    assert loop.submit(divide(3)).result(LIMIT) == 2
    with pytest.raises(ZeroDivisionError):
        loop.submit(divide(0)).result(LIMIT)
    assert not lines


def test_tasks_of_a_group_end_together_and_alone(loop: EventLoop) -> None:
    one, other = TaskGroup(loop), TaskGroup(loop)
    order: list[str] = []

    async def run() -> None:
        try:
            await sleep(None)
        finally:
            order.append("task")

    tasks = [one.spawn(run()) for _ in range(3)]
    stays = other.spawn(forever())
    assert stays is not None
    assert one.stop(lambda: order.append("last"))
    assert order == ["last", "task", "task", "task"]
    assert all(task is not None and task.done for task in tasks)
    assert one.spawn(forever()) is None
    assert not stays.done
    assert one.stop()
    assert TaskGroup(loop).stop()
    assert other.stop()


def test_a_group_may_be_stopped_on_the_loops_thread(loop: EventLoop) -> None:
    group = TaskGroup(loop)
    task = group.spawn(forever())
    assert task is not None
    loop.call_soon(group.stop)
    until(lambda: task.done)


def test_a_group_whose_task_does_not_end_is_not_waited_for_longer(loop: EventLoop) -> None:
    group, go = TaskGroup(loop), Signal()

    async def stubborn() -> None:
        try:
            await sleep(None)
        finally:
            await sleep(None, go)

    group.spawn(stubborn())
    assert not group.stop(seconds=0.05)
    loop.call_soon(go.wake)
    until(lambda: not loop.tasks)


# ---- the end ----


@pytest.mark.parametrize("factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_stopping_ends_pending_tasks_and_the_thread(factory: Callable[[], asyncio.AbstractEventLoop], lines: list[str]) -> None:
    loop = EventLoop("test", factory)
    loop.start()
    cleaned = threading.Event()

    async def run() -> None:
        try:
            await sleep(None)
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    task = loop.spawn(run())
    timer = Timer(loop, Pool("test", 1), 0.001, lambda: None, True)
    assert loop.stop()
    assert task.done
    assert cleaned.is_set()
    assert loop.thread is not None
    assert not loop.thread.is_alive()
    assert loop.loop.is_closed()
    assert loop.stop()
    assert not loop.call_soon(print)
    assert loop.spawn(forever()).done
    timer.cancel()
    assert not lines


def test_stopping_reports_a_task_that_does_not_end() -> None:
    loop, go = EventLoop("test"), Signal()
    loop.start()

    async def stubborn() -> None:
        try:
            await sleep(None)
        finally:
            await sleep(None, go)

    task = loop.spawn(stubborn())
    until(lambda: loop.tasks)
    assert not loop.stop(0.05)
    assert not task.done
    loop.loop.call_soon_threadsafe(go.wake)
    assert loop.stop(LIMIT)


def test_a_loop_that_never_ran_can_be_stopped() -> None:
    loop = EventLoop("test")
    assert loop.stop()
    loop.start()
    assert loop.thread is None


def test_the_control_sides_loop_begins_anew_after_its_end() -> None:
    former = control.loop()
    assert control.stop()
    assert former.loop.is_closed()
    assert control.stop()
    done = threading.Event()
    control.call_soon(done.set)
    assert done.wait(LIMIT)
    assert control.loop() is not former


def test_a_held_loop_keeps_what_it_is_given() -> None:
    assert control.stop()
    done: list[int] = []
    control.hold()
    try:
        control.call_soon(done.append, 1)
        timer = control.after(0, lambda: done.append(2))
        assert control.loop().thread is None
    finally:
        control.begin()
    until(lambda: sorted(done) == [1, 2], "what was kept")
    assert not timer.cancelled


def test_who_waits_starts_a_held_loop() -> None:
    assert control.stop()
    control.hold()
    try:
        assert control.loop().submit(_priority()).result(LIMIT) == os.getpriority(os.PRIO_PROCESS, control.loop().native_id)
        assert control.stop()
        done, holder = threading.Event(), object()
        control.call_soon(done.set)
        control.loop(urgent=holder).end_urgent(holder)
        assert done.wait(LIMIT)
    finally:
        control.begin()


# ---- what coroutines wait for ----


def test_descriptors(loop: EventLoop) -> None:
    here, there = socket.socketpair()
    here.setblocking(False)

    async def run() -> list[bool]:
        found = [await readable(here.fileno(), 0.01), await writable(here.fileno(), LIMIT)]
        there.send(b"x")
        found += [await readable(here.fileno(), LIMIT), await readable(here.fileno())]
        here.recv(1)
        return [*found, await readable(here.fileno(), 0)]

    with here, there:
        assert loop.submit(run()).result(LIMIT) == [False, True, True, True, False]


def test_a_cancelled_wait_leaves_its_descriptor(loop: EventLoop) -> None:
    here, there = socket.socketpair()
    with here, there:
        task = loop.spawn(readable(here.fileno(), 60))
        until(lambda: loop.tasks)
        task.cancel()
        until(lambda: task.done)

        async def again() -> bool:
            there.send(b"x")
            return await readable(here.fileno(), LIMIT)

        assert loop.submit(again()).result(LIMIT)


def test_signals_wake_who_sleeps_now(loop: EventLoop) -> None:
    async def run() -> list[bool]:
        signal = Signal()
        signal.wake()  # nobody sleeps: it is not remembered
        found = [await sleep(0.01, signal)]
        sleepers = [asyncio.ensure_future(sleep(seconds, signal)) for seconds in (None, 60)]
        await asyncio.sleep(0)
        signal.wake()
        return found + [await one for one in sleepers]

    assert loop.submit(run()).result(LIMIT) == [False, True, True]


# ---- what blocks ----


def test_a_function_that_blocks_holds_up_no_timer() -> None:
    go, calls = threading.Event(), threading.Semaphore(0)
    stuck = [control.every(0.001, lambda: go.wait(LIMIT)) for _ in range(control.POOL_THREADS - 1)]
    quick = control.every(0.001, calls.release)
    try:
        for _ in range(20):
            assert calls.acquire(timeout=LIMIT)
    finally:
        go.set()
        for timer in (*stuck, quick):
            timer.cancel()


def test_a_function_that_blocks_holds_up_no_coroutine() -> None:
    go = threading.Event()

    async def run() -> tuple[bool, str]:
        waiting = asyncio.ensure_future(control.blocking(go.wait, LIMIT))
        await asyncio.sleep(0.01)
        early = waiting.done()
        go.set()
        await waiting
        return early, await control.blocking(lambda: threading.current_thread().name)

    early, name = control.loop().submit(run()).result(LIMIT)
    assert not early
    assert name.startswith("control-")


def test_a_timer_cancelled_while_it_waits_for_a_thread_does_not_call(loop: EventLoop) -> None:
    pool, go, calls = Pool("test", 1), threading.Event(), []
    busy = pool.submit(go.wait, LIMIT)
    timer = Timer(loop, pool, 0.0, lambda: calls.append(None), False)
    until(lambda: pool._queue.qsize())
    timer.cancel()
    go.set()
    assert busy.result(LIMIT)
    pool.submit(int).result(LIMIT)
    assert not calls


def test_once_is_once() -> None:
    calls: list[None] = []
    done = threading.Event()
    control.after(0, lambda: calls.append(None))
    last = control.every(0.02, lambda: calls and done.set())
    assert done.wait(LIMIT)
    last.cancel()
    assert len(calls) == 1


def test_a_pool_has_no_more_threads_than_it_needs() -> None:
    pool, go = Pool("few", 3), threading.Event()

    def names() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("few-")}

    pool.submit(int).result(LIMIT)
    until(lambda: pool._left == 0)
    pool.submit(int).result(LIMIT)
    assert names() == {"few-1"}
    futures = [pool.submit(go.wait, LIMIT) for _ in range(5)]
    assert names() == {"few-1", "few-2", "few-3"}
    go.set()
    assert all(future.result(LIMIT) for future in futures)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(LIMIT)


# ---- priority ----


def test_the_thread_is_niced_while_nothing_is_urgent(loop: EventLoop) -> None:
    """A thread cannot raise its priority, so another one goes on, with all that waited."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    niced = max(control.NICENESS, before)
    until(lambda: loop.niced)
    assert priority(loop) == niced
    go, woken = Signal(), threading.Event()

    async def wait() -> None:
        await sleep(None, go)
        woken.set()

    loop.spawn(wait())
    first, second = object(), object()
    loop.begin_urgent(first)
    loop.begin_urgent(second)
    until(lambda: priority(loop) == before)
    loop.end_urgent(first)
    assert priority(loop) == before
    assert priority_is_held()
    loop.end_urgent(second)
    assert not priority_is_held()
    loop.end_urgent(second)
    until(lambda: loop.niced)
    assert priority(loop) == niced
    loop.call_soon(go.wake)
    assert woken.wait(LIMIT)
    assert sum(thread.name == "test" for thread in threading.enumerate()) == 1
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_what_is_urgent_from_the_start_is_never_niced_before() -> None:
    loop = EventLoop("test", niceness=control.NICENESS)
    loop.begin_urgent("start")
    loop.start()
    assert priority(loop) == os.getpriority(os.PRIO_PROCESS, 0)
    assert not loop.niced
    assert priority_is_held()
    assert loop.stop()
    assert not priority_is_held()


def test_priority_may_change_often(loop: EventLoop) -> None:
    for _ in range(50):
        loop.begin_urgent("often")
        loop.end_urgent("often")
    until(lambda: loop.niced)
    assert priority(loop) == max(control.NICENESS, os.getpriority(os.PRIO_PROCESS, 0))


def test_a_process_that_is_nicer_stays_so() -> None:
    """The loop must not come before the workers of a server that runs niced."""
    found: list[int] = []

    def run() -> None:
        lower_priority(control.NICENESS + 5)
        lower_priority(control.NICENESS)
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LIMIT)
    assert found == [max(control.NICENESS + 5, os.getpriority(os.PRIO_PROCESS, 0))]
