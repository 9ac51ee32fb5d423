"""List and watch of one kind in named namespaces, each by requests of its own: for those who may not list it in all namespaces.

CoreDNS needs ClusterRoles. Here a Role in each namespace of the property ``namespaces`` is enough: after a 403 ``Fallback`` starts a ``Parts`` for the kind,
while the kind's reflector goes on asking for all namespaces, now and then, and has the kind back as soon as it may list it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fastdns.control import Signal, sleep
from fastdns.plugins.kubernetes.decode.stream import ApiError, Stream
from fastdns.plugins.kubernetes.watch.reflector import Reflector, log
from fastdns.plugins.kubernetes.watch.resources import RESOURCES, Kind

if TYPE_CHECKING:
    from fastdns.control.eventloop import Task, TaskGroup
    from fastdns.plugins.kubernetes.watch.informers import Cluster

#: Namespaces that are watched one by one at most: each takes a connection for each kind.
MOST = 50


class Part(Reflector):
    """The list and watch of one namespace. Its list is a part of the kind's, which ``Parts`` begins and commits."""

    async def _list(self) -> None:
        await self._read_list(bool)
        self._succeeded()
        self._in_contact(True)

    async def list(self) -> bool:
        """List once; False when that failed, which is logged and followed by a pause."""
        self.resumable = False
        await self._round()
        return self.resumable

    async def watch(self, expired: Callable[[], object]) -> None:
        """Watch, until what happens can only be told by a new list."""
        try:
            while self.resumable:
                await self._round()
        finally:
            self.health.forget(self)
        expired()


class Parts:
    """Keeps one kind of a sink in step with some namespaces of the API server."""

    def __init__(self, make: Callable[[str], Part], namespaces: frozenset[str], stream: Stream, on_synced: Callable[[], object], tasks: TaskGroup) -> None:
        self.make = make
        self.namespaces = sorted(namespaces)
        #: Begins and commits the lists of all.
        self.stream = stream
        self.on_synced = on_synced
        self.tasks = tasks
        self.watches: list[Task] = []
        self.expired = False
        self.woken = Signal()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                parts = await self._list()
                self._cancel()
                self.expired = False
                named = zip(parts, self.namespaces, strict=True)
                started = [
                    self.tasks.keep(partial(part.watch, self._expire), f"the watch of {part.resource.plural} in {namespace}") for part, namespace in named
                ]
                self.watches = [task for task in started if task is not None]
                while not self.expired:
                    await sleep(None, self.woken)
        finally:
            self._cancel()

    async def _list(self) -> list[Part]:
        """List all namespaces; a list counts when all of them are in it. What is watched already goes on being watched."""
        while True:
            parts = [self.make(namespace) for namespace in self.namespaces]
            self.stream.begin_list()
            for part in parts:
                if not await part.list():
                    break
            else:
                self.stream.commit_list()
                self.on_synced()
                return parts

    def _expire(self) -> None:
        self.expired = True
        self.woken.wake()

    def _cancel(self) -> None:
        while self.watches:
            self.watches.pop().cancel()


class Fallback:
    """What a cluster's feed does about kinds that may not be listed in all namespaces. All calls on the loop's thread."""

    def __init__(self, cluster: Cluster[Kind], tasks: TaskGroup, make: Callable[[Kind, str], Part], on_synced: Callable[[Kind], object]) -> None:
        self.cluster = cluster
        self.tasks = tasks
        self.make = make
        self.on_synced = on_synced
        self.running: dict[Kind, Task | None] = {}
        #: Namespaces that `running` are for.
        self.namespaces: frozenset[str] = frozenset()
        #: Kinds for which too many namespaces are named, which was said.
        self.refused: set[Kind] = set()

    def begin(self, kind: Kind, error: ApiError) -> bool:
        """The kind may not be listed in all namespaces. False: neither is there another way."""
        namespaces = self.cluster.namespaces
        if not namespaces:
            return False
        if len(namespaces) > MOST and kind is not Kind.NAMESPACE:
            if kind not in self.refused:
                self.refused.add(kind)
                log.error(f"{error}: {len(namespaces)} namespaces are named, of which at most {MOST} are watched one by one")
            return False
        if kind not in self.running:
            done = "those named count as existing" if kind is Kind.NAMESPACE else f"watching {RESOURCES[kind].plural} in the namespaces named"
            log.warning(f"{error}: {done}")
            self.namespaces = namespaces
            self._start(kind)
        return True

    def _start(self, kind: Kind) -> None:
        self.cluster.split.add(kind)
        stream = Stream(self.cluster.sink, kind)
        if kind is Kind.NAMESPACE:
            self._give(stream)
            self.running[kind] = None
            return
        parts = Parts(lambda namespace: self.make(kind, namespace), self.namespaces, stream, lambda: self.on_synced(kind), self.tasks)
        self.running[kind] = self.tasks.keep(parts.run, f"the lists of {RESOURCES[kind].plural} by namespace")

    def _give(self, stream: Stream) -> None:
        from fastdns.plugins.kubernetes.decode import models

        stream.begin_list()
        for namespace in sorted(self.namespaces):
            stream.give(models.Namespace(models.Metadata(namespace)))
        stream.commit_list()
        self.on_synced(Kind.NAMESPACE)

    def end(self, kind: Kind) -> None:
        """The kind is listed in all namespaces, or nobody wants it any more."""
        self.refused.discard(kind)
        if kind in self.running:
            self.cluster.split.discard(kind)
            if (task := self.running.pop(kind)) is not None:
                task.cancel()

    def rename(self) -> None:
        """A reload may have named other namespaces. With none named, or too many, the reflector that asks for all is alone again."""
        namespaces = self.cluster.namespaces
        if namespaces == self.namespaces:
            return
        self.namespaces = namespaces
        for kind in list(self.running):
            self.end(kind)
            if namespaces and (len(namespaces) <= MOST or kind is Kind.NAMESPACE):
                self._start(kind)


def make_part(namespace: str, reflector: Reflector, stream: Stream) -> Part:
    """A part beside a kind's reflector."""
    return Part(reflector.client, reflector.resource.within(namespace), reflector.selector, stream, reflector.health)
