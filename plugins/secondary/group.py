"""The secondary zones of a server block: those that it names, and those that come and go with its catalogs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from fastdns.corefile.address import packed, split_address
from fastdns.index.zone import Zone, ZoneSet
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.secondary.catalog import Catalog, Member, parse_catalog
from fastdns.plugins.secondary.keeper import Follower, Keeper, log
from fastdns.plugins.secondary.kept import Kept
from fastdns.plugins.secondary.settings import Block, Settings
from fastdns.plugins.transfer.name_observer import replace

__all__ = ["Group", "follow", "keeper_of", "unfollow"]

#: Called with a zone's name when a new version of it serves.
Changed = Callable[[str], object]

#: What stands is taken over by the next configuration: its zones go on as they are.
_kept: weakref.WeakValueDictionary[tuple[object, ...], Keeper] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class Dynamic:
    """A member of a catalog that is served."""

    def __init__(self, catalog: str, member: Member, keeper: Keeper) -> None:
        self.catalog = catalog
        self.member = member
        self.keeper = keeper


class Group:
    """Keepers by lower-case origin, and the set of zones that the handler looks into."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.static: dict[str, Keeper] = {}
        self.dynamic: dict[str, Dynamic] = {}
        self.catalogs: dict[str, Catalog] = {}
        self._notify: Changed | None = None
        self._lock = threading.RLock()
        self._ended = False
        for origin, settings in block.settings.items():
            self.static[origin] = self._find(origin, settings)
        self.zones = ZoneSet(keeper.zone for keeper in self.static.values())

    def _identity(self, origin: str) -> tuple[object, ...]:
        return *self.block.settings[origin].identity(origin), origin in self.block.catalogs

    def _find(self, origin: str, settings: Settings) -> Keeper:
        keeper = _standing(self._identity(origin)) or _make(Zone(origin), settings, self._identity(origin))
        if origin in self.block.catalogs:
            keeper.validate = lambda rows: parse_catalog(origin, rows)
        return keeper

    # ---- life ----

    def begin(self, notify: Changed | None) -> None:
        """Hold the zones; ``notify`` tells secondaries of this server what has changed."""
        self._notify = notify
        for keeper in self.static.values():
            self._hold(keeper)
            keeper.restore()
        self._take_over()

    def _hold(self, keeper: Keeper) -> None:
        with _lock:
            keeper.users += 1
        keeper.listeners[id(self)] = self._changed

    def _let_go(self, keeper: Keeper) -> None:
        keeper.listeners.pop(id(self), None)
        with _lock:
            keeper.users -= 1
            _end_unused(keeper)

    def _drop(self, keeper: Keeper) -> None:
        """Let a member go that its catalog does not list any more, or lists as another one, and what is kept of it, unless somebody else has it."""
        self._let_go(keeper)
        if keeper.stopped and keeper.kept is not None:
            keeper.kept.remove()

    def _take_over(self) -> None:
        """Catalogs that a former configuration had transferred, or that are on disk, are followed at once."""
        for origin in self.block.catalogs:
            catalog = self.static[origin].accepted
            if isinstance(catalog, Catalog):
                self._apply(origin, catalog)

    def start(self) -> None:
        """Ask the primaries."""
        for keeper in self.static.values():
            keeper.start()
            if keeper.zone.serial is not None and self._notify is not None:
                self._notify(keeper.zone.origin)

    def end(self) -> None:
        """Let the zones go; who holds them too goes on."""
        with self._lock:
            self._ended = True
            keepers = [*self.static.values(), *(one.keeper for one in self.dynamic.values())]
        for keeper in keepers:
            self._let_go(keeper)
            if keeper.kept is not None and keeper.stopped:
                keeper.kept.end()
            elif keeper.kept is not None:
                keeper.kept.write()

    # ---- what happens ----

    def accepts(self, wire: bytes, address: bytes) -> Keeper | None:
        """The keeper of a zone that this address may send NOTIFYs for."""
        with self._lock:
            keepers = [*self.static.values(), *(dynamic.keeper for dynamic in self.dynamic.values())]
        for keeper in keepers:
            if keeper.zone.wire == wire:
                return keeper if any(packed(split_address(one.address)[0].partition("%")[0]) == address for one in keeper.primaries) else None
        return None

    def _changed(self, origin: str) -> None:
        if self._notify is not None:
            self._notify(origin)
        keeper = self.static.get(origin.lower())
        if keeper is not None and isinstance(keeper.accepted, Catalog) and origin.lower() in self.block.catalogs:
            self._apply(origin.lower(), keeper.accepted)
            log.info(f"Parsed catalog zone {origin} with {len(keeper.accepted.members)} member zones")

    # ---- catalogs ----

    def _apply(self, origin: str, catalog: Catalog) -> None:
        """Add the members that are new, remove those that are gone."""
        starts: list[Keeper] = []
        rejected = 0
        listed: set[str] = set()
        with self._lock:
            if self._ended:
                return
            self.catalogs[origin] = catalog
            for member in catalog.members:
                if not self._admits(origin, member.zone):
                    rejected += 1
                    continue
                listed.add(member.zone)
                keeper = self._follow(origin, member)
                if keeper is not None:
                    starts.append(keeper)
            for zone in [zone for zone, dynamic in self.dynamic.items() if dynamic.catalog == origin and zone not in listed]:
                self._drop(self.dynamic.pop(zone).keeper)
                log.info(f"Removed catalog member zone {zone} from catalog {origin}")
            replace(self.zones, [keeper.zone for keeper in self.static.values()] + [one.keeper.zone for one in self.dynamic.values()])
        if rejected:
            log.warning(f"Skipped {rejected} member zones from catalog {origin}: outside configured member zones")
        for keeper in starts:
            keeper.start()

    def _admits(self, origin: str, zone: str) -> bool:
        admitted = self.block.catalogs[origin]
        return not admitted or ZoneList(admitted).match(zone) is not None

    def _follow(self, origin: str, member: Member) -> Keeper | None:
        """The keeper of a member that is new or has changed hands."""
        zone = member.zone
        standing = self.dynamic.get(zone)
        if standing is None:
            if zone in self.static:
                log.warning(f"Skipping catalog member zone {zone} from {origin}: zone already exists")
                return None
            log.info(f"Added catalog member zone {zone} from catalog {origin}")
            return self._serve(origin, member, None)
        if standing.catalog == origin:
            if standing.member.label == member.label:
                standing.member = member
                return None
            log.info(f"Reset catalog member zone {zone} from {origin} after member ID changed from {standing.member.label} to {member.label}")
            return self._serve(origin, member, None)
        source = self.catalogs[standing.catalog].member(zone)
        if source is None or source.owner != origin:
            log.warning(f"Skipping catalog member zone {zone} from {origin}: zone already exists")
            return None
        former = standing.catalog
        if standing.member.label == source.label == member.label:
            log.info(f"Migrated catalog member zone {zone} from catalog {former} to {origin}, preserving state for member ID {member.label}")
            return self._serve(origin, member, standing.keeper.zone)
        log.info(
            f"Migrated catalog member zone {zone} from catalog {former} to {origin} with state reset "
            f"after member identity changed from {source.label} to {member.label}"
        )
        return self._serve(origin, member, None)

    def _serve(self, origin: str, member: Member, zone: Zone | None) -> Keeper:
        """A keeper for the member with the catalog's primaries, on ``zone`` or on one that is empty."""
        settings = self.block.settings[origin]
        identity = (*settings.identity(member.zone), origin, member.label)
        former = self.dynamic.pop(member.zone, None)
        if former is not None and zone is None:
            self._drop(former.keeper)
        elif former is not None:
            self._let_go(former.keeper)
        keeper = _standing(identity) or _make(zone or Zone(member.zone), settings, identity)
        self._hold(keeper)
        self.dynamic[member.zone] = Dynamic(origin, member, keeper)
        return keeper


