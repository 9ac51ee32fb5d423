"""Niced threads that build zones of what is received, the smallest transfers first."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from fastdns.control.sized import SizedPool
from fastdns.control.tasks import NICENESS

__all__ = ["BUILDERS", "Intake"]

#: Octets of messages that one step of a transfer takes; between two steps a smaller transfer has its turn.
STEP_OCTETS: Final = 256 << 10
#: Octets of messages that wait for a builder; a receiver that has more builds itself, at its own priority.
BACKLOG_OCTETS: Final = 4 << 20


#: Of the process. A size is the octets of a transfer that have come.
BUILDERS: Final = SizedPool("zone", max(2, min(4, os.cpu_count() or 1)), niceness=NICENESS)


def _taken(message: bytes) -> bool:
    """Take nothing: the last message was taken."""
    return True


class Intake:
    """The messages of one transfer on their way from its receiver to the builders, in their order.

    ``take`` is called with each message; it says whether that was the last one. ``wake`` is called when it was, or when ``take`` raised an exception.
    """

    def __init__(self, take: Callable[[bytes], bool], wake: Callable[[], object]) -> None:
        #: The last message was taken.
        self.done = False
        #: What `take` raised.
        self.error: BaseException | None = None
        #: Octets received.
        self.octets = 0
        self._take = take
        self._wake = wake
        self._messages: deque[bytes] = deque()
        self._waiting = 0
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._scheduled = False

    @property
    def ended(self) -> bool:
        return self.done or self.error is not None

    def put(self, message: bytes) -> None:
        """Hand a message over; from the receiver."""
        with self._changed:
            self._messages.append(message)
            self.octets += len(message)
            self._waiting += len(message)
            full = self._waiting > BACKLOG_OCTETS
            schedule, self._scheduled = not self._scheduled, True
        if schedule:
            BUILDERS.submit(self.octets, self._step)
        if full:
            self._build()

    def drain(self) -> None:
        """Wait until all messages are taken; raises what `take` raised."""
        with self._changed:
            while self._scheduled:
                self._changed.wait()
        if self.error is not None:
            raise self.error

    def _step(self) -> None:
        self._build()
        with self._changed:
            self._scheduled = bool(self._messages)
            again = self._scheduled
            self._changed.notify_all()
        if again:
            BUILDERS.submit(self.octets, self._step)

    def _build(self) -> None:
        """Take messages for one step. What follows the last one, or an error, is dropped."""
        left = STEP_OCTETS
        with self._turn:
            while left > 0:
                with self._changed:
                    if not self._messages:
                        return
                    message = self._messages.popleft()
                    self._waiting -= len(message)
                left -= len(message)
                if not self.ended:
                    self._take_one(message)

    def _take_one(self, message: bytes) -> None:
        try:
            self.done = self._take(message)
        except BaseException as error:  # the receiver raises it
            # Without its frames, which hold this object: a cycle would keep the records of a transfer that has failed.
            self.error = error.with_traceback(None) if isinstance(error, ValueError | MemoryError) else error
        if self.ended:
            self._take = _taken
            self._wake()
