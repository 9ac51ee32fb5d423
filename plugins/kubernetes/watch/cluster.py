"""Informers that server blocks and reloads share: one set for each (API server, credentials, selectors).

    lease = cluster.acquire(Endpoint(url), Options(), kinds(pods=True), Store)    # at set-up; lease.sink is the Store
    lease.start()                                                                 # OnStartup
    lease.wait(seconds)                                                           # True when everything asked for is synced
    lease.release()                                                               # OnShutdown

A reload acquires before the old configuration releases, so what both ask for goes on without a pause. A kind that nobody asks for any more is
stopped and dropped from the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, cast

from fastdns.control.eventloop import Task, TaskGroup
from fastdns.plugins.kubernetes.watch.informers import Cluster, Feed, K, MakeFeed, Options, Origin
from fastdns.plugins.kubernetes.watch.problems import Report
from fastdns.plugins.kubernetes.watch.resources import KINDS, RESOURCES, Kind
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.kubernetes.decode.objects import Sink
    from fastdns.plugins.kubernetes.decode.refusals import Refusals
    from fastdns.plugins.kubernetes.watch.connection import Api
    from fastdns.plugins.kubernetes.watch.namespaced import Part
    from fastdns.plugins.kubernetes.watch.reflector import Reflector
    from fastdns.plugins.kubernetes.watch.snapshot import Snapshot

#: Seconds between looks at what is synced while a start waits, and between the lines that say so.
LOOK = 0.1
SAY = 0.5

log = Log("plugin/kubernetes")


class ApiFeed:
    """A reflector for each kind wanted, and the snapshot."""

    direct = False

    def __init__(self, cluster: Cluster[Kind], api: Api, tasks: TaskGroup) -> None:
        from fastdns.plugins.kubernetes.watch.client import Client
        from fastdns.plugins.kubernetes.watch.namespaced import Fallback
        from fastdns.plugins.kubernetes.watch.reflector import Health

        self.cluster = cluster
        self.tasks = tasks
        self.client = Client(api, cluster.options.limits)
        self.health = Health()
        self.running: dict[Kind, tuple[Reflector, Task | None]] = {}
        #: Of kinds that may not be listed in all namespaces, by namespace.
        self.parts: dict[Kind, dict[str, Part]] = {}
        self.snapshot: Snapshot | None = None
        self.fallback = Fallback(cluster, tasks, self._part, self._synced)

    def watch(self, kinds: frozenset[Kind]) -> None:
        from fastdns.plugins.kubernetes.decode.stream import Stream
        from fastdns.plugins.kubernetes.watch.reflector import Reflector

        cluster = self.cluster
        if cluster.options.snapshot and self.snapshot is None:
            self._open_snapshot(kinds)
        for kind in sorted(self.running.keys() - kinds):
            reflector, task = self.running.pop(kind)
            if task is not None:
                task.cancel()
            self.fallback.end(kind)
            reflector.stream.drop()
            cluster.unmark(kind)
        for kind in sorted(kinds - self.running.keys()):
            selector = cluster.options.selectors.of(kind)
            stream = Stream(cluster.sink, kind, cluster.options.pod_labels)
            reflector = Reflector(self.client, RESOURCES[kind], selector, stream, self.health)
            reflector.on_synced = partial(self._synced, kind)
            reflector.on_forbidden = partial(self.fallback.begin, kind)
            reflector.on_allowed = partial(self.fallback.end, kind)
            reflector.on_contact = partial(self._contact, kind)
            self.running[kind] = (reflector, self.tasks.keep(reflector.run, f"the watch of {kind.name.lower()}s"))
        self.fallback.rename()

    def _part(self, kind: Kind, namespace: str) -> Part:
        from fastdns.plugins.kubernetes.decode.stream import Stream
        from fastdns.plugins.kubernetes.watch.namespaced import make_part

        part = make_part(namespace, self.running[kind][0], Stream(self.cluster.sink, kind, self.cluster.options.pod_labels))
        parts = self.parts.setdefault(kind, {})
        if namespace in parts:
            part.lost = parts[namespace].lost  # until it is listed
        part.on_contact = partial(self._contact, kind)
        parts[namespace] = part
        return part

    def _contact(self, kind: Kind) -> None:
        """Tell the store since when it may lack changes of a kind."""
        reflectors: Iterable[Reflector] = [self.running[kind][0]] if kind in self.running else []
        if kind in self.fallback.running:
            reflectors = self._watching(kind)
        lost = [one.lost for one in reflectors if one.lost is not None]
        self.cluster.sink.lose(kind, min(lost, default=None))

    def _open_snapshot(self, kinds: frozenset[Kind]) -> None:
        from fastdns.plugins.kubernetes.watch.snapshot import Snapshot

        cluster = self.cluster
        self.snapshot = Snapshot(cluster.options.snapshot, cluster, self.client.api.address.netloc)
        for kind in self.snapshot.load(kinds):
            cluster.mark(kind, listed=False)
        self.tasks.keep(self.snapshot.run, "the snapshot")

    def _synced(self, kind: Kind) -> None:
        self.cluster.mark(kind)
        if self.snapshot is not None:
            self.snapshot.synced(kind)

    def reports(self, now: float) -> Iterable[Report]:
        for kind, (reflector, _) in self.running.items():
            failures = [one.failing(now) for one in (reflector, *self._watching(kind))]
            failing = [failure for failure in failures if failure is not None]
            yield Report(KINDS[kind], frozenset((kind,)), min(failing, key=lambda failure: failure.since, default=None))

    def refusals(self) -> Iterable[Refusals]:
        for kind, (reflector, _) in self.running.items():
            yield from (one.stream.refusals for one in (reflector, *self._watching(kind)))

    def _watching(self, kind: Kind) -> list[Part]:
        """The watches of single namespaces, if the kind has such."""
        if kind not in self.fallback.running:
            return []
        return [part for namespace, part in self.parts.get(kind, {}).items() if namespace in self.fallback.namespaces]

    def finish(self) -> None:
        if self.snapshot is not None:
            self.snapshot.save()
        self.client.close()


def make_feed(cluster: Cluster[Kind], tasks: TaskGroup) -> Feed[Kind]:
    """What brings the objects of a cluster's origin."""
    kind = cluster.origin.key[0]
    if kind == "replica":
        from fastdns.plugins.kubernetes.watch.replica import Replica, ReplicaFeed

        return ReplicaFeed(cluster, cast(Replica, cluster.origin), tasks)
    if kind == "manifests":
        from fastdns.plugins.kubernetes.watch.manifests import ManifestFeed, Manifests

        return ManifestFeed(cluster, cast(Manifests, cluster.origin), tasks)
    return ApiFeed(cluster, cast("Api", cluster.origin), tasks)


