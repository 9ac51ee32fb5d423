"""Dynamic zones, which the configurations of the process share: their database, and their updates one after the other.

Threads of `POOL` work on the updates of a zone in turn, so a disk that hangs holds up its own zone, and no worker.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from fastdns import control
from fastdns._wire import name_text
from fastdns.corefile.errors import defect, quoted
from fastdns.index.zone import Zone
from fastdns.plugins.dynupdate.changes import FORMERR, NOERROR, REFUSED, Draft, UpdateRecord, growth
from fastdns.plugins.dynupdate.content import ContentError, Limits, Row, draft_of, read_seed, record_size
from fastdns.plugins.dynupdate.holdings import Held, Holdings, ShareError
from fastdns.plugins.dynupdate.policy import Permissions
from fastdns.plugins.transfer.journal import publish
from fastdns.protocol.parameters import rcode_text
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.plugins.dynupdate._dynupdate import Update
    from fastdns.plugins.dynupdate.database import Database

__all__ = ["DynamicZone", "Listener", "acquire", "prepare", "release"]

log = Log("plugin/dynupdate")

POOL: Final = control.Pool("dynupdate", 8)
#: Seconds between two attempts to open a database.
RETRY: Final = 5.0
#: A generation that no database has.
UNREAD: Final = -1
#: While another process may change the zone (SIGUSR2): seconds between two looks at the database, and how long they go on.
LOOK: Final = 0.2
LOOKS: Final = 120.0

SERVFAIL = 2

UPDATES = Metric("fastdns_dynupdate_updates_total", "Counter of signed UPDATE messages for a dynamic zone.", "counter", ("zone", "rcode"))
SECONDS = Metric(
    "fastdns_dynupdate_update_duration_seconds",
    "Histogram of the time that each UPDATE took, the wait for those before it and the disk included.",
    "histogram",
    ("zone",),
    (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096),
    1e9,
)
RECORDS = Metric("fastdns_dynupdate_zone_records", "Number of records in a dynamic zone.", "gauge", ("zone",))
KEY_RECORDS = Metric("fastdns_dynupdate_key_records", "Number of records in a dynamic zone that a key wrote last.", "gauge", ("zone", "key"))
KEY_OCTETS = Metric("fastdns_dynupdate_key_bytes", "Size of the records in a dynamic zone that a key wrote last.", "gauge", ("zone", "key"))
KEY_REFUSED = Metric(
    "fastdns_dynupdate_key_refused_total", "Counter of UPDATE messages that would take what other keys are sure of.", "counter", ("zone", "key")
)
OCTETS = Metric("fastdns_dynupdate_zone_bytes", "Size of the records of a dynamic zone in uncompressed form.", "gauge", ("zone",))


class Listener:
    """What a directive wants to know of its zone. Functions are called by threads of `POOL`."""

    def __init__(self, serve: Callable[[bool], object], keys: Iterable[bytes] = ()) -> None:
        #: Keys that may change the zone, each of which is sure of a share of it.
        self.keys = frozenset(keys)
        #: Gets whether the zone can be served; called when that changes.
        self.serve = serve
        #: Gets the zone's name when an UPDATE has changed it.
        self.notify: Callable[[str], object] | None = None


class DynamicZone:
    """One zone, in memory alone or with a database. From any thread."""

    def __init__(self, zone: Zone, path: str, generation: int, limits: Limits, holdings: Holdings | None = None) -> None:
        """``path`` is the database's, "" for none. ``generation`` is that of the records in the database, 0 where it is to be made of them.

        ``holdings``: who wrote them; None: nobody.
        """
        self.zone = zone
        self.path = path
        self.limits = limits
        #: Directives of all configurations that have it; of `_lock`.
        self.users = 0
        self.listeners: list[Listener] = []
        self._lock = threading.Lock()
        #: By key, whose turns follow each other; the oldest turn first.
        self._tasks: dict[bytes, deque[Callable[[], object]]] = {}
        self._running = False
        self._look_until = 0.0
        self._looking = False
        self._retrying = False
        # All below is of whoever runs a task.
        self._generation = generation
        self._database: Database | None = None
        self._serving = True
        self._said = ""
        self._holdings = holdings or Holdings()
        #: Keys whose last change was refused because of the others' shares.
        self._refused: set[bytes] = set()
        #: Keys that have numbers in the metrics.
        self._shown: frozenset[bytes] = frozenset()
        self._count()

    @property
    def serving(self) -> bool:
        """Whether the zone can be served: its database is open, or is to be opened."""
        return self._serving

    # ---- tasks, one at a time ----

    def submit(self, task: Callable[[], object], key: bytes = b"") -> None:
        """Run a task after those of the same key before it. Keys take turns, so one that sends many UPDATEs holds up others by one at a time."""
        with self._lock:
            self._tasks.setdefault(key, deque()).append(task)
            if self._running:
                return
            self._running = True
        self._turn()

    def _turn(self) -> None:
        """One task in each turn, so that zones with many tasks leave threads to the others."""
        try:
            POOL.submit(self._run)
        except RuntimeError as error:  # no thread can be started: the tasks' updates are answered with SERVFAIL
            log.error(f"{self.zone.origin}: {error}")
            with self._lock:
                self._tasks.clear()
                self._running = False

    def _run(self) -> None:
        with self._lock:
            key = next(iter(self._tasks))
            tasks = self._tasks.pop(key)
            task = tasks.popleft()
            if tasks:
                self._tasks[key] = tasks  # behind all others
        try:
            task()
        except Exception as error:
            log.error(defect(error))
        del task
        with self._lock:
            self._running = bool(self._tasks)
            if not self._running:
                return
        self._turn()

    # ---- the database ----

    def open(self) -> None:
        """Open the database, or make it; a task. What fails is tried again."""
        if self.users == 0 or not self.path or self._database is not None:
            return
        try:
            self._open()
        except (ContentError, MemoryError) as error:
            if str(error) != self._said:
                self._said = str(error)
                log.error(f"{self.zone.origin} is not served: {error or 'no memory'}")
            self._serve(False)
            if not self._retrying:
                self._retrying = True
                control.after(RETRY, self._retry)
        else:
            if self._said:
                log.info(f"{self.zone.origin} is served again")
                self._said = ""
            self._serve(True)

    def _retry(self) -> None:
        self._retrying = False
        self.submit(self.open)

    def _open(self) -> None:
        from fastdns.plugins.dynupdate.database import Database, check

        if self._generation == UNREAD:
            check(self.path, self.zone.wire, self.limits)
        if not self._generation and not os.path.lexists(self.path):
            database = Database.create(self.path, self.zone.wire, self.zone.index.snapshot())
        else:
            database = Database(self.path, self.zone.wire)
        try:
            if database.generation() != self._generation:
                self._load(database)
        except BaseException:
            database.close()
            raise
        self._database = database

    def _load(self, database: Database) -> None:
        """Serve what another process has made of the zone, or what was in the file before this one. Raises ContentError and MemoryError."""
        stored = database.read(self.limits, whole=self._database is None)
        try:
            publish(self.zone, draft_of(self.zone, stored.rows))
        except ValueError as error:
            raise ContentError(f"building zone {quoted(self.zone.origin)}: {error}") from error
        self._generation = stored.generation
        self._holdings = Holdings(stored.rows, stored.writers)
        self._count()

    def _serve(self, serving: bool) -> None:
        if serving != self._serving:
            self._serving = serving
            with self._lock:
                listeners = list(self.listeners)
            for listener in listeners:
                listener.serve(serving)

    def close(self) -> None:
        """Close the database, unless somebody has the zone again; a task."""
        if self.users == 0 and self._database is not None:
            self._database.close()
            self._database = None

    # ---- another process ----

    def watch(self) -> None:
        """For a time another process may change the zone in the database: follow it."""
        if not self.path:
            return
        with self._lock:
            self._look_until = time.monotonic() + LOOKS
            if self._looking:
                return
            self._looking = True
        control.after(LOOK, self._look)

    def _look(self) -> None:
        with self._lock:
            if self.users == 0 or time.monotonic() > self._look_until:
                self._looking = False
                return
        self.submit(self._follow)
        control.after(LOOK, self._look)

    def _follow(self) -> None:
        if self._database is None:
            return
        try:
            if self._database.generation() != self._generation:
                self._load(self._database)
        except (ContentError, MemoryError) as error:
            log.error(f"{self.zone.origin}: {error}")

    def _recover(self) -> None:
        """After a failure: whether the disk has the change may be unknown, and the file may have become writable; a task."""
        if self._database is None:
            return
        try:
            self._database.reopen()
        except ContentError as error:
            log.debug(f"{self.zone.origin}: {error}")
        else:
            self._follow()

    # ---- updates ----

    def update(self, update: Update, permissions: Permissions, limits: Limits, came: float) -> None:
        """Apply an UPDATE and answer it; a task."""
        if not update.wanted:
            return
        origin = self.zone.origin
        rcode = SERVFAIL
        changed = False
        try:
            rcode, changed = self._update(update, permissions, limits)
        except (ValueError, MemoryError) as error:
            log.error(f"UPDATE for {origin} failed: {error or 'no memory'}")
            self.submit(self._recover)
        finally:
            UPDATES.add((origin, rcode_text(rcode)))
            SECONDS.observe((origin,), time.monotonic() - came)
            update.answer(rcode)
        if changed:
            self._notify()

    def _update(self, update: Update, permissions: Permissions, limits: Limits) -> tuple[int, bool]:
        """The rcode, and whether the zone has changed. Raises ContentError and MemoryError for SERVFAIL."""
        # Who has no permission at all learns nothing of the zone.
        if not permissions.knows(update.key):
            return REFUSED, False
        try:
            prerequisites, updates = update.sections()
        except ValueError:
            return FORMERR, False
        if len(prerequisites) + len(updates) > limits.update_records:
            return REFUSED, False
        if self.path and self._database is None:
            self.open()
            if self._database is None:
                raise ContentError("the database is not open")
        database = self._database
        if database is None:
            return self._apply(prerequisites, updates, update.key, permissions, limits, None)
        with database.transaction():
            if database.generation() != self._generation:
                self._load(database)
            return self._apply(prerequisites, updates, update.key, permissions, limits, database)

    def _apply(
        self,
        prerequisites: list[UpdateRecord],
        updates: list[UpdateRecord],
        key: bytes,
        permissions: Permissions,
        limits: Limits,
        database: Database | None,
    ) -> tuple[int, bool]:
        draft = Draft(self.zone)
        rcode = draft.refusal(prerequisites, updates, key, permissions)
        if rcode != NOERROR:
            return rcode, False
        draft.apply(updates)
        if not draft.changed:
            return NOERROR, False
        draft.finish()
        deleted, added = draft.difference()
        records, octets = growth(deleted, added)
        try:
            limits.check(self._records + records, self._octets + octets)
            self._holdings.check(deleted, added, key, self._keys(), Held(self._records + records, self._octets + octets), limits)
        except ShareError as error:
            self._refuse(key, error)
            return REFUSED, False
        except ContentError as error:
            log.error(f"UPDATE for {self.zone.origin} failed: {error}")
            return REFUSED, False
        try:
            change = draft.change(deleted, added)
        except ValueError as error:
            raise ContentError(f"building candidate zone: {error}") from error
        if database is not None:
            database.write(self._generation + 1, deleted, added, key)
        publish(self.zone, change)
        self._generation += 1
        self._records += records
        self._octets += octets
        self._holdings.apply(deleted, added, key)
        if key in self._refused and records > 0:
            self._refused.discard(key)
            log.info(f"{self.zone.origin}: key {name_text(key)} is within its part again")
        self._show()
        return NOERROR, True

    def _refuse(self, key: bytes, error: ShareError) -> None:
        """Count an UPDATE, and log the first one in a row."""
        KEY_REFUSED.add((self.zone.origin, name_text(key)))
        if key not in self._refused:
            self._refused.add(key)
            log.error(f"UPDATE for {self.zone.origin} failed: {error}")

    def _keys(self) -> frozenset[bytes]:
        """The keys of all directives that serve the zone."""
        with self._lock:
            return frozenset(key for listener in self.listeners for key in listener.keys)

    def _notify(self) -> None:
        with self._lock:
            found = [listener.notify for listener in self.listeners if listener.notify is not None]
        for notify in found:
            try:
                notify(self.zone.origin)
            except (OSError, ValueError) as error:
                log.warning(f"NOTIFY for {self.zone.origin} after UPDATE failed: {error}")

    # ---- numbers ----

    def _count(self) -> None:
        rows = list(self.zone.index.snapshot(sorted=False))
        self._records = len(rows)
        self._octets = sum(record_size(owner, rdata) for owner, _, _, rdata in rows)
        self._show()

    def _show(self) -> None:
        if self.users == 0:
            return
        RECORDS.set((self.zone.origin,), self._records)
        OCTETS.set((self.zone.origin,), self._octets)
        keys = self._keys()
        for key in keys:
            held = self._holdings.of(key)
            KEY_RECORDS.set((self.zone.origin, name_text(key)), held.records)
            KEY_OCTETS.set((self.zone.origin, name_text(key)), held.octets)
            KEY_REFUSED.cell((self.zone.origin, name_text(key)), True)
        self.forget(self._shown - keys)
        self._shown = keys

    def forget(self, keys: Iterable[bytes]) -> None:
        """Withdraw the numbers of keys."""
        for key in keys:
            for metric in (KEY_RECORDS, KEY_OCTETS):
                metric.forget((self.zone.origin, name_text(key)))

    def check(self, limits: Limits) -> None:
        """Raises ContentError where the zone exceeds a directive's limits."""
        limits.check(self._records, self._octets)


