"""The informers of one API server or of manifests: what is wanted of them, and what has arrived in the store."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from fastdns import control
from fastdns.control.eventloop import TaskGroup
from fastdns.plugins.kubernetes.watch.origin import Limits
from fastdns.plugins.kubernetes.watch.problems import Problems, Reporter
from fastdns.plugins.kubernetes.watch.resources import Selectors

if TYPE_CHECKING:
    from fastdns.plugins.kubernetes.decode.objects import Sink

#: What tells the informers of a cluster apart: a `Kind`, or what `fastdns.plugins.kubernetes.objects` watches.
K = TypeVar("K", bound=Hashable)
Wanted = TypeVar("Wanted", bound=Hashable, contravariant=True)


class Options(NamedTuple):
    """What tells two sets of informers of one API server apart, and how they behave."""

    selectors: Selectors = Selectors()
    limits: Limits = Limits()
    #: Whether pods are decoded with their labels (for metadata and acl).
    pod_labels: bool = False
    #: File of the snapshot, "" for none.
    snapshot: str = ""
    #: Whether the store keeps nodes, zones and hints of endpoints and pods.
    places: bool = False


class Origin(Protocol):
    """Where objects come from: an API server, manifests, or a zone of objects."""

    @property
    def key(self) -> tuple[object, ...]:
        """Tells origins apart. It begins with "replica" or "manifests"; anything else is a way to an API server."""

    @property
    def host(self) -> str:
        """What log lines and metrics call it."""


class Feed(Reporter, Protocol[Wanted]):
    """What runs on the loop for a cluster. All calls on its thread, but for `watch` where it is `direct`."""

    #: Whether `watch` may be called by any thread. It returns when what is at hand is in the store.
    direct: bool

    def watch(self, kinds: frozenset[Wanted]) -> None:
        """From now on these kinds."""

    def finish(self) -> None:
        """The end is near."""


class Cluster(Generic[K]):
    """The informers of one origin, their tasks and their store."""

    def __init__(self, origin: Origin, options: Options, sink: Sink, make_feed: MakeFeed[K]) -> None:
        self.origin = origin
        self.options = options
        self.sink = sink
        self.make_feed = make_feed
        self.wanted: Counter[K] = Counter()
        #: What each holder names by the property `namespaces`; nothing for all.
        self.named: Counter[frozenset[str]] = Counter()
        #: Kinds that are watched in named namespaces one by one.
        self.split: set[K] = set()
        self.changed = threading.Condition()
        #: Kinds that were listed whole by this process.
        self.listed: set[K] = set()
        #: Kinds that the store can answer from: listed, or loaded from a snapshot.
        self.served: set[K] = set()
        self.leases = 0
        self.tasks: TaskGroup | None = None
        self.feed: Feed[K] | None = None
        self.problems = Problems(origin.host)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that are enough for all holders; none where one wants all."""
        return frozenset().union(*self.named) if all(self.named) else frozenset()

    def want(self, kinds: Iterable[K], namespaces: frozenset[str] = frozenset()) -> None:
        """Start what is not running yet. From any thread."""
        before = self.namespaces
        self.wanted.update(kinds)
        self.named[namespaces] += 1
        if not namespaces <= before:
            for kind in tuple(self.split):
                self.unmark(kind)
        if self.tasks is None:
            self.tasks = TaskGroup(control.loop())
            self.feed = self.problems.feed = self.make_feed(self, self.tasks)
            self.tasks.keep(self.problems.run, "the look at failing watches")
        self._tell()
        with self.changed:
            if not self.served >= set(self.wanted):
                control.loop(urgent=self)

    def unwant(self, kinds: Iterable[K], namespaces: frozenset[str] = frozenset()) -> None:
        """Stop what nobody else wants."""
        self.wanted.subtract(kinds)
        self.wanted += Counter()
        self.named[namespaces] -= 1
        self.named += Counter()
        if self.tasks is not None and self.leases:
            self._tell()

    def _tell(self) -> None:
        kinds = frozenset(self.wanted)
        tasks, feed = self.tasks, self.feed
        if tasks is None or feed is None:
            return
        if feed.direct:
            feed.watch(kinds)
        else:
            tasks.loop.call_soon(feed.watch, kinds)

    def mark(self, kind: K, listed: bool = True) -> None:
        """A kind has arrived in the store. Once all are there the workers come first; until then, being late would be worse."""
        with self.changed:
            self.served.add(kind)
            if listed:
                self.listed.add(kind)
            self.changed.notify_all()
        tasks = self.tasks
        if tasks is not None and self.served >= set(self.wanted):
            tasks.loop.end_urgent(self)

    def unmark(self, kind: K) -> None:
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


#: Makes the feed of a cluster, whose tasks belong to the group.
MakeFeed = Callable[[Cluster[K], TaskGroup], Feed[K]]
