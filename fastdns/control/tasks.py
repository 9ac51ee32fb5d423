"""The control plane's event loop: one thread for all coroutines that do not answer queries, and a small pool of threads for functions that block.

    task = control.spawn(watch())                # a coroutine, from any thread; task.cancel()
    control.call_soon(function)                  # a short function on the loop's thread
    timer = control.every(5.0, reload_file)      # a function that may block, every 5 s, on a thread of the pool; timer.cancel()
    found = await control.blocking(read_file)    # in a coroutine: a function that blocks

The loop is asyncio's own. A server of two workers with the usual Corefile of a cluster and 300 services has 33.9 MB resident (18.7 MB of them
its own) with asyncio, and 35.9 MB (19.3 MB) with uvloop; a loop over epoll without either had 30.0 MB (15.3 MB). Nearly all of it is code and
modules: watches read a socket, through `readable`, into one shared buffer, so no connection has buffers of its own, and a loop with a few events
per second gains nothing from uvloop. uvloop is for loops with client traffic.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from fastdns.control.eventloop import AGAIN, STOP_SECONDS, EventLoop, Task, endless
from fastdns.system.thread import lower_priority, priority_is_held
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

__all__ = [
    "NICENESS",
    "POOL_NICENESS",
    "Pool",
    "Signal",
    "Timer",
    "after",
    "begin",
    "blocking",
    "call_soon",
    "every",
    "hold",
    "keep",
    "loop",
    "readable",
    "sleep",
    "spawn",
    "stop",
    "writable",
]

Result = TypeVar("Result")

#: Niceness of the loop's thread: workers preempt it at once. On a machine with four busy threads per CPU, changes of a cluster were in answers within
#: 11 ms (p99) at niceness 10 and 0, and within 115 ms at 19.
NICENESS = 10
#: Niceness of the pool's threads, which run functions that block: reading files, zone transfers.
POOL_NICENESS = 19
#: Threads of the pool. A timer's function uses one of them at a time.
POOL_THREADS = 4

log = Log()

_lock = threading.Lock()
_loop: EventLoop | None = None
_held = False


def loop(urgent: object = None) -> EventLoop:
    """The control plane's loop; the first call starts it. With ``urgent`` it runs at the process's priority until `end_urgent` of this holder.

    Between `hold` and `begin` a call with ``urgent`` starts it, and one of its methods that waits; until then it keeps what it is to do.
    """
    global _loop
    with _lock:
        if _loop is None:
            _loop = EventLoop("control-loop", niceness=NICENESS)
        if urgent is not None:
            _loop.begin_urgent(urgent)
        if urgent is not None or not _held:
            _loop.start()
        return _loop


def hold() -> None:
    """A server starts: what it does not wait for is done once it serves (`begin`)."""
    global _held
    with _lock:
        _held = True


def begin() -> None:
    """Undo `hold`, and start the loop if it has anything to do."""
    global _held
    with _lock:
        _held = False
        if _loop is not None:
            _loop.start()


def stop(seconds: float = STOP_SECONDS) -> bool:
    """End the loop with all its tasks and timers; a later call of `loop` starts another one. False when tasks did not end in time."""
    global _loop
    with _lock:
        ending, _loop = _loop, None
    return ending is None or ending.stop(seconds)


def spawn(coroutine: Coroutine[Any, Any, object], name: str = "") -> Task:
    """Schedule a coroutine on the control plane's loop."""
    return loop().spawn(coroutine, name)


def keep(function: Callable[[], Coroutine[Any, Any, object]], name: str) -> Task:
    """Schedule a coroutine that is not to end: after an exception that it did not foresee it begins again."""
    return spawn(endless(function, name), name)


def call_soon(function: Callable[..., object], *args: Any) -> None:
    """Call a short function on the thread of the control plane's loop."""
    loop().call_soon(function, *args)