# ---- those of the process ----

#: With a database, by its path, which is absolute.
_zones: dict[str, DynamicZone] = {}
#: All that directives serve, the newest last.
_served: list[DynamicZone] = []
_lock = threading.Lock()


def prepare(origin: str, seed: str, path: str, limits: Limits, *, starting: bool = False) -> DynamicZone:
    """The zone of a directive, which nobody else sees yet; no file is made or changed. Raises ContentError and MemoryError.

    One that the process has already is checked, and given for `acquire`. While the process is ``starting``, a database that cannot be used makes a zone
    that is not served until it can.
    """
    with _lock:
        found = _find(path, seed)
    zone = Zone(origin)
    if found is not None:
        if found.zone.wire != zone.wire:
            raise ContentError(f"database already serves zone {quoted(found.zone.origin)}")
        found.check(limits)
        return found
    generation = 0
    rows: list[Row] = []
    writers: list[bytes | None] = []
    if path and os.path.lexists(path):
        from fastdns.plugins.dynupdate import database

        try:
            generation, rows, writers = database.check(path, zone.wire, limits)
        except ContentError:
            if not starting:
                raise
            unread = DynamicZone(zone, path, UNREAD, limits)
            unread._serving = False
            return unread
    else:
        rows = read_seed(seed, zone.origin, zone.wire, limits)
    try:
        zone.publish(draft_of(zone, rows))
    except ValueError as error:
        raise ContentError(f"building zone {quoted(zone.origin)}: {error}") from error
    return DynamicZone(zone, path, generation, limits, Holdings(rows, writers))


