"""A bound for what HTTP servers may take of a thread: seconds and octets of all replies to one task, in whatever pieces they come.

A timeout of a socket begins again with each octet. Here each read has the time that is left of the whole.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

__all__ = ["Budget", "BudgetError", "BudgetResponse", "current", "limited"]

#: Seconds that a read may go on after the end, so that its error is that of the budget.
GRACE: Final = 0.05


class BudgetError(Exception):
    """Time or octets are used up. It is no OSError: clients of HTTP do not try again because of it."""


class Budget:
    """The time and octets left to one task. Its thread alone uses it, but for `end`."""

    def __init__(self, seconds: float, octets: int) -> None:
        self.seconds = seconds
        self.octets = octets
        self._until = time.monotonic() + seconds
        self._read = 0
        self._ended = False
        self._lock = threading.Lock()
        #: The socket that is read from.
        self._socket: socket.socket | None = None

    def end(self) -> None:
        """End the task: nobody wants its result any more. A read under way ends, too. From any thread."""
        with self._lock:
            self._ended = True
            if self._socket is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @contextmanager
    def reading(self, sock: socket.socket) -> Iterator[None]:
        """Have `end` end a read from this socket."""
        with self._lock:
            self._socket = sock
        try:
            self.left()
            yield
        finally:
            with self._lock:
                self._socket = None

    def left(self) -> float:
        """Seconds. Raises BudgetError when there are none."""
        if self._ended:
            raise BudgetError("it was given up")
        left = self._until - time.monotonic()
        if left <= 0:
            raise BudgetError(f"it took longer than {self.seconds:g} s")
        return left

    def take(self, octets: int) -> None:
        """Octets have come. Raises BudgetError for more than there may be."""
        self._read += octets
        if self._read > self.octets:
            raise BudgetError(f"it has more than {self.octets} octets")

    def sleep(self, seconds: float) -> None:
        """Sleep, unless that takes longer than what is left: then BudgetError is raised at once."""
        if seconds >= self.left():
            raise BudgetError(f"it would take longer than {self.seconds:g} s")
        time.sleep(seconds)


_thread = threading.local()


def current() -> Budget | None:
    """The budget of the calling thread; None: it has none."""
    return getattr(_thread, "budget", None)


@contextmanager
def limited(budget: Budget) -> Iterator[None]:
    """Have replies that this thread reads (`BudgetResponse`) taken from a budget."""
    _thread.budget = budget
    try:
        yield
    finally:
        _thread.budget = None


class BudgetResponse(http.client.HTTPResponse):
    """A response whose octets, those of its head among them, are taken from the thread's budget, if it has one.

    It is for the attribute ``response_class`` of a connection.
    """

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        budget = current()
        if budget is not None:
            self.fp = io.BufferedReader(_Reader(self.fp, sock, budget))


class _Reader(io.RawIOBase):
    """Reads of a response's octets, each with the time that is left."""

    def __init__(self, octets: Any, sock: socket.socket, budget: Budget) -> None:
        self._octets = octets
        self._socket = sock
        self._budget = budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        timeout = self._socket.gettimeout()
        left = self._budget.left()
        shortened = timeout is None or left < timeout
        if shortened:
            self._socket.settimeout(left + GRACE)
        try:
            with self._budget.reading(self._socket):
                count: int = self._octets.readinto1(buffer)
        except OSError:
            self._budget.left()
            raise
        finally:
            if shortened:
                self._socket.settimeout(timeout)
        if not count:
            self._budget.left()
        self._budget.take(count)
        return count

    def close(self) -> None:
        if not self.closed:
            self._octets.close()
        super().close()
