"""The objects of declared kinds, which all zones and reloads share: one list and watch for each (API server, kind, selector).

Everything but `Share` runs on the thread of the control side's loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.refusals import REASON_MAX, Refusals, printable
from fastdns.plugins.kubernetes.decode.stream import ObjectStream
from fastdns.plugins.kubernetes.decode.taker import Taker
from fastdns.plugins.kubernetes.objects.kind import KubernetesObject, Watched, number_of
from fastdns.plugins.kubernetes.watch import cluster
from fastdns.plugins.kubernetes.watch.client import Client
from fastdns.plugins.kubernetes.watch.connection import Api
from fastdns.plugins.kubernetes.watch.informers import Cluster, Options
from fastdns.plugins.kubernetes.watch.origin import Limits
from fastdns.plugins.kubernetes.watch.problems import Report
from fastdns.plugins.kubernetes.watch.reflector import Health, Reflector
from fastdns.setup.guard import call
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from msgspec import Raw

    from fastdns.control.eventloop import Task, TaskGroup

__all__ = ["Listener", "Share"]

#: Seconds, at least, between two questions for a kind that the server does not know.
ASK_AGAIN = 5.0
#: How often in a row the server must not know a kind before its objects are given up: an API server that starts may not know it yet.
MISSES = 3

log = Log("plugin/kubernetes")


class Listener(Protocol):
    """What an informer tells."""

    def changed(self, watched: Watched, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        """An object is there (``before`` is None), has other fields, or is gone (``after`` is None)."""

    def listed(self, watched: Watched) -> None:
        """All objects of a kind have been told."""

    def flush(self) -> None:
        """No more changes are at hand for the moment."""


class Informer(Taker):
    """The objects that one watch brings."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.refusals = Refusals(repr(watched.kind))
        self.objects: dict[tuple[str, str], KubernetesObject] = {}
        self.listeners: list[Listener] = []
        self.synced = False
        #: Objects of the list that has begun; None: none has.
        self._seen: set[tuple[str, str]] | None = None

    def begin(self) -> None:
        self._seen = set()

    def take(self, octets: bytes | Raw, removed: bool) -> str:
        found, defect = self.watched.kind.decode(octets)
        key = (found.namespace, found.name)
        if defect and not removed:
            self.withdraw(*key, found.version)
            self.refusals.add(*key, defect)
            return found.version
        before = self.objects.get(key)
        if self._seen is None:
            if before is not None and 0 < found.number < before.number:
                return ""  # late
        elif not removed:
            self._seen.add(key)
        self.refusals.accept(*key)
        if not removed:
            self.objects[key] = found
            if before is None or before.values != found.values:
                self._tell(before, found)
        elif before is not None:
            del self.objects[key]
            self._tell(before, None)
        return found.version

    def withdraw(self, namespace: str, name: str, version: str) -> None:
        before = self.objects.get((namespace, name))
        if before is None or (self._seen is None and 0 < number_of(version) < before.number):
            return
        del self.objects[namespace, name]
        self._tell(before, None)

    def _tell(self, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        for listener in tuple(self.listeners):
            self._tell_one(listener, before, after)

    def _tell_one(self, listener: Listener, before: KubernetesObject | None, after: KubernetesObject | None) -> None:
        """An object for which a listener raises an exception does not exist for that listener."""
        try:
            call(listener.changed, self.watched, before, after)
        except Exception as error:
            found = after or before
            assert found is not None  # noqa: S101 - an object is there before or after
            self.refusals.add(found.namespace, found.name, f"{type(error).__name__}: {error}")
            if after is not None:
                with suppress(Exception):
                    call(listener.changed, self.watched, after, None)

    def _call(self, function: Callable[[], None]) -> None:
        """What one listener raises does not concern the others."""
        try:
            call(function)
        except Exception as error:
            log.error(f"{self.watched.kind!r}: {type(error).__name__}: {printable(str(error), REASON_MAX)}")

    def commit(self) -> None:
        seen, self._seen = self._seen or set(), None
        for key in [key for key in self.objects if key not in seen]:
            self._tell(self.objects.pop(key), None)
        self.synced = True
        for listener in tuple(self.listeners):
            self._call(partial(listener.listed, self.watched))

    def drop(self) -> None:
        self.objects.clear()
        self._seen = None
        self.synced = False

    def flush(self) -> None:
        for listener in tuple(self.listeners):
            self._call(listener.flush)

    def attach(self, listener: Listener) -> None:
        """Tell a new listener everything so far, and then every change."""
        for found in tuple(self.objects.values()):
            self._tell_one(listener, None, found)
        self.listeners.append(listener)
        if self.synced:
            self._call(partial(listener.listed, self.watched))
            self._call(listener.flush)


class Informers(Sink):
    """Those of one API server."""

    def __init__(self) -> None:
        self._by_watched: dict[Watched, Informer] = {}

    def of(self, watched: Watched) -> Informer:
        return self._by_watched.setdefault(watched, Informer(watched))

    def attach(self, kinds: Iterable[Watched], listener: Listener) -> None:
        for watched in kinds:
            self.of(watched).attach(listener)

    def detach(self, listener: Listener) -> None:
        for informer in self._by_watched.values():
            if listener in informer.listeners:
                informer.listeners.remove(listener)


class Watch:
    """The reflector of one informer. It asks for the versions of the kind in turn, until the server knows one."""

    def __init__(self, feed: ObjectFeed, watched: Watched) -> None:
        self.kind = watched.kind
        self.informer = feed.informers.of(watched)
        self.synced = partial(feed.cluster.mark, watched)
        self.reflector = Reflector(feed.client, self.kind.resource(0), watched.selector, ObjectStream(self.informer), feed.health)
        self.reflector.on_synced = self.synced
        self.reflector.on_absent = self._absent
        self.reflector.on_allowed = self._allowed
        self.version = 0
        self.misses = 0

    def _allowed(self) -> None:
        if self.misses >= MISSES:
            log.info(f"{self.kind!r} is installed")
        self.misses = 0

    def _absent(self) -> float | None:
        self.version = (self.version + 1) % len(self.kind.versions)
        self.reflector.resource = self.kind.resource(self.version)
        self.reflector.stream.version = ""
        if self.version:
            return 0.0
        if not self.kind.optional:
            return None
        self.misses = self.misses + 1 if self.informer.objects else max(self.misses + 1, MISSES)
        if self.misses == MISSES:
            log.info(f"{self.kind!r} is not installed: there are none until it is")
            self.informer.begin()
            self.informer.commit()
            self.informer.flush()
            self.synced()
        return ASK_AGAIN * random.uniform(1.0, 2.0)


class ObjectFeed:
    """A reflector for each kind that somebody wants."""

    direct = False

    def __init__(self, objects: Cluster[Watched], tasks: TaskGroup) -> None:
        assert isinstance(objects.origin, Api)  # noqa: S101 - that is what `Share` gives
        assert isinstance(objects.sink, Informers)  # noqa: S101 - likewise
        self.cluster = objects
        self.tasks = tasks
        self.informers = objects.sink
        self.client = Client(objects.origin, objects.options.limits)
        self.health = Health()
        self.running: dict[Watched, tuple[Watch, Task | None]] = {}

    def watch(self, kinds: frozenset[Watched]) -> None:
        for watched in self.running.keys() - kinds:
            watch, task = self.running.pop(watched)
            if task is not None:
                task.cancel()
            watch.reflector.stream.drop()
            self.cluster.unmark(watched)
        for watched in kinds - self.running.keys():
            watch = Watch(self, watched)
            self.running[watched] = (watch, self.tasks.keep(watch.reflector.run, f"the watch of {watched.kind!r}"))

    def reports(self, now: float) -> Iterable[Report]:
        for watched, (watch, _) in self.running.items():
            yield Report(repr(watched.kind), frozenset((watched,)), watch.reflector.failing(now))

    def refusals(self) -> Iterable[Refusals]:
        return [watch.informer.refusals for watch, _ in self.running.values()]

    def finish(self) -> None:
        self.client.close()


class Share:
    """A share of the informers. From any thread."""

    def __init__(self, api: Api, limits: Limits, kinds: Iterable[Watched]) -> None:
        self.lease = cluster.share(api, Options(limits=limits), kinds, Informers, ObjectFeed)
        self._detach: Callable[[], object] = bool

    def start(self, listener: Listener, seconds: float) -> None:
        """Begin to tell a listener, and wait so long for all objects."""
        self.lease.start()
        informers, tasks = self.lease.sink, self.lease.cluster.tasks
        assert isinstance(informers, Informers)  # noqa: S101 - see above
        assert tasks is not None  # noqa: S101 - the lease has started
        loop = tasks.loop
        loop.call_soon(informers.attach, self.lease.kinds, listener)
        self._detach = partial(loop.call_soon, informers.detach, listener)
        if seconds > 0:
            self.lease.wait(seconds)

    def release(self) -> None:
        """Give it back. Again does no harm."""
        self._detach()
        self.lease.release()
