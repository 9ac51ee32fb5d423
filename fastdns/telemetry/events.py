"""What has happened to the server, with its cause: a bounded log in memory that `fastdns top`, the console, `/metrics` and JSON share.

Any thread of Python may write. Workers do not: what happens to queries is counted, not told.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from fastdns.telemetry import log
from fastdns.telemetry.metrics import Metric

__all__ = ["EVENTS_MAX", "KEPT", "KINDS", "Event", "last", "log_event", "note", "watch"]

#: Events that are kept: the oldest go first, of kinds that have more than `KEPT`.
EVENTS_MAX = 1000
#: Of each kind, which no other kind pushes out.
KEPT = 50
#: What happens, as label of the metric.
KINDS = (
    "upstream_down",
    "upstream_up",
    "relist",
    "reload",
    "reload_failed",
    "certificate",
    "plugin_quarantined",
    "recording",
    "file_left_out",
    "canary",
    "evicted",
    "shed",
    "watch_failing",
    "watch_restored",
)

_counts = Metric("fastdns_events_total", "Counter of events of the server, by kind.", "counter", ("kind",))
_numbers = itertools.count(1)
_lock = threading.Lock()
_events: dict[str, deque[Event]] = {kind: deque() for kind in KINDS}
_watchers: list[Callable[[Event], None]] = []


class Event(NamedTuple):
    #: Grows by one from event to event.
    number: int
    #: Seconds since the epoch.
    time: float
    #: Of `KINDS`.
    kind: str
    #: What it happened to, such as the address of an upstream.
    subject: str
    #: Why, in a few words.
    cause: str
    #: Anything else, for JSON.
    details: dict[str, Any]


def note(kind: str, subject: str, cause: str, **details: Any) -> None:
    """Keep and count an event. KeyError for a kind that is not of `KINDS`."""
    if kind not in KINDS:
        raise KeyError(kind)
    with _lock:
        event = Event(next(_numbers), time.time(), kind, subject, cause, details)
        _events[kind].append(event)
        if sum(map(len, _events.values())) > EVENTS_MAX:
            min((kept for kept in _events.values() if len(kept) > KEPT), key=lambda kept: kept[0].number).popleft()
        watchers = tuple(_watchers)
    _counts.add((kind,))
    for watcher in watchers:
        watcher(event)


def last(after: int = 0, most: int = EVENTS_MAX) -> list[Event]:
    """At most so many of the newest events with a number above ``after``, oldest first."""
    with _lock:
        found = [event for kept in _events.values() for event in kept if event.number > after]
    return sorted(found)[-most:]


def log_event(event: Event) -> None:
    """The event as a line of the log, where that is JSON: a watcher for `watch`."""
    members = {"event": event.kind, "subject": event.subject, "cause": event.cause, "number": event.number, "details": event.details}
    log.write_object(f"{event.kind} {event.subject}: {event.cause}", members)


def watch(watcher: Callable[[Event], None]) -> Callable[[], None]:
    """Have each further event passed to ``watcher``, on the thread that it happens on; the result ends that."""
    with _lock:
        _watchers.append(watcher)

    def end() -> None:
        with _lock:
            if watcher in _watchers:
                _watchers.remove(watcher)

    return end
