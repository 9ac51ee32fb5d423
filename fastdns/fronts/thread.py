"""The thread and the event loop that all front ends of the process share."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from fastdns.fronts import queries

__all__ = ["begin", "call", "loop"]

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop, which runs from the first call on for as long as the process does."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = uvloop.new_event_loop()
            _loop.add_reader(queries.bell(), queries.answer)
            threading.Thread(target=_loop.run_forever, name="fronts", daemon=True).start()
        return _loop


def begin(coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
    """Run a coroutine on the loop, from another thread, without waiting for it."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


def call(function: Callable[..., object], *args: Any) -> None:
    """Run a function on the loop, from another thread, without waiting for it."""
    loop().call_soon_threadsafe(function, *args)