async def blocking(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function that blocks, on a thread of the pool. A coroutine that is cancelled does not wait for it."""
    return await _pool.run(function, *args)


def every(seconds: float, function: Callable[[], object], pool: Pool | None = None) -> Timer:
    """Call a function ``seconds`` from now, and again ``seconds`` after the end of each call. Raises ValueError for 0 and less.

    ``pool`` has the thread for a function that may hang, in place of the pool that all timers share.
    """
    if seconds <= 0:
        raise ValueError(f"every {seconds} seconds")
    return Timer(loop(), pool or _pool, seconds, function, True)


def after(seconds: float, function: Callable[[], object]) -> Timer:
    """Call a function once, after this many seconds."""
    return Timer(loop(), _pool, max(seconds, 0.0), function, False)


# ---- waiting in coroutines ----


class Signal:
    """Wakes coroutines. Used on the loop's thread only."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: set[asyncio.Future[bool]] = set()

    def wake(self) -> None:
        """Wake all coroutines that are in `sleep`."""
        for future in self.waiting:
            _set_result(future, True)


async def sleep(seconds: float | None, signal: Signal | None = None) -> bool:
    """Sleep for this many seconds (None: no limit). True when the signal ended the sleep."""
    from asyncio import get_running_loop

    running = get_running_loop()
    future: asyncio.Future[bool] = running.create_future()
    timer = None if seconds is None else running.call_later(max(seconds, 0.0), _set_result, future, False)
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
    """Wait until a descriptor can be read. False when that takes longer than this many seconds."""
    from asyncio import get_running_loop

    running = get_running_loop()
    return await _ready(running, fd, seconds, running.add_reader, running.remove_reader)


async def writable(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be written. False when that takes longer than this many seconds."""
    from asyncio import get_running_loop

    running = get_running_loop()
    return await _ready(running, fd, seconds, running.add_writer, running.remove_writer)


async def _ready(running: asyncio.AbstractEventLoop, fd: int, seconds: float | None, add: Callable[..., object], remove: Callable[[int], object]) -> bool:
    future: asyncio.Future[bool] = running.create_future()
    timer = None if seconds is None else running.call_later(max(seconds, 0.0), _set_result, future, False)

    def ready() -> None:
        remove(fd)  # otherwise the loop reports it again before the coroutine continues
        _set_result(future, True)

    add(fd, ready)
    try:
        return await future
    finally:
        remove(fd)
        if timer is not None:
            timer.cancel()


def _set_result(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


# ---- timers and their threads ----


class Timer:
    """A function that is called on a thread of the pool, once or repeatedly until `cancel`. Its exceptions are logged."""

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
        """Stop the timer. A call in progress continues. From any thread."""
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
        """Runs on a thread of the pool."""
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


class Pool:
    """Daemon threads for functions that block: one for each to run, at most ``most``. Each is niced from its first function on that no start waits for.

    The standard library's executor joins its threads when the interpreter ends, so a function that hangs would block the end of the process.
    """

    def __init__(self, name: str, most: int, niceness: int = POOL_NICENESS) -> None:
        self.name = name
        self.most = most
        self.niceness = niceness
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._threads = 0
        #: Number of functions that have not ended.
        self._left = 0

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Result]:
        """Run a function as soon as a thread is free. Raises RuntimeError when there is no thread and none can be started."""
        from concurrent.futures import Future

        future: concurrent.futures.Future[Result] = Future()
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

    async def run(self, function: Callable[..., Result], *args: Any) -> Result:
        """`submit` for a coroutine, which waits while no thread can be started. Where it is cancelled it does not wait for the function."""
        from asyncio import sleep, wrap_future

        refused = ""
        while True:
            try:
                future = self.submit(function, *args)
                break
            except RuntimeError as error:
                if str(error) != refused:
                    refused = str(error)
                    log.error(f"{_name(function)} waits: {refused}")
            await sleep(AGAIN)
        return await wrap_future(future)

    def _run(self) -> None:
        niced = False
        while True:
            future, function = self._queue.get()
            if not niced and not priority_is_held():
                lower_priority(self.niceness)
                niced = True
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(function())
            except BaseException as error:  # the waiter gets it
                future.set_exception(error)
            del future, function  # releases their references while the thread waits
            with self._lock:
                self._left -= 1


_pool = Pool("control", POOL_THREADS)