def _find(path: str, seed: str) -> DynamicZone | None:
    """The zone of the process that has this database. Of `_lock`."""
    try:
        status = os.stat(path) if path else None
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise ContentError(f"opening database {quoted(path)}: {error.strerror}") from error
    if status is not None and _same(status, seed):
        raise ContentError("database and seed must be different files")
    return next((one for other, one in _zones.items() if other == path or (status is not None and _same(status, other))), None)


def _same(status: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False


def acquire(prepared: DynamicZone, listener: Listener, seed: str, limits: Limits) -> DynamicZone:
    """The zone that a directive serves from now on: that which the process has of the database, or else the prepared one. `release` gives it back."""
    with _lock:
        zone = (_find(prepared.path, seed) or prepared) if prepared.path else prepared
        with zone._lock:
            zone.users += 1
            zone.listeners.append(listener)
            zone.limits = limits
        if zone.path:
            _zones[zone.path] = zone
        if zone not in _served:
            _served.append(zone)
        zone._show()
    return zone


def release(zone: DynamicZone, listener: Listener) -> None:
    """The last one closes the database."""
    with _lock:
        with zone._lock:
            zone.users -= 1
            zone.listeners.remove(listener)
            last = zone.users == 0
        if last:
            _zones.pop(zone.path, None)
            _served.remove(zone)
            _withdraw(zone)
    if last:
        zone.submit(zone.close)


def _withdraw(zone: DynamicZone) -> None:
    """Its numbers are no more, unless another zone of that name has taken its place."""
    zone.forget(zone._shown)
    others = [one for one in _served if one.zone.origin == zone.zone.origin]
    if others:
        others[-1]._show()
        return
    for metric in (RECORDS, OCTETS):
        metric.forget((zone.zone.origin,))
