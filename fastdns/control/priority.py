"""Niceness of threads that do what can wait, but for what a start waits for."""

from __future__ import annotations

import os
import threading

__all__ = ["hold", "is_held", "lower", "release"]

_holders: set[object] = set()


def hold(holder: object) -> None:
    """Until ``holder`` calls `release`, threads that are not niced yet remain so: on a busy machine a niced one may not run for minutes."""
    _holders.add(holder)


def release(holder: object) -> None:
    """End what `hold` began. Further calls do nothing."""
    _holders.discard(holder)


def is_held() -> bool:
    return bool(_holders)


def lower(niceness: int) -> None:
    """Set the niceness of the calling thread only (on Linux it is an attribute of threads), unless its niceness is higher already."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))
    except OSError:  # a sandbox without the system call
        pass
