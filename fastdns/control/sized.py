"""Threads for functions that take long: what has less to do is done first."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fastdns.system.thread import lower_priority, priority_is_held

if TYPE_CHECKING:
    import concurrent.futures

__all__ = ["SizedPool"]

Result = TypeVar("Result")


class SizedPool:
    """Daemon threads that run functions, those of the smallest size first, and of one size in their order.

    At most ``most`` threads have the niceness ``niceness``, from their first function on that no start waits for, or (0) that of the thread whose call of
    `submit` starts them. Functions of at least the size ``large`` leave one thread to smaller ones.
    """

    def __init__(self, name: str, most: int, *, niceness: int = 0, large: int | None = None) -> None:
        self.name = name
        self.most = most
        self.niceness = niceness
        self.large = large
        self._ready = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._threads = 0
        #: Threads that run a function, and those of them that run a large one.
        self._busy = 0
        self._busy_large = 0

    def submit(self, size: int, function: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Run a function of this size. Raises RuntimeError when there is no thread and none can be started."""
        from concurrent.futures import Future

        future: concurrent.futures.Future[Result] = Future()
        with self._ready:
            if self._busy + len(self._waiting) >= self._threads and self._threads < self.most:
                self._start()
            heapq.heappush(self._waiting, (size, next(self._numbers), lambda: _run(function, future)))
            self._ready.notify()
        return future

    def _start(self) -> None:
        try:
            threading.Thread(target=self._serve, name=f"{self.name}-{self._threads + 1}", daemon=True).start()
            self._threads += 1
        except RuntimeError:
            if not self._threads:
                raise

    def _is_large(self, size: int) -> bool:
        return self.large is not None and size >= self.large

    def _may_begin(self) -> bool:
        """Whether the function that is due may have a thread: all that follow it are at least as large."""
        if not self._waiting:
            return False
        return not self._is_large(self._waiting[0][0]) or self._busy_large < self.most - 1

    def _serve(self) -> None:
        niced = not self.niceness
        while True:
            with self._ready:
                while not self._may_begin():
                    self._ready.wait()
                if not niced and not priority_is_held():
                    lower_priority(self.niceness)
                    niced = True
                size, _, function = heapq.heappop(self._waiting)
                self._busy += 1
                self._busy_large += self._is_large(size)
            function()
            del function  # releases its references while the thread waits
            with self._ready:
                self._busy -= 1
                self._busy_large -= self._is_large(size)


def _run(function: Callable[[], Any], future: concurrent.futures.Future[Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # the waiter gets it
        future.set_exception(error)
