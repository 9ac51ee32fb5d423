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
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from fastdns import control
from fastdns.control.eventloop import Task, TaskGroup
from fastdns.plugins.kubernetes.watch.client import Limits
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.kubernetes.decode.objects import Sink
    from fastdns.plugins.kubernetes.watch.connection import Api
    from fastdns.plugins.kubernetes.watch.reflector import Reflector
    from fastdns.plugins.kubernetes.watch.snapshot import Snapshot

#: Seconds between looks at what is synced while a start waits, and between the lines that say so.
LOOK = 0.1
SAY = 0.5

log = Log("plugin/kubernetes")


@dataclass(frozen=True)
class Options:
    """What tells two sets of informers of one API server apart, and how they behave."""

    selectors: Selectors = field(default_factory=Selectors)
    limits: Limits = field(default_factory=Limits)
    #: Whether pods are handed over with their labels (for metadata and acl).
    pod_labels: bool = False
    #: File of the snapshot, "" for none.
    snapshot: str = ""


class Origin(Protocol):
    """Where objects come from: an API server or manifests."""

    @property
    def key(self) -> tuple[object, ...]: ...


class Cluster:
    """The informers of one origin, their tasks and their store."""

    def __init__(self, origin: Origin, options: Options, sink: Sink) -> None:
        self.origin = origin
        self.options = options
        self.sink = sink
        self.wanted: Counter[Kind] = Counter()
        self.changed = threading.Condition()
        #: Kinds that were listed whole by this process.
        self.listed: set[Kind] = set()
        #: Kinds that the store can answer from: listed, or loaded from a snapshot.
        self.served: set[Kind] = set()
        self.leases = 0
        self.tasks: TaskGroup | None = None
        self.feed: Feed | None = None

    def want(self, kinds: Iterable[Kind]) -> None:
        """Start what is not running yet. From any thread."""
        self.wanted.update(kinds)
        if self.tasks is None:
            self.tasks = TaskGroup(control.loop(urgent=self))
            self.feed = self._make_feed(self.tasks)
        self._tell()

    def unwant(self, kinds: Iterable[Kind]) -> None:
        """Stop what nobody else wants."""
        self.wanted.subtract(kinds)
        self.wanted += Counter()
        if self.tasks is not None and self.leases:
            self._tell()

    def _tell(self) -> None:
        kinds = frozenset(self.wanted)
        tasks, feed = self.tasks, self.feed
        if tasks is not None and feed is not None:
            tasks.loop.call_soon(feed.watch, kinds)

    def _make_feed(self, tasks: TaskGroup) -> Feed:
        from fastdns.plugins.kubernetes.watch.connection import Api

        if isinstance(self.origin, Api):
            return ApiFeed(self, self.origin, tasks)
        from fastdns.plugins.kubernetes.watch.manifests import ManifestFeed, Manifests

        assert isinstance(self.origin, Manifests)  # noqa: S101 - there is no third kind
        return ManifestFeed(self, self.origin, tasks)

    def mark(self, kind: Kind, listed: bool = True) -> None:
        """A kind has arrived in the store. Once all are there the workers come first; until then, being late would be worse."""
        with self.changed:
            self.served.add(kind)
            if listed:
                self.listed.add(kind)
            self.changed.notify_all()
        tasks = self.tasks
        if tasks is not None and self.served >= set(self.wanted):
            tasks.loop.end_urgent(self)

    def unmark(self, kind: Kind) -> None:
        """A kind was dropped."""
        with self.changed:
            self.served.discard(kind)
            self.listed.discard(kind)

    def stop(self) -> None:
        """End the tasks. The store stays as it is."""
        if self.tasks is not None:
            self.tasks.stop(self.feed.finish if self.feed is not None else None)
            self.tasks.loop.end_urgent(self)
            self.tasks = None


class Feed(Protocol):
    """What runs on the loop for a cluster. All calls on its thread."""

    def watch(self, kinds: frozenset[Kind]) -> None:
        """From now on these kinds."""

    def finish(self) -> None:
        """The end is near."""


class ApiFeed:
    """A reflector for each kind wanted, and the snapshot."""

    def __init__(self, cluster: Cluster, api: Api, tasks: TaskGroup) -> None:
        from fastdns.plugins.kubernetes.watch.client import Client
        from fastdns.plugins.kubernetes.watch.reflector import Health

        self.cluster = cluster
        self.tasks = tasks
        self.client = Client(api, cluster.options.limits)
        self.health = Health()
        self.running: dict[Kind, tuple[Reflector, Task | None]] = {}
        self.snapshot: Snapshot | None = None

    def watch(self, kinds: frozenset[Kind]) -> None:
        from fastdns.plugins.kubernetes.watch.reflector import Reflector

        cluster = self.cluster
        if cluster.options.snapshot and self.snapshot is None:
            self._open_snapshot(kinds)
        for kind in sorted(self.running.keys() - kinds):
            reflector, task = self.running.pop(kind)
            if task is not None:
                task.cancel()
            reflector.stream.drop()
            cluster.unmark(kind)
        for kind in sorted(kinds - self.running.keys()):
            selector = cluster.options.selectors.of(kind)
            reflector = Reflector(self.client, kind, selector, cluster.sink, self.health, cluster.options.pod_labels)
            reflector.on_synced = lambda kind=kind: self._synced(kind)  # type: ignore[misc]
            self.running[kind] = (reflector, self.tasks.spawn(reflector.run(), f"the watch of {kind.name.lower()}s"))

    def _open_snapshot(self, kinds: frozenset[Kind]) -> None:
        from fastdns.plugins.kubernetes.watch.snapshot import Snapshot

        cluster = self.cluster
        self.snapshot = Snapshot(cluster.options.snapshot, cluster, self.client.api.address.netloc)
        for kind in self.snapshot.load(kinds):
            cluster.mark(kind, listed=False)
        self.tasks.spawn(self.snapshot.run(), "the snapshot")

    def _synced(self, kind: Kind) -> None:
        self.cluster.mark(kind)
        if self.snapshot is not None:
            self.snapshot.synced(kind)

    def finish(self) -> None:
        if self.snapshot is not None:
            self.snapshot.save()
        self.client.close()


class Lease:
    """One holder's share of a cluster, with the kinds that it needs."""

    def __init__(self, cluster: Cluster, kinds: frozenset[Kind]) -> None:
        self.cluster = cluster
        self.kinds = kinds
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
            self.cluster.want(self.kinds)

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
                registry.pop((cluster.origin.key, cluster.options), None)
            if self.started:
                cluster.unwant(self.kinds)
        if last:
            cluster.stop()


#: Clusters in use.
registry: dict[tuple[object, ...], Cluster] = {}
#: Taken again by the same thread when the garbage collector lets go of a share inside of it.
registry_lock = threading.RLock()


def acquire(origin: Origin, options: Options, kinds: Iterable[Kind], make_sink: Callable[[], Sink]) -> Lease:
    """A share of the informers of an API server or of manifests; they are made when nobody has them yet. Nothing runs before ``Lease.start``."""
    with registry_lock:
        key = (origin.key, options)
        cluster = registry.get(key)
        if cluster is None:
            cluster = registry[key] = Cluster(origin, options, make_sink())
        cluster.leases += 1
        return Lease(cluster, frozenset(kinds))
