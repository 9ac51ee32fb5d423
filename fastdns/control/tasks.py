"""The control side's event loop: one thread on which all coroutines that are not on a query's way run, and a few threads for what blocks.

    task = control.spawn(watch())                # a coroutine, from any thread; task.cancel()
    control.call_soon(function)                  # a short function on the loop's thread
    timer = control.every(5.0, reload_file)      # a function that may block, every 5 s, on a thread of the pool; timer.cancel()
    found = await control.blocking(read_file)    # in a coroutine: a function that blocks

The loop is asyncio's own. A server of two workers with the usual Corefile of a cluster and 300 services has 33.9 MB resident (18.7 MB of them
its own) with asyncio, and 35.9 MB (19.3 MB) with uvloop; a loop over epoll without either had 30.0 MB (15.3 MB). Nearly all of it is code and
modules: watches read a raw socket, through `readable`, into one buffer that they share, so that no connection has buffers of its own, and a
loop that hears a few events a second gains nothing from uvloop. uvloop is for loops with client traffic.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastdns.control.eventloop import STOP_SECONDS, EventLoop, Task, lower_priority
from fastdns.telemetry.log import Log

__all__ = [
    "NICENESS",
    "POOL_NICENESS",
    "Pool",
    "Signal",
    "Timer",
    "after",
    "blocking",
    "call_soon",
    "every",
    "loop",
    "readable",
    "sleep",
    "spawn",
    "stop",
    "writable",
]

Result = TypeVar("Result")

#: Of the loop's thread: workers preempt it at once. On a machine with four busy threads a CPU, changes of a cluster were answered within 11 ms
#: (p99) at 10 as at 0, but within 115 ms at 19.
NICENESS = 10
#: Of threads that run functions that block: files read again, zones transferred.
POOL_NICENESS = 19
#: Threads of the control side's pool. A timer's function uses one of them at a time.
POOL_THREADS = 4

log = Log()

_lock = threading.Lock()
_loop: EventLoop | None = None


def loop(urgent: object = None) -> EventLoop:
    """The control side's loop, which runs from the first call on; at full priority until ``urgent``, if given, is handed to its `end_urgent`."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = EventLoop("control-loop", niceness=NICENESS)
        if urgent is not None:
            _loop.begin_urgent(urgent)
        _loop.start()
        return _loop


def stop(seconds: float = STOP_SECONDS) -> bool:
    """End the loop, if it runs, with all its tasks and timers; a later call of `loop` begins another one. False when tasks did not end in time."""
    global _loop
    with _lock:
        ending, _loop = _loop, None
    return ending is None or ending.stop(seconds)


def spawn(coroutine: Coroutine[Any, Any, object], name: str = "") -> Task:
    """Begin a coroutine on the control side's loop."""
    return loop().spawn(coroutine, name)


def call_soon(function: Callable[..., object], *args: Any) -> None:
    """Call a short function on the thread of the control side's loop."""
    loop().call_soon(function, *args)


