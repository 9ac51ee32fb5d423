"""What keeps the records of one server block as etcd has them: a list, then a watch, on the control side's loop."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fastdns import control
from fastdns.control import Signal, blocking, sleep
from fastdns.control.eventloop import TaskGroup
from fastdns.corefile.errors import defect
from fastdns.plugins.etcd._snapshot import Records
from fastdns.plugins.etcd.gateway import EtcdError, Gateway, Kv
from fastdns.plugins.etcd.message import row
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.etcd._snapshot import Row

__all__ = ["Follower"]

Result = TypeVar("Result")

log = Log("plugin/etcd")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
#: The same failure is logged once in so many seconds.
SAY_AGAIN = 60.0
#: After publishing, this many times as long as it took nothing is published: a busy cluster costs at most a fifth of a CPU.
REST = 4
#: Seconds between two looks at the leases.
LEASES = 10.0
#: Events above which rows are made on another thread.
MANY = 100


class Follower:
    """Lists and watches the keys below ``path`` into ``records`` until stopped."""

    def __init__(self, gateway: Gateway, path: str, records: Records) -> None:
        self.gateway, self.path, self.records = gateway, path, records
        #: The first list is there, or has failed.
        self.tried = threading.Event()
        self.tasks: TaskGroup | None = None
        # From here on: of the loop's thread.
        self.rows: dict[bytes, Row] = {}
        #: Lease -> its position.
        self.leases: dict[int, int] = {}
        #: When each lease ends, monotonic seconds.
        self.ends: list[float] = []
        self.changed = Signal()
        #: Rows have changed since they were published last.
        self.dirty = False
        #: One publishes at a time, so that nothing older follows.
        self.publishing = asyncio.Lock()
        self.logged: tuple[str, float] = ("", 0.0)

    def start(self) -> None:
        """Begin; the loop runs at full priority until the first list is there, or has failed."""
        self.tasks = TaskGroup(control.loop(urgent=self))
        self.tasks.keep(self._run, "the watch of etcd")
        self.tasks.keep(self._publish_changes, "the publisher of etcd's records")
        self.tasks.keep(self._renew_leases, "the look at etcd's leases")

    def stop(self) -> None:
        """End what is under way."""
        if self.tasks is not None:
            self.tasks.loop.end_urgent(self)
            self.tasks.stop()

    # ---- list and watch ----

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                revision = await self._list()
                pause = FIRST_PAUSE
                await self.gateway.watch(self.path, revision + 1, self._take)
            except (EtcdError, LookupError, TypeError, ValueError, MemoryError) as error:  # the task outlives any answer
                self._have_tried()
                self._say(str(error) if isinstance(error, EtcdError) else defect(error))
            await sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _have_tried(self) -> None:
        self.tried.set()
        if self.tasks is not None:
            self.tasks.loop.end_urgent(self)

    async def _list(self) -> int:
        if not self.gateway.token:
            await self.gateway.authenticate()
        kvs, revision = await self.gateway.range(self.path)
        leases: dict[int, int] = {}
        ends: list[float] = []
        events = [(True, kv) for kv in kvs]
        await self._ask_for_leases(events, leases, ends)
        rows = await self._work(self._rows_of, events, leases)
        self.rows = {key: made for key, made in rows if made is not None}
        self.leases, self.ends, self.dirty = leases, ends, False
        await self._publish()
        self._have_tried()
        return revision

    async def _take(self, events: list[tuple[bool, Kv]]) -> None:
        await self._ask_for_leases(events, self.leases, self.ends)
        rows = self._rows_of(events, self.leases) if len(events) <= MANY else await blocking(self._rows_of, events, self.leases)
        for key, made in rows:
            if made is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = made
        self.dirty = True
        self.changed.wake()

    async def _work(self, function: Callable[..., Result], *args: Any) -> Result:
        """Do what may take long: on another thread, but for the first list, which a niced thread would hold up."""
        return await blocking(function, *args) if self.tried.is_set() else function(*args)

    def _rows_of(self, events: list[tuple[bool, Kv]], leases: dict[int, int]) -> list[tuple[bytes, Row | None]]:
        """The row of each key; None for one that is gone."""
        return [(key, row(self.path, key, value, leases[lease] if lease else -1) if there else None) for there, (key, value, lease) in events]

    async def _ask_for_leases(self, events: list[tuple[bool, Kv]], leases: dict[int, int], ends: list[float]) -> None:
        """Give each new lease a position, and ask for the time that it has left."""
        for there, (_, _, lease) in events:
            if there and lease and lease not in leases:
                try:
                    left = await self.gateway.time_to_live(lease)
                except EtcdError as error:
                    self._say(str(error))
                    left = 0.0
                leases[lease] = len(ends)
                ends.append(time.monotonic() + left)

    # ---- publishing ----

    async def _publish_changes(self) -> None:
        """Publish changes, not more often than is good."""
        while True:
            if not self.dirty:
                await sleep(None, self.changed)
            self.dirty = False
            begun = time.monotonic()
            try:
                await self._publish()
            except MemoryError as error:
                self._say(defect(error))
                await sleep(LONGEST_PAUSE)
                self.dirty = True
            await sleep(REST * (time.monotonic() - begun))

    async def _publish(self) -> None:
        async with self.publishing:
            now = time.monotonic()
            await self._work(self._make, dict(self.rows), [end - now for end in self.ends])

    def _make(self, rows: dict[bytes, Row], left: list[float]) -> None:
        self.records.publish([rows[key] for key in sorted(rows)], left)

    async def _renew_leases(self) -> None:
        """Look at the leases from time to time, for those that are kept alive change without an event."""
        while True:
            await sleep(LEASES)
            for lease, position in list(self.leases.items()):
                try:
                    left = await self.gateway.time_to_live(lease)
                except EtcdError:
                    break
                async with self.publishing:
                    if self.leases.get(lease) != position:
                        break
                    self.ends[position] = time.monotonic() + left
                    self.records.renew(position, left)

    def _say(self, text: str) -> None:
        now = time.monotonic()
        if text != self.logged[0] or now - self.logged[1] >= SAY_AGAIN:
            self.logged = (text, now)
            log.error(f"Failed to follow etcd: {text}")
