"""The control side: one event loop for all that is not on a query's way. `tasks` says how it is used."""

from __future__ import annotations

from fastdns.control.tasks import NICENESS, Pool, Signal, Timer, after, blocking, call_soon, every, loop, readable, sleep, spawn, stop, writable

__all__ = ["NICENESS", "Pool", "Signal", "Timer", "after", "blocking", "call_soon", "every", "loop", "readable", "sleep", "spawn", "stop", "writable"]