class Lease(Generic[K]):
    """One holder's share of a cluster, with the kinds that it needs."""

    def __init__(self, cluster: Cluster[K], kinds: frozenset[K], namespaces: frozenset[str]) -> None:
        self.cluster = cluster
        self.kinds = kinds
        #: The only ones of which this holder answers; none for all.
        self.namespaces = namespaces
        self.started = False
        self.released = False

    @property
    def sink(self) -> Sink:
        """The store, the same for all holders."""
        return self.cluster.sink

    @property
    def synced(self) -> bool:
        """Whether the store can answer for everything this holder needs: what `ready` asks."""
        return self.kinds <= self.cluster.served

    @property
    def stale(self) -> bool:
        """Whether something still comes from a snapshot."""
        return not self.kinds <= self.cluster.listed

    def start(self) -> None:
        """Begin to list and watch."""
        if not self.started:
            self.started = True
            self.cluster.want(self.kinds, self.namespaces)

    def wait(self, seconds: float, say: bool = True) -> bool:
        """Wait until synced; True when it is. With ``say`` the log tells of it as CoreDNS does."""
        until = time.monotonic() + seconds
        next_line = time.monotonic() + SAY
        with self.cluster.changed:
            while not self.synced:
                now = time.monotonic()
                if now >= until:
                    if say:
                        log.warning("starting server with unsynced Kubernetes API")
                    return False
                if say and now >= next_line:
                    next_line += SAY
                    log.info("waiting for Kubernetes API before starting server")
                self.cluster.changed.wait(min(until - now, max(next_line - now, 0.001) if say else LOOK))
        return True

    def release(self) -> None:
        """Give the share back; the last one ends the informers."""
        with registry_lock:
            if self.released:
                return
            self.released = True
            cluster = self.cluster
            cluster.leases -= 1
            last = cluster.leases == 0
            if last:
                registry.pop((cluster.origin.key, cluster.options, cluster.make_feed), None)
            if self.started:
                cluster.unwant(self.kinds, self.namespaces)
        if last:
            cluster.stop()


#: Clusters in use.
registry: dict[tuple[object, ...], Cluster[Any]] = {}
#: Taken again by the same thread when the garbage collector lets go of a share inside of it.
registry_lock = threading.RLock()


def acquire(origin: Origin, options: Options, kinds: Iterable[Kind], make_sink: Callable[[], Sink], namespaces: Iterable[str] = ()) -> Lease[Kind]:
    """A share of the informers of an API server or of manifests; they are made when nobody has them yet. Nothing runs before ``Lease.start``.

    With ``namespaces`` the holder answers of no others, so that rights in these are enough (namespaced.py).
    """
    return share(origin, options, kinds, make_sink, make_feed, namespaces)


def share(origin: Origin, options: Options, kinds: Iterable[K], make_sink: Callable[[], Sink], feed: MakeFeed[K], namespaces: Iterable[str] = ()) -> Lease[K]:
    """`acquire` for any kinds, which ``feed`` watches."""
    with registry_lock:
        key = (origin.key, options, feed)
        cluster: Cluster[K] | None = registry.get(key)
        if cluster is None:
            cluster = registry[key] = Cluster(origin, options, make_sink(), feed)
        cluster.leases += 1
        return Lease(cluster, frozenset(kinds), frozenset(namespaces))
