"""Zones that are made of objects: answered by native code from the record index, changed by what each object's change means."""

from __future__ import annotations

import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fastdns import control
from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.executor.query import Record
from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneError, ZoneSet
from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.objects._handler import ObjectHandler
from fastdns.plugins.kubernetes.objects.claims import TYPE_NS, Change, Row, SharedClaim
from fastdns.plugins.kubernetes.objects.informer import Share
from fastdns.plugins.kubernetes.objects.kind import KubernetesObject, ObjectKind, Reference, Watched
from fastdns.plugins.kubernetes.objects.names import Names, Zones
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.zone.left_out import LEFT_OUT
from fastdns.plugins.transfer.journal import publish
from fastdns.plugins.transfer.serial import next_serial
from fastdns.protocol.parameters import TYPE_SOA
from fastdns.setup import Controller
from fastdns.setup.guard import call
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric
from fastdns.zonefile.rdata import lower

if TYPE_CHECKING:
    from fastdns.plugins.kubernetes.watch.connection import Api

__all__ = ["ObjectZones"]

#: Seconds of an SOA record: refresh, retry, expire; and the TTL of SOA and NS records and of negative answers.
TIMES = (7200, 1800, 86400)
APEX_TTL = 60
#: Octets of a server's name, so that the SOA record's mailbox is a name.
SERVER_MOST = 255 - len(b"\x0ahostmaster")
#: Seconds that a start waits for the first version of the zones once all objects are there.
PUBLISHED = 5.0
#: Names of shared claims that a version changes; other watches of the loop have their turn before the next.
AT_A_TIME = 2_000
#: Lines of the log in a minute about what is left out.
LINES = 10

NAMES = Metric("fastdns_kubernetes_object_names", "Names with records from objects.", "gauge", ("plugin",))


