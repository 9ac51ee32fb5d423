"""Names that only zone files hold, as questions: those first whose records are not the same in both configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fastdns._wire import name_text
from fastdns.comparison.derived import CLIENT, packet
from fastdns.index.zone import Zone, ZoneSet
from fastdns.protocol.parameters import TYPE_A, TYPE_NSEC, TYPE_NSEC3, TYPE_RRSIG
from fastdns.setup import Config

__all__ = ["NAMES_MOST", "questions"]

#: Names that are asked about.
NAMES_MOST = 5000
#: They change with each signature, and a name has them only beside others.
DERIVED = frozenset((TYPE_RRSIG, TYPE_NSEC, TYPE_NSEC3))


def questions(sides: Sequence[Iterable[Config]]) -> tuple[list[tuple[bytes, bytes]], int]:
    """Questions and their client for the zones that handlers of both sides have loaded: each name with the types that it has in either, or A.

    Also how many names are left out because there are more than NAMES_MOST.
    """
    zones = [list(_zones(configs)) for configs in sides]
    old, new = (_names(some) for some in zones)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    same = [name for name in old if old[name] == new.get(name)]
    wanted = [*sorted(changed), *sorted(same)]
    found = []
    for name in wanted[:NAMES_MOST]:
        types = {kind for some in zones for zone in some for kind, _, _ in _records(zone, name)} - DERIVED
        found += [(packet(name_text(name), kind), CLIENT) for kind in sorted(types | {TYPE_A})]
    return found, max(0, len(wanted) - NAMES_MOST)


def _zones(configs: Iterable[Config]) -> Iterator[Zone]:
    for config in configs:
        for handler in config.handlers:
            zones = getattr(handler, "zones", None)
            if isinstance(zones, ZoneSet):
                yield from zones.zones


def _names(zones: Iterable[Zone]) -> dict[bytes, int]:
    """A number for the records of each name: equal records have equal numbers, in whatever order and with whatever TTL."""
    found: dict[bytes, int] = {}
    for zone in zones:
        for owner, kind, _, rdata in zone.index.snapshot(sorted=False):
            if kind not in DERIVED:
                found[owner] = found.get(owner, 0) ^ hash((zone.wire, kind, rdata))
    return found


def _records(zone: Zone, name: bytes) -> list[tuple[int, int, bytes]]:
    return zone.index.get(name) if name.endswith(zone.wire) else []
