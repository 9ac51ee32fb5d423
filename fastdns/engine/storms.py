"""Events of what happens to many queries at once: workers count it, and a thread looks at the counters now and then."""

from __future__ import annotations

from fastdns.engine.engine import Engine
from fastdns.telemetry import events
from fastdns.telemetry.metrics import registry

__all__ = ["Storms"]

#: Of *shed*, which has it where a block sheds.
SHED = "coredns_shed_dropped_total"


class Storms:
    """Queries that were evicted and queries that were shed since the last look."""

    #: Seconds between two looks: a storm is an event for each.
    INTERVAL = 10.0

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._evicted = 0
        self._shed: dict[str, int] = {}

    def look(self) -> None:
        """Note what was counted since the last look."""
        evicted = self._engine.statistics()["evicted"]
        if evicted > self._evicted:
            count = evicted - self._evicted
            cause = f"{count} parked queries got SERVFAIL: all slots were taken"
            events.note("evicted", "queries", cause, count=count)
        self._evicted = evicted
        if SHED not in registry:
            return
        shed: dict[str, int] = {}
        for (server, _), value in registry[SHED].collect():
            shed[server] = shed.get(server, 0) + (int(value) if isinstance(value, float) else 0)
        for server, total in shed.items():
            count = total - self._shed.get(server, 0)
            if count > 0:
                events.note("shed", server, f"{count} queries and replies were dropped: the server is overloaded", count=count)
        self._shed = shed
