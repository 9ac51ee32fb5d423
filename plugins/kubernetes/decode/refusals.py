"""Objects that are refused: each is counted, named in the log, and remembered until it is accepted or gone."""

from __future__ import annotations

import time
import weakref
from functools import partial

from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["LINES", "REASON_MAX", "TRACKED", "Refusals", "describe", "printable"]

#: Refused objects that are remembered by name, of one stream. More are counted alone.
TRACKED = 100
#: Lines of the log in a minute, of one stream.
LINES = 10
#: Characters of a reason, of a name.
REASON_MAX, NAME_MAX = 300, 150

MALFORMED = Metric("fastdns_kubernetes_objects_malformed_total", "Counter of objects that are skipped because they cannot be read.", "counter", ("kind",))

STANDING = Metric("fastdns_kubernetes_objects_refused", "Objects that cannot be read at the moment, at most 100 of a watch.", "gauge", ("kind",))

_all: weakref.WeakSet[Refusals] = weakref.WeakSet()

log = Log("plugin/kubernetes")


class Refusals:
    """The refused objects of one list and watch. ``kind`` is the label of the metric."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        #: Why each is refused, by namespace and name.
        self.standing: dict[tuple[str, str], str] = {}
        self._minute, self._lines = 0, 0

    def add(self, namespace: str, name: str, reason: str) -> None:
        """An object was refused; ``name`` is "" if it cannot be read."""
        MALFORMED.add((self.kind,))
        if self not in _all:
            _all.add(self)
            STANDING.watch((self.kind,), partial(count_standing, self.kind))
        key = (namespace, name)
        if name and (key in self.standing or len(self.standing) < TRACKED):
            self.standing[key] = reason
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        if self._lines <= LINES:
            more = "; further ones of this minute are counted alone" if self._lines == LINES else ""
            log.warning(f"{self.kind}: {describe(namespace, name)} is skipped: {printable(reason, REASON_MAX)}{more}")

    def accept(self, namespace: str, name: str) -> None:
        """An object was accepted, or is gone."""
        self.standing.pop((namespace, name), None)

    def clear(self) -> None:
        """A list begins."""
        self.standing.clear()


def count_standing(kind: str) -> float:
    return sum(len(refusals.standing) for refusals in list(_all) if refusals.kind == kind)


def describe(namespace: str, name: str) -> str:
    if not name:
        return "an object whose name cannot be read"
    return printable(f"{namespace}/{name}" if namespace else name, NAME_MAX)


def printable(text: str, most: int) -> str:
    """A text that may come from a tenant, for one line of the log."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:most])