class ObjectZones:
    """Some zones, and the kinds of objects whose records are in them. Subclasses define `records`.

    ``name`` is the directive's; ``zones`` are those to answer for; ``kinds`` are in the order of precedence: of a name that objects of two kinds have,
    the records of the first kind count. ``servers`` are the names of the zones' name servers below each zone, the first of which is the SOA's; ``ttl``
    is that of records without one of their own, in seconds. Names in ``fall`` that are not there go on down the chain.
    """

    def __init__(
        self,
        name: str,
        zones: Sequence[str],
        kinds: Sequence[ObjectKind | Watched],
        options: ApiServerOptions | None = None,
        *,
        servers: Sequence[str] = ("ns1.dns",),
        ttl: int = 60,
        fall: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.ttl = ttl
        self.kinds = tuple(kind if isinstance(kind, Watched) else Watched(kind) for kind in kinds)
        self.options = options or ApiServerOptions()
        self.log = Log(f"plugin/{name}")
        origins = list(dict.fromkeys(zones))
        self._zones = [Zone(origin) for origin in origins]
        self._servers = [[name_wire(f"{server}.{origin}" if origin != "." else f"{server}.") for server in servers] for origin in origins]
        if any(len(server) > SERVER_MOST for names in self._servers for server in names):
            raise ValueError(f"a name server's name of more than {SERVER_MOST} octets")
        hosts = list(_hosts(servers, origins))
        self._names = Names(Zones(origins), [*(zone.wire for zone in self._zones), *map(name_wire, hosts)], self.leave_out)
        self._ranks = {watched: rank for rank, watched in enumerate(self.kinds)}
        self._missing = set(self.kinds)
        #: Zones that the next version replaces whole: those without one, and those whose changes did not fit.
        self._whole = set(range(len(origins)))
        self._published = threading.Event()
        #: The loop will call `flush`.
        self._going_on = False
        #: What is watched, once `serve` was called.
        self._shares: list[Share] = []
        self._api: Api
        #: The configuration has ended: nothing more is watched.
        self.ended = False
        self._ending = threading.Lock()
        self._minute, self._lines = 0, 0
        self.handler = ObjectHandler(name, ZoneSet(self._zones), fall, hosts=hosts)
        self.handler.plugin = self

    # ---- what subclasses define; on the thread of the control side's loop, so it must not wait ----

    def records(self, found: KubernetesObject) -> Iterable[tuple[str, str] | tuple[str, str, int]]:
        """The records of an object: host name, record (``A 192.0.2.1``), and its TTL in seconds if it has one. A name outside of the zones is
        taken as relative to each of them. What is no host name or no record is left out, with a warning."""
        return ()

    def rows(self, watched: Watched, found: KubernetesObject) -> Iterator[tuple[str, Row]]:
        """`records` in wire form."""
        for hostname, text, *ttl in self.records(found):
            try:
                record = Record.parse(text, ttl[0] if ttl else self.ttl)
            except ValueError as error:
                self.leave_out(f"{found!r}: {error}")
                continue
            if record.owner is None and 0 <= record.ttl < 1 << 31:
                yield hostname, (record.qtype, record.ttl, record.rdata)

    # ---- objects, see informer.py ----

    def changed(self, watched: Watched, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        found = after or before
        assert found is not None  # noqa: S101 - an object is there before or after
        self.claim(watched, found.namespace, found.name, after)

    def claim(self, watched: Watched, namespace: str, name: str, found: KubernetesObject | None) -> None:
        """Give an object its names anew; None: it has none any more."""
        rows: list[tuple[str, Row]] = []
        if found is not None:
            try:
                rows = [(hostname, (kind, ttl, lower(kind, rdata))) for hostname, (kind, ttl, rdata) in call(list, self.rows(watched, found))]
            except Exception as error:  # a plugin's own
                self.leave_out(f"{found!r}: {type(error).__name__}: {error}")
        self._names.put(Reference(watched, namespace, name), self._ranks[watched], rows)

    def shared(self, watched: Watched, most: int, source: Callable[[], Iterable[Row]], about: str) -> SharedClaim:
        """What many objects of a kind say of their names: at most ``most`` of the records that ``source`` gives, in lower case."""
        return SharedClaim(self._ranks[watched], most, source, about)

    def share(self, watched: Watched, namespace: str, name: str, claim: SharedClaim, hostnames: Iterable[str]) -> None:
        """Give an object its names anew, whose records are those of a shared claim, of as many as `shared_most` says."""
        self._names.share(Reference(watched, namespace, name), claim, hostnames)

    def renew(self, claim: SharedClaim) -> None:
        """The source of a shared claim may give other records now. Its names are looked at some at a time."""
        self._names.renew(claim)

    def listed(self, watched: Watched) -> None:
        self._missing.discard(watched)

    def flush(self) -> None:
        """Serve what has changed, once all kinds are there."""
        if self._missing:
            return
        changes: dict[int, list[Change]] = {place: [] for place in self._whole}
        for change in self._names.changes(None if self._whole else AT_A_TIME):
            changes.setdefault(change.zone, []).append(change)
        for place, its in changes.items():
            try:
                self._serve(place, its)
                self._whole.discard(place)
            except (ZoneError, ValueError, MemoryError) as error:
                self._whole.add(place)
                self.log.error(f"Failed to change {self._zones[place].origin}: {error}")
        if not self._whole:
            self._published.set()
        if self._names.pending and not self._going_on:
            self._going_on = True
            control.loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        if not self.ended:
            self.flush()

    # ---- versions of zones ----

    def _serve(self, place: int, changes: list[Change]) -> None:
        zone = self._zones[place]
        if place in self._whole:
            draft = zone.draft()
            for kind, ttl, rdata in self._apex(place):
                draft.add(zone.wire, kind, ttl, rdata)
            for owner, rows in self._names.records(place):
                for kind, ttl, rdata in rows:
                    draft.add(owner, kind, ttl, rdata)
            draft.finish()
            publish(zone, draft)
        else:
            assert zone.serial is not None  # noqa: S101 - there is a version
            version = ZoneChange(zone, zone.serial)
            for _, before, after, owners in changes:
                kept = set(before).intersection(after)
                version.replace(owners, [row for row in before if row not in kept], [row for row in after if row not in kept])
            soa, *_ = self._apex(place)
            version.add(zone.wire, *soa)
            version.finish()
            publish(zone, version)

    def _apex(self, place: int) -> list[Row]:
        """SOA and NS. The serial is the time in seconds, and greater than the last one (RFC 1982)."""
        zone, servers = self._zones[place], self._servers[place]
        serial = next_serial(int(time.time()), zone.serial)
        soa = servers[0] + b"\x0ahostmaster" + servers[0] + struct.pack("!IIIII", serial, *TIMES, APEX_TTL)
        return [(TYPE_SOA, APEX_TTL, soa), *((TYPE_NS, APEX_TTL, server) for server in servers)]

    def leave_out(self, text: str) -> None:
        """Count what is left out, and say why, at most `LINES` times in a minute."""
        LEFT_OUT.add((self.name,))
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        if self._lines <= LINES:
            self.log.warning("".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:500]))

    # ---- the life of a configuration ----

    def serve(self, controller: Controller) -> ObjectHandler:
        """The handler for the block's chain, whose objects are listed when the configuration starts. Raises CorefileError."""
        try:
            self._api = self.options.api()
        except ApiConfigError as error:
            raise CorefileError(str(error)) from None
        share = Share(self._api, self.options.limits, self.kinds)
        self._shares.append(share)
        # Also a configuration that never comes to serve gives its share back.
        weakref.finalize(self, share.release)
        controller.on_startup(self._start)
        controller.on_shutdown(self._stop)
        return self.handler

    def ready(self) -> bool:
        """Whether all kinds were listed."""
        return self._published.is_set()

    def _start(self) -> None:
        _count(self, True)
        LEFT_OUT.cell((self.name,), zero=True)
        share = self._shares[0]
        share.start(self, self.options.startup_timeout)
        if share.lease.synced:
            self._published.wait(PUBLISHED)

    def watch(self, watched: Watched) -> None:
        """Watch objects of one more kind, which have no names themselves: `changed` is told of them. For `changed`, and each kind once.

        The first version of the zones waits for them, later ones do not.
        """
        with self._ending:
            if self.ended:
                return
            if not self._published.is_set():
                self._missing.add(watched)
            share = Share(self._api, self.options.limits, [watched])
            self._shares.append(share)
            share.start(self, 0)

    def _stop(self) -> None:
        with self._ending:
            self.ended = True
        for share in self._shares:
            share.release()
        _count(self, False)

    def __len__(self) -> int:
        """Names with records."""
        return self._names.serving


def _hosts(servers: Iterable[str], origins: Sequence[str]) -> Iterator[str]:
    """The names of the servers, and those between them and their zones: all of them exist."""
    for origin in origins:
        for server in servers:
            labels = server.rstrip(".").split(".")
            for at in range(len(labels)):
                yield ".".join(labels[at:]) + ("." if origin == "." else f".{origin}")


#: By plugin those that serve; two of them during a reload.
_live: dict[str, list[ObjectZones]] = {}
_lock = threading.Lock()


def _count(zones: ObjectZones, begins: bool) -> None:
    """The gauge of names."""
    with _lock:
        live = _live.setdefault(zones.name, [])
        if begins:
            live.append(zones)
            NAMES.watch((zones.name,), lambda: sum(len(one) for one in _live.get(zones.name, ())))
        elif zones in live:
            live.remove(zones)
            if not live:
                NAMES.forget((zones.name,))
