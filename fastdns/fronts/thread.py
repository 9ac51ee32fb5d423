"""The thread and the event loop that all front ends of the process share.

It is apart from the control side's: it carries clients' queries, so it is not niced, it is uvloop's for speed, and the list of a large cluster,
which keeps the control side's busy for milliseconds at a time, must not hold up replies.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from fastdns.control.eventloop import EventLoop
from fastdns.fronts import queries

__all__ = ["begin", "call", "loop"]

_lock = threading.Lock()
_thread: EventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop, which runs from the first call on for as long as the process does."""
    return _started().loop


def begin(coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
    """Run a coroutine on the loop, from another thread, without waiting for it."""
    return _started().submit(coroutine)


def call(function: Callable[..., object], *args: Any) -> None:
    """Run a function on the loop, from another thread, without waiting for it."""
    _started().call_soon(function, *args)


def _started() -> EventLoop:
    global _thread
    with _lock:
        if _thread is None:
            _thread = EventLoop("fronts", uvloop.new_event_loop)
            _thread.loop.add_reader(queries.descriptor(), queries.deliver)
            _thread.start()
        return _thread
