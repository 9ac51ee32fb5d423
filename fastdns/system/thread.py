"""Niceness of threads that do what can wait, but for what a start waits for."""

from __future__ import annotations

import os
import threading

__all__ = ["hold_priority", "lower_priority", "priority_is_held", "release_priority"]

_holders: set[object] = set()


def hold_priority(holder: object) -> None:
    """Until ``holder`` calls `release_priority`, threads that are not niced yet remain so: on a busy machine a niced one may not run for minutes."""
    _holders.add(holder)


def release_priority(holder: object) -> None:
    """End what `hold_priority` began. Further calls do nothing."""
    _holders.discard(holder)


def priority_is_held() -> bool:
    return bool(_holders)


def lower_priority(niceness: int) -> None:
    """Set the niceness of the calling thread only (on Linux it is an attribute of threads), unless its niceness is higher already."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))
    except OSError:  # a sandbox without the system call
        pass
