"""Threads that take what workers hand to the control side (engine/offload.pxd), one for each kind of request."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["OffloadThread"]


class OffloadThread:
    """Started by the first configuration that needs it, and kept. It is not niced, so threads that it starts are not either: clients wait for them."""

    def __init__(self, name: str, open_queue: Callable[[], object], serve: Callable[[], object]) -> None:
        """``serve`` takes requests of the queue, for ever."""
        self._name, self._open_queue, self._serve = name, open_queue, serve
        self._opened = self._started = False

    def start(self) -> None:
        """Before any handler serves. Raises RuntimeError where no thread can be started; the next call tries it again."""
        if self._started:
            return
        if not self._opened:
            self._open_queue()
            self._opened = True
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._started = True
