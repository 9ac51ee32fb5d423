"""Records of a zone that contradict each other: a text and the gauge ``fastdns_zone_conflicts``. *auto*, *secondary* and hosted zones use it, too."""

from __future__ import annotations

import threading
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from fastdns.corefile.errors import quoted
from fastdns.index import conflicts
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.telemetry.metrics import Metric

__all__ = ["LINES", "Conflict", "find", "more", "refusal", "show", "summary", "withdraw"]

#: Names that are told one by one; of the others there is the number.
LINES = 10
#: The same in the line of a zone that is transferred.
NAMES = 3

GAUGE = Metric("fastdns_zone_conflicts", "Names of a zone, as it is served, whose records contradict each other.", "gauge", ("zone",))

#: What is wrong, what is served, and whose rule that is.
KINDS = {
    conflicts.CNAME_DATA: ("CNAME and other data", "only the CNAME is served", "RFC 2181 10.1"),
    conflicts.CNAME_APEX: ("CNAME at the apex of the zone", "it is served for all types but SOA and NS", "RFC 2181 10.1"),
    conflicts.CNAME_CUT: ("CNAME and NS", "the delegation is served", "RFC 2181 10.1"),
    conflicts.CNAMES: ("several CNAME records", "only the canonically smallest is served", "RFC 2181 10.1"),
    conflicts.DNAMES: ("several DNAME records", "only the canonically smallest is served", "RFC 6672 2.4"),
    conflicts.DNAME_CUT: ("DNAME and NS", "the delegation is served", "RFC 6672 2.3"),
    conflicts.OCCLUDED: ("data below a DNAME", "it is not served", "RFC 6672 2.4"),
    conflicts.SOAS: ("several SOA records", "only that with the highest serial is served", "RFC 1035 5.2"),
}


class Conflict(NamedTuple):
    """The first conflict of a name. ``str()`` says where it is, and what is served."""

    file: str
    #: From 1.
    line: int
    name: str
    kind: int

    @property
    def text(self) -> str:
        what, served, rule = KINDS[self.kind]
        return f"{self.name}: {what}: {served} ({rule})"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def find(draft: ZoneDraft, path: str) -> list[Conflict]:
    """The first `LINES` names with conflicts of a finished draft that was read from a file. Raises OSError and ValueError: the file is another one now."""
    return [Conflict(*found) for found in conflicts.conflicts_in(draft, path, LINES)]


def more(path: str, count: int) -> str:
    """What is said of names that are not told one by one."""
    return f"{quoted(path)} has {count} more names with records that contradict each other"


def refusal(path: str, found: list[Conflict], count: int) -> str:
    """Why a file with so many conflicts is refused."""
    first = found[0]
    what, _, rule = KINDS[first.kind]
    rest = f", and {count - 1} more names" if count > 1 else ""
    return f"file {quoted(path)} has records that contradict each other: {first.file}:{first.line}: {first.name}: {what} ({rule}){rest}"


def summary(zone: Zone, count: int) -> str:
    """What is said of a zone that is served and comes from no file."""
    named = [f"{name} ({KINDS[kind][0]})" for name, kind in conflicts.conflicts_of(zone, NAMES)]
    rest = f" and {count - len(named)} more" if count > len(named) else ""
    return f"Zone {zone.origin} with {zone.serial} SOA serial has names with records that contradict each other: {', '.join(named)}{rest}"


# ---- the gauge ----

#: By zone's name: zones of several server blocks may have the same one.
_counts: dict[str, WeakKeyDictionary[Zone, int]] = {}
_lock = threading.Lock()


def show(zone: Zone, count: int) -> None:
    """Set the gauge of a zone that is served. It is there from the first conflict on."""
    with _lock:
        counts = _counts.get(zone.origin)
        if counts is None:
            if count == 0:
                return
            counts = _counts[zone.origin] = WeakKeyDictionary()
            GAUGE.watch((zone.origin,), partial(_most, zone.origin))
        counts[zone] = count


def withdraw(zone: Zone) -> None:
    """The zone is served no longer."""
    with _lock:
        counts = _counts.get(zone.origin)
        if counts is not None:
            counts.pop(zone, None)


def _most(origin: str) -> int:
    """The gauge's value. Raises LookupError, which leaves the sample out: no such zone is served any more."""
    with _lock:
        counts = list(_counts[origin].values())
        if not counts:
            del _counts[origin]
            GAUGE.forget((origin,))
            raise LookupError(origin)
    return max(counts)
