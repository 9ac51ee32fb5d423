"""Which names change with the versions of zones: told to a cache that stands above, see plugins/cache/_contents.pxd."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fastdns.index.zone import Zone, ZoneSet
from fastdns.index.zone_list import ZoneList
from fastdns.protocol.parameters import TYPE_A, TYPE_DNAME, TYPE_NS

if TYPE_CHECKING:
    from fastdns.plugins.cache._contents import SharedContents

__all__ = ["Row", "ZoneObserver", "changed_names", "observers", "replace", "tell"]

#: Owner, type, TTL, rdata in wire form.
Row = tuple[bytes, int, int, bytes]

#: Names of one version, and those among them that need a sweep of the cache: with more, all names of the zone are removed.
NAMES_MOST = 10_000
SWEPT_MOST = 64

_observers: list[ZoneObserver] = []
_lock = threading.Lock()


class ZoneObserver:
    """Tells a cache of the names that change with the versions of the zones of sets, and with the zones that come and go. From any thread."""

    def __init__(self, sets: Sequence[ZoneSet], unkept: ZoneList) -> None:
        """``unkept``: zones of which the cache keeps nothing."""
        #: Zones below which names are removed by subtrees: none, each name is removed by itself.
        self.cuts: list[tuple[str, int]] = []
        self._sets = sets
        self._unkept = unkept
        self._contents: SharedContents | None = None

    def begin(self, contents: SharedContents) -> None:
        """From now on."""
        with _lock:
            self._contents = contents
            _observers.append(self)

    def end(self) -> None:
        """No more; without effect where it has not begun."""
        with _lock:
            if self in _observers:
                _observers.remove(self)
            self._contents = None

    def zones(self) -> list[str]:
        """The zones whose names it tells of, as of now."""
        return [zone.origin for one in self._sets for zone in one.zones]

    def observes(self, zone: Zone) -> bool:
        """Whether the zone is one of theirs, and the cache keeps something of it."""
        return any(zone in one.zones for one in self._sets) and self._unkept.match(zone.origin) is None

    def is_of(self, zones: ZoneSet) -> bool:
        """Whether this set is one of them."""
        return any(one is zones for one in self._sets)

    def change(self, alone: Iterable[bytes], below: Iterable[bytes]) -> None:
        """Have names removed: those of ``alone``, and those at or below the ones of ``below``."""
        contents = self._contents
        if contents is None:
            return
        for name in alone:
            contents.change(name, False)
        for name in below:
            contents.change(name, True)


def observers(zone: Zone) -> list[ZoneObserver]:
    """Those that observe a zone."""
    with _lock:
        return [observer for observer in _observers if observer.observes(zone)]


def tell(zone: Zone, found: tuple[Sequence[Row], Sequence[Row]] | None) -> None:
    """A new version of a zone serves; ``found`` is what was deleted and added, None that it is not known."""
    told = observers(zone)
    if not told:
        return
    alone, below = changed_names(zone, *found) if found is not None else (set(), {zone.wire})
    for observer in told:
        observer.change(alone, below)


def replace(zones: ZoneSet, wanted: Iterable[Zone]) -> None:
    """Give a set its zones while it serves: all names of those that come, go or begin anew change."""
    before = zones.zones
    zones.replace(wanted)
    moved = set(before) ^ set(zones.zones)
    with _lock:
        told = [observer for observer in _observers if observer.is_of(zones)]
    for observer in told:
        observer.change((), {zone.wire for zone in moved})


def changed_names(zone: Zone, deleted: Sequence[Row], added: Sequence[Row]) -> tuple[set[bytes], set[bytes]]:
    """Names whose answers differ since the version that serves: by themselves, and with all names below them. All in lower-case wire form.

    A name that comes or goes brings empty non-terminals with it or takes them away, and hides wildcards (RFC 4592); a zone cut or DNAME is for all names
    below it.
    """
    gone = {row[0].lower() for row in deleted}
    kinds: dict[bytes, set[int]] = {}
    for owner, kind, *_ in (*deleted, *added):
        kinds.setdefault(owner.lower(), set()).add(kind)
    alone, below = {zone.wire}, set()  # the SOA is in every version
    if len(kinds) > NAMES_MOST:
        return set(), {zone.wire}
    for owner, its in kinds.items():
        cut = None if owner == zone.wire else _cut(zone, owner)
        if owner.startswith(b"\x01*"):
            below.add(owner[2:])
        elif cut is not None:
            below.add(cut)
        elif TYPE_DNAME in its or (TYPE_NS in its and owner != zone.wire):
            below.add(owner)
        else:
            alone.add(owner)
        if owner != zone.wire and not (owner in gone and zone.index.get(owner)):
            _add_ancestors(zone, owner, alone, below)
    return (set(), {zone.wire}) if len(below) > SWEPT_MOST else (alone, below)


def _cut(zone: Zone, owner: bytes) -> bytes | None:
    """The zone cut at or above a name, whose referrals have its records as glue."""
    found = zone.index.find(owner, TYPE_A)
    return found.owner if found.outcome == "delegation" else None


def _add_ancestors(zone: Zone, name: bytes, alone: set[bytes], below: set[bytes]) -> None:
    """The ancestors that may have come or gone with a name, and what a wildcard answers where the name is not there."""
    while name != zone.wire:
        parent = name[1 + name[0] :]
        if zone.index.get(b"\x01*" + parent):
            below.add(name)
        if parent == zone.wire or zone.index.get(parent):
            return
        alone.add(parent)
        name = parent
