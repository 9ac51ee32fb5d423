"""Threads that read the hosted zones of one directive once, and end then: a cloud that does not answer holds threads of its own zones only."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastdns.control.tasks import POOL_NICENESS
from fastdns.system.thread import lower_priority, priority_is_held

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["READERS_MOST", "Round"]

#: Zones of one directive that are read at a time.
READERS_MOST = 8


class Round:
    """Functions that are called in their order, at most `READERS_MOST` at a time. Their futures have their results."""

    def __init__(self, functions: Sequence[Callable[[], str]]) -> None:
        from concurrent.futures import Future

        self.futures: list[Future[str]] = [Future() for _ in functions]
        self._left = deque(zip(self.futures, functions, strict=True))
        for number in range(min(READERS_MOST, len(functions))):
            try:
                threading.Thread(target=self._run, name=f"hosted-zones-{number + 1}", daemon=True).start()
            except RuntimeError as error:  # no thread can be started
                if number == 0:
                    for future in self.futures:
                        future.set_result(str(error))
                    self._left.clear()
                return

    def _run(self) -> None:
        if not priority_is_held():
            lower_priority(POOL_NICENESS)
        while True:
            try:
                future, function = self._left.popleft()
            except IndexError:
                return
            if not future.set_running_or_notify_cancel():  # nobody waits for it any more
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # the waiter gets it
                future.set_exception(error)
