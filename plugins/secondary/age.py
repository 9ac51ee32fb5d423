"""How old zones are: the property ``stale``, and the gauge ``fastdns_replica_age_seconds``."""

from __future__ import annotations

import threading
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakSet

from fastdns.index.zone import Zone
from fastdns.telemetry.metrics import Metric

__all__ = ["AFTER", "AFTER_LEAST", "Stale", "show", "withdraw"]

#: Seconds of `Stale.after`: the default, and the least, as primaries tell ages in seconds.
AFTER: Final = 5.0
AFTER_LEAST: Final = 2.0

GAUGE = Metric("fastdns_replica_age_seconds", "Time since a zone with the property stale was last known to be as its primary has it.", "gauge", ("zone",))


class Stale(NamedTuple):
    """What becomes of a zone that no primary confirms."""

    #: Queries get SERVFAIL; else they are answered, with an extended error.
    fails: bool
    #: Seconds after which the zone is stale.
    after: float

    @property
    def heartbeat(self) -> float:
        """Seconds between two questions to the primaries: two may be lost before the zone is stale."""
        return self.after / 4

    @property
    def patience(self) -> float:
        """Seconds that a primary has for an answer over UDP."""
        return self.after / 8


#: By zone's name: zones of several server blocks may have the same one.
_shown: dict[str, WeakSet[Zone]] = {}
_lock = threading.Lock()


def show(zone: Zone) -> None:
    """Show the age of a zone that is served."""
    with _lock:
        if zone.origin not in _shown:
            _shown[zone.origin] = WeakSet()
            GAUGE.watch((zone.origin,), partial(_oldest, zone.origin))
        _shown[zone.origin].add(zone)


def withdraw(zone: Zone) -> None:
    """The zone is served no longer."""
    with _lock:
        if zone.origin in _shown:
            _shown[zone.origin].discard(zone)


def _oldest(origin: str) -> float:
    """The gauge's value. Raises ValueError, which leaves the sample out: no such zone has been transferred yet, or is served any more."""
    with _lock:
        ages = [zone.age for zone in _shown[origin]]
    return max(age for age in ages if age is not None)