def _standing(identity: tuple[object, ...]) -> Keeper | None:
    with _lock:
        keeper = _kept.get(identity)
    return keeper if keeper is not None and not keeper.stopped else None


def _end_unused(keeper: Keeper) -> None:
    """Under the lock."""
    if keeper.users == 0 and not keeper.followers:
        keeper.stop()


# ---- for plugins that read secondary zones ----


def keeper_of(origin: str) -> Keeper | None:
    """The keeper of a zone, given in lower case: of a configuration that serves, or else of one that is about to."""
    with _lock:
        standing = [keeper for keeper in _kept.values() if not keeper.stopped and keeper.zone.origin.lower() == origin]
    held = [keeper for keeper in standing if keeper.users] or standing
    return held[-1] if held else None


def follow(keeper: Keeper, follower: Follower) -> None:
    """Have a follower called with each new version, and the zone kept as long as that, also where no server block has it any more."""
    with _lock:
        keeper.followers.append(follower)
    keeper.start()


def unfollow(keeper: Keeper, follower: Follower) -> None:
    """Undo `follow`."""
    with _lock:
        keeper.followers.remove(follower)
        _end_unused(keeper)


def _make(zone: Zone, settings: Settings, identity: tuple[object, ...]) -> Keeper:
    kept = Kept(zone, settings.store) if settings.store else None
    keeper = Keeper(zone, settings.primaries, settings.key, settings.limits, kept, settings.stale)
    with _lock:
        _kept[identity] = keeper
    return keeper