async def blocking(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function that blocks, on a thread of the control side's pool. A coroutine that is cancelled does not wait for it."""
    return await asyncio.get_running_loop().run_in_executor(_pool, function, *args)


def every(seconds: float, function: Callable[[], object]) -> Timer:
    """Call a function every ``seconds`` (above 0) after the end of the call before, first after that time. ValueError for 0 and less."""
    if seconds <= 0:
        raise ValueError(f"every {seconds} seconds")
    return Timer(loop(), _pool, seconds, function, True)


def after(seconds: float, function: Callable[[], object]) -> Timer:
    """Call a function once, after so many seconds."""
    return Timer(loop(), _pool, max(seconds, 0.0), function, False)


# ---- what coroutines wait for ----


class Signal:
    """Wakes the coroutines that sleep on it. Only for the loop's own thread."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: set[asyncio.Future[bool]] = set()

    def wake(self) -> None:
        """Let all sleepers go on."""
        for future in self.waiting:
            _settle(future, True)


async def sleep(seconds: float | None, signal: Signal | None = None) -> bool:
    """Sleep; None is for ever. True when the signal ended it early."""
    running = asyncio.get_running_loop()
    future: asyncio.Future[bool] = running.create_future()
    timer = None if seconds is None else running.call_later(max(seconds, 0.0), _settle, future, False)
    if signal is not None:
        signal.waiting.add(future)
    try:
        return await future
    finally:
        if signal is not None:
            signal.waiting.discard(future)
        if timer is not None:
            timer.cancel()


async def readable(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be read; False when that took longer than so many seconds."""
    running = asyncio.get_running_loop()
    return await _ready(running, fd, seconds, running.add_reader, running.remove_reader)


async def writable(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be written; False when that took longer than so many seconds."""
    running = asyncio.get_running_loop()
    return await _ready(running, fd, seconds, running.add_writer, running.remove_writer)


async def _ready(running: asyncio.AbstractEventLoop, fd: int, seconds: float | None, add: Callable[..., object], remove: Callable[[int], object]) -> bool:
    future: asyncio.Future[bool] = running.create_future()
    timer = None if seconds is None else running.call_later(max(seconds, 0.0), _settle, future, False)

    def ready() -> None:
        remove(fd)  # here, for else it is reported once more before the coroutine goes on
        _settle(future, True)

    add(fd, ready)
    try:
        return await future
    finally:
        remove(fd)
        if timer is not None:
            timer.cancel()


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


# ---- timers and their threads ----


class Timer:
    """A function that is called after a time, on a thread of the pool; once, or again and again until `cancel`. What it raises is logged."""

    __slots__ = ("_handle", "_loop", "_pool", "cancelled", "function", "repeated", "seconds")

    def __init__(self, loop: EventLoop, pool: Pool, seconds: float, function: Callable[[], object], repeated: bool) -> None:
        self.seconds = seconds
        self.function = function
        self.repeated = repeated
        self.cancelled = False
        self._loop = loop
        self._pool = pool
        self._handle: asyncio.TimerHandle | None = None
        loop.call_soon(self._arm)

    def cancel(self) -> None:
        """No further calls; one that is under way goes on. From any thread."""
        self.cancelled = True
        self._loop.call_soon(self._disarm)

    def _arm(self) -> None:
        if not self.cancelled:
            self._handle = self._loop.loop.call_later(self.seconds, self._fire)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        try:
            self._pool.submit(self._call)
        except RuntimeError as error:  # no thread can be started
            log.error(f"{_name(self.function)}: {error}")
            self._arm()

    def _call(self) -> None:
        """On a thread of the pool."""
        if self.cancelled:
            return
        try:
            self.function()
        except Exception as error:
            log.error(f"{_name(self.function)}: {error}")
        finally:
            if self.repeated:
                self._loop.call_soon(self._arm)


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", str(function))


class Pool(concurrent.futures.Executor):
    """Niced daemon threads for functions that block: as many as there are functions to run, at most ``most``.

    The standard library's executor joins its threads when the interpreter ends; a function that hangs must not hold up the end.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._threads = 0
        #: Functions that have not ended.
        self._left = 0

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Result]:
        """Run a function as soon as a thread is free. RuntimeError when there is none, and none can be started."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        with self._lock:
            if self._left >= self._threads and self._threads < self.most:
                try:
                    threading.Thread(target=self._run, name=f"{self.name}-{self._threads + 1}", daemon=True).start()
                    self._threads += 1
                except RuntimeError:
                    if not self._threads:
                        raise
            self._left += 1
        self._queue.put((future, lambda: function(*args, **kwargs)))
        return future

    def _run(self) -> None:
        lower_priority(POOL_NICENESS)
        while True:
            future, function = self._queue.get()
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(function())
            except BaseException as error:  # whoever waits gets it
                future.set_exception(error)
            del future, function  # what they hold is not kept until the next one
            with self._lock:
                self._left -= 1


_pool = Pool("control", POOL_THREADS)
