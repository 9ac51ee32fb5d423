"""`replica ZONE`: objects from a zone that *secondary* of this process transfers from a server with the property `objects`; no API server.

See zone/objects.pxd for the records. A new version of the zone is one of the store, too: what has changed in it is read from the zone again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastdns import control
from fastdns.plugins.kubernetes.watch.problems import UNLISTED, Failure, Report
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone import objects
from fastdns.plugins.kubernetes.zone.intake import upsert_all
from fastdns.plugins.secondary.group import follow, keeper_of, unfollow
from fastdns.plugins.secondary.kept import read_once
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.control.eventloop import TaskGroup
    from fastdns.index.change import Row
    from fastdns.plugins.kubernetes.decode.refusals import Refusals
    from fastdns.plugins.kubernetes.watch.informers import Cluster
    from fastdns.plugins.secondary.keeper import Difference, Keeper

#: Seconds between two looks at who has the zone, and how old it is.
LOOK = 1.0

log = Log("plugin/kubernetes")


class Replica:
    """The zone of a `replica` property, in lower case."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.key: tuple[object, ...] = ("replica", zone)
        self.host = zone
        read_once(zone, self)


class ReplicaFeed:
    """Follows the secondary zone. What it hands over comes from one thread at a time, whichever.

    What is on disk is taken by the thread that starts the server, so that nothing else need run before the first answer.
    """

    direct = True

    def __init__(self, cluster: Cluster[Kind], origin: Replica, tasks: TaskGroup) -> None:
        self.cluster = cluster
        self.origin = origin
        self.tasks = tasks
        self.kinds: frozenset[Kind] = frozenset()
        self.keeper: Keeper | None = None
        #: Whether the store has the objects of its version that serves.
        self.taken = False
        self.lock = threading.Lock()
        #: Held while a keeper is begun to be followed.
        self.following = threading.Lock()
        self.started = False
        self.said = ""
        self.failure: Failure | None = None

    def watch(self, kinds: frozenset[Kind]) -> None:
        with self.following:
            with self.lock:
                for kind in self.kinds - kinds:
                    objects.drop(self.cluster.sink, kind)
                    self.cluster.unmark(kind)
                self.kinds = kinds
                self._leave()
            self._follow(keeper_of(self.origin.zone))
        if not self.started:
            self.started = True
            self.tasks.keep(self.run, f"the replica of {self.origin.zone}")

    def finish(self) -> None:
        with self.following, self.lock:
            self.kinds = frozenset()
            self._leave()

    def reports(self, now: float) -> Iterable[Report]:
        yield Report("zone", None, self._failing(now))

    def refusals(self) -> Iterable[Refusals]:
        return ()

    def _failing(self, now: float) -> Failure | None:
        """A zone that is not there or cannot be read is our failure; one that no primary confirms is not."""
        keeper = self.keeper
        age = keeper.zone.age if keeper is not None else None
        if keeper is not None and self.taken and age is not None:
            self.failure = None
            return Failure(now - age, f"no primary has confirmed {self.origin.zone}") if age > 0 else None
        if self.failure is None:
            self.failure = Failure(now, UNLISTED)
        transferred = keeper is not None and keeper.zone.serial is not None
        self.failure.again(now, self.said or UNLISTED, answers=keeper is None or transferred)
        return self.failure

    async def run(self) -> None:
        """Follow the zone of whichever configuration serves."""
        while True:
            keeper = keeper_of(self.origin.zone)
            if keeper is not self.keeper:
                await control.blocking(self._turn_to, keeper)
            if keeper is None:
                self._say(f"{self.origin.zone} is no zone of secondary: nothing is known of the cluster")
            else:
                self._tell_age(keeper)
            await control.sleep(LOOK)

    # ---- the zone ----

    def _leave(self) -> None:
        if self.keeper is not None:
            unfollow(self.keeper, self._changed)
            self.keeper = None
        self.taken = False

    def _turn_to(self, keeper: Keeper | None) -> None:
        with self.following:
            if keeper is not self.keeper:
                self._follow(keeper)

    def _follow(self, keeper: Keeper | None) -> None:
        with self.lock:
            self._leave()
            if keeper is None or not self.kinds:
                return
            self.keeper = keeper
        follow(keeper, self._changed)  # what it has on disk is told at once
        with self.lock:
            if keeper is self.keeper and keeper.zone.serial is not None and not self.taken:
                self._take_all(keeper)

    def _changed(self, keeper: Keeper, difference: Difference | None) -> None:
        """A new version serves; from a thread of the keeper."""
        with self.lock:
            if keeper is not self.keeper:
                return
            if difference is None or not self.taken or not self._take(keeper, *difference):
                self._take_all(keeper)

    def _tell_age(self, keeper: Keeper) -> None:
        """Since when changes may be missing, and how long that may be."""
        zone = keeper.zone
        since = None if zone.age is None else time.monotonic() - zone.age
        for kind in self.kinds:
            self.cluster.sink.lose(kind, since)
        self.cluster.sink.limit_age(zone.stale_after, zone.stale_fails)

    def _say(self, text: str) -> None:
        """Once, until something else is to be said."""
        if text != self.said:
            self.said = text
            if text:
                log.error(text)

    # ---- its objects; under the lock ----

    def _take_all(self, keeper: Keeper) -> None:
        """All objects of the version that serves."""
        zone = keeper.zone
        self.taken = False
        began = time.monotonic()
        kinds, missing = self._kinds_of(keeper)
        if not kinds:
            self._say(missing)
            return
        for kind in kinds:
            objects.begin(self.cluster.sink, kind)
        try:
            count = upsert_all(self.cluster.sink, zone.index, kinds, self.cluster.options.pod_labels)
            for kind in kinds:
                objects.commit(self.cluster.sink, kind)
        except (ValueError, MemoryError) as error:
            self._say(f"{self.origin.zone}: {str(error) or type(error).__name__}: the objects before stay")
            return
        for kind in kinds:
            self.cluster.mark(kind)
        objects.flush(self.cluster.sink)
        self.taken = True
        log.debug(f"Took {count} objects of {self.origin.zone} in {(time.monotonic() - began) * 1000:.0f} ms")
        self._say(missing)

    def _take(self, keeper: Keeper, deleted: Iterable[Row], added: Iterable[Row]) -> bool:
        """What has changed; False where all must be taken again."""
        zone, kinds = keeper.zone, self.kinds
        heads: dict[bytes, bytes] = {}
        owners: set[bytes] = set()
        for rows, gone in ((deleted, True), (added, False)):
            for owner, type_, _, rdata in rows:
                if owner == zone.wire:
                    if type_ == objects.TYPE_OBJECT:
                        return False
                elif type_ == objects.TYPE_OBJECT:
                    owners.add(owner)
                    if gone and rdata[1] == objects.PART_HEAD:
                        heads[owner] = rdata
        changed: list[tuple[int, bytes]] = []
        removed: list[tuple[int, bytes]] = []
        try:
            for owner in owners:
                parts = [rdata for kind, _, rdata in zone.index.get(owner) if kind == objects.TYPE_OBJECT]
                if parts:
                    changed.append(join(parts))
                elif owner in heads:
                    removed.append(join([heads[owner]]))
            # Nothing is changed where not everything can be.
            for kind, message in (*changed, *removed):
                objects.validate(kind, message)
            for kind, message in changed:
                self._upsert(kind, message, kinds)
            for kind, message in removed:
                if kind in kinds:
                    objects.remove(self.cluster.sink, kind, message)
        except (ValueError, MemoryError):
            return False
        objects.flush(self.cluster.sink)
        return True

    def _kinds_of(self, keeper: Keeper) -> tuple[frozenset[Kind], str]:
        """The kinds that are wanted and in the zone, and what is missing there."""
        apex = [rdata for kind, _, rdata in keeper.zone.index.get(keeper.zone.wire) if kind == objects.TYPE_OBJECT]
        if len(apex) != 1 or apex[0][:1] != bytes([objects.FORMAT]) or len(apex[0]) != 3:
            return frozenset(), f"{self.origin.zone} is no zone of objects that this version reads"
        kinds = frozenset(kind for kind in self.kinds if apex[0][1] >> kind & 1)
        if kinds != self.kinds:
            missing = " ".join(sorted(kind.name.lower() for kind in self.kinds - kinds))
            return kinds, f"{self.origin.zone} has no {missing}: the server that it is from does not watch them"
        missing = self._missing_extras(apex[0][2])
        return kinds, missing and f"{self.origin.zone} has no {missing}: the server that it is from has to name it behind `objects`"

    def _missing_extras(self, extras: int) -> str:
        wanted = self.cluster.options
        if wanted.pod_labels and not extras & objects.EXTRA_LABELS:
            return "labels"
        return "topology" if wanted.places and not extras & objects.EXTRA_PLACES else ""

    def _upsert(self, kind: int, message: bytes, kinds: frozenset[Kind]) -> None:
        if kind in kinds:
            objects.upsert(self.cluster.sink, kind, message, self.cluster.options.pod_labels)


def join(parts: list[bytes]) -> tuple[int, bytes]:
    """The kind and the message of an object. Raises ValueError where they are not the parts of one."""
    heads = [part for part in parts if part[1:2] == bytes([objects.PART_HEAD])]
    if len(heads) != 1 or any(part[:1] != heads[0][:1] for part in parts):
        raise ValueError("an object has no head, or several")
    return heads[0][0], heads[0][2:] + b"".join(sorted(part[2:] for part in parts if part is not heads[0]))
