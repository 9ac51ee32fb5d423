"""The control plane: one event loop for everything that does not answer queries. `tasks` has its API."""

from __future__ import annotations

from fastdns.control.offload import OffloadThread
from fastdns.control.tasks import (
    NICENESS,
    Pool,
    Signal,
    Timer,
    after,
    begin,
    blocking,
    call_soon,
    every,
    hold,
    keep,
    loop,
    readable,
    sleep,
    spawn,
    stop,
    writable,
)

__all__ = [
    "NICENESS",
    "OffloadThread",
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
