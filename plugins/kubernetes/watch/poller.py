"""One thread for all watches of a cluster: coroutines over epoll.

asyncio and uvloop would cost some 10 MB and buffers for each connection; a few sockets that read into one shared buffer need neither. The thread
is niced, so that decoding on a worker's CPU does not move the answers' latency.
"""

from __future__ import annotations

import heapq
import os
import select
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from fastdns.telemetry.log import Log

#: Of the poller's thread: workers preempt it at once. On a machine with four busy threads a CPU, changes were answered within 11 ms (p99) at 10 as
#: at 0, but within 115 ms at 19.
NICE = 10

log = Log("plugin/kubernetes")


class Cancelled(BaseException):
    """Thrown into a coroutine whose task is cancelled."""


class Signal:
    """Wakes the tasks that sleep on it. Only for the poller's own thread."""

    def __init__(self) -> None:
        self.waiting: set[Task] = set()

    def wake(self) -> None:
        """Let all sleepers go on."""
        for task in tuple(self.waiting):
            task.poller.posted.append(partial(task.poller.wake, task, task.turn))


class Task:
    """A running coroutine."""

    __slots__ = ("coroutine", "done", "fd", "poller", "signal", "turn")

    def __init__(self, poller: Poller, coroutine: Coroutine[Any, Any, None]) -> None:
        self.poller = poller
        self.coroutine = coroutine
        self.done = False
        #: What it waits for; -1 and None while it does not.
        self.fd = -1
        self.signal: Signal | None = None
        #: Grows with every wait, so that a timer of an earlier one is known as stale.
        self.turn = 0

    def cancel(self) -> None:
        """End it where it waits. Only for the poller's own thread, and not for the task that runs."""
        self.poller.resume(self, Cancelled())


@types.coroutine
def _wait(fd: int, events: int, seconds: float | None, signal: Signal | None) -> Generator[Any, bool, bool]:
    return (yield fd, events, seconds, signal)


async def readable(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be read; False when that took longer than `seconds`."""
    return await _wait(fd, select.EPOLLIN, seconds, None)


async def writable(fd: int, seconds: float | None = None) -> bool:
    """Wait until a descriptor can be written; False when that took longer than `seconds`."""
    return await _wait(fd, select.EPOLLOUT, seconds, None)


async def sleep(seconds: float | None, signal: Signal | None = None) -> bool:
    """Sleep; True when the signal ended it early."""
    return await _wait(-1, 0, seconds, signal)


def lower_priority() -> None:
    """Nice the calling thread, unless the whole process is nicer."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    except OSError:
        pass


class Poller:
    """The thread and its tasks."""

    def __init__(self, name: str) -> None:
        self.niced = False
        self.tasks: set[Task] = set()
        self.posted: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[float, int, int, Task]] = []
        self.number = 0
        self.waiting: dict[int, Task] = {}
        self.stopping = False
        self.epoll = select.epoll()
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.epoll.register(self.bell, select.EPOLLIN)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def stop(self, seconds: float = 5.0) -> bool:
        """Cancel all tasks and end the thread; False when it did not end in time. From any thread."""

        def stop() -> None:
            self.stopping = True
            for task in tuple(self.tasks):
                task.cancel()

        self.call(stop)
        if threading.current_thread() is self.thread:  # whoever let go of the last share, the garbage collector for one
            return True
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def call(self, function: Callable[[], None]) -> None:
        """Run a function on the poller's thread, soon. From any thread."""
        self.posted.append(function)
        try:
            os.eventfd_write(self.bell, 1)
        except OSError:  # closed: the thread has ended
            pass

    def be_nice(self) -> None:
        """From now on the workers come first; until there is something to answer from, being late would be worse. From any thread."""
        if not self.niced:
            self.niced = True
            self.call(lower_priority)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Task:
        """Start a task. Only for the poller's own thread; others use ``call``."""
        task = Task(self, coroutine)
        self.tasks.add(task)
        self._step(task, None)
        return task

    def resume(self, task: Task, result: bool | BaseException) -> None:
        """Go on with a task that waits: it gets the result, or has the exception thrown in."""
        if task.done:
            return
        if task.fd >= 0:
            self.waiting.pop(task.fd, None)
            try:
                self.epoll.unregister(task.fd)
            except OSError:  # closed meanwhile
                pass
            task.fd = -1
        if task.signal is not None:
            task.signal.waiting.discard(task)
            task.signal = None
        task.turn += 1
        self._step(task, result)

    def wake(self, task: Task, turn: int) -> None:
        """Go on with a task if it still waits for the same thing."""
        if task.turn == turn:
            self.resume(task, True)

    def _step(self, task: Task, result: bool | BaseException | None) -> None:
        try:
            if isinstance(result, BaseException):
                fd, events, seconds, signal = task.coroutine.throw(result)
            else:
                fd, events, seconds, signal = task.coroutine.send(result)
        except (StopIteration, Cancelled):
            task.done = True
            self.tasks.discard(task)
            return
        except Exception as error:
            task.done = True
            self.tasks.discard(task)
            log.error(f"Unexpected end of a task: {error!r}")
            return
        if fd >= 0:
            task.fd = fd
            self.waiting[fd] = task
            self.epoll.register(fd, events)
        if signal is not None:
            task.signal = signal
            signal.waiting.add(task)
        if seconds is not None:
            self.number += 1
            heapq.heappush(self.timers, (time.monotonic() + max(seconds, 0.0), self.number, task.turn, task))

    def _run(self) -> None:
        while not self.stopping or self.tasks:
            self._once()
        self.epoll.close()
        os.close(self.bell)
        self.bell = -1

    def _once(self) -> None:
        """Wait for something and handle all of it."""
        seconds = -1.0
        if self.posted:
            seconds = 0.0
        elif self.timers:
            seconds = max(self.timers[0][0] - time.monotonic(), 0.0)
        for fd, _ in self.epoll.poll(seconds):
            if fd == self.bell:
                try:
                    os.eventfd_read(self.bell)
                except BlockingIOError:
                    pass
            elif fd in self.waiting:
                self.resume(self.waiting[fd], True)
        while self.posted:
            try:
                self.posted.popleft()()
            except Exception as error:  # the watches go on
                log.error(f"Unexpected error on the thread of the API: {error!r}")
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, turn, task = heapq.heappop(self.timers)
            if not task.done and task.turn == turn:
                self.resume(task, False)
