"""What keeps the records of one server block as etcd has them: a list, then a watch, on a thread of its own."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from fastdns.corefile.errors import defect
from fastdns.plugins.etcd._snapshot import Records
from fastdns.plugins.etcd.gateway import EtcdError, Gateway, Kv
from fastdns.plugins.etcd.message import row
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.etcd._snapshot import Row

__all__ = ["Follower"]

log = Log("plugin/etcd")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
#: The same failure is logged once in so many seconds.
SAY_AGAIN = 60.0
#: After publishing, this many times as long as it took nothing is published: a busy cluster costs at most a fifth of a CPU.
REST = 4
#: Seconds between two looks at the leases.
LEASES = 10.0


class Follower:
    """Lists and watches the keys below ``path`` into ``records`` until stopped."""

    def __init__(self, gateway: Gateway, path: str, records: Records) -> None:
        self.gateway, self.path, self.records = gateway, path, records
        self.rows: dict[bytes, Row] = {}
        #: Lease -> its position.
        self.leases: dict[int, int] = {}
        self.left: list[float] = []
        #: The first list is there, or has failed.
        self.tried = threading.Event()
        self.stopping = threading.Event()
        #: Of rows and leases.
        self.lock = threading.Lock()
        #: One publishes at a time, so that nothing older follows.
        self.publishing = threading.Lock()
        self.dirty = threading.Event()
        self.said: tuple[str, float] = ("", 0.0)
        self.threads = [
            threading.Thread(target=self._run, name="etcd", daemon=True),
            threading.Thread(target=self._publish, name="etcd publisher", daemon=True),
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.dirty.set()
        self.gateway.close()

    # ---- list and watch ----

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            try:
                revision = self._list()
                pause = FIRST_PAUSE
                self._watch(revision)
            except (EtcdError, LookupError, TypeError, ValueError, MemoryError) as error:  # the thread outlives any answer
                self.tried.set()
                if self.stopping.is_set():
                    return
                self._say(str(error) if isinstance(error, EtcdError) else defect(error))
            self.stopping.wait(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _list(self) -> int:
        if not self.gateway.token:
            self.gateway.authenticate()
        kvs, revision = self.gateway.range(self.path)
        with self.lock:
            self.rows.clear()
            self.leases.clear()
            self.left.clear()
        self._take([(True, kv) for kv in kvs])
        self._make()
        self.tried.set()
        return revision

    def _watch(self, revision: int) -> None:
        for events, _ in self.gateway.watch(self.path, revision + 1).batches():
            if events:
                self._take(events)
                self.dirty.set()

    def _take(self, events: list[tuple[bool, Kv]]) -> None:
        for there, (key, value, lease) in events:
            position = self._lease(lease) if there and lease else -1
            made = row(self.path, key, value, position) if there else None
            with self.lock:
                if made is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = made

    def _lease(self, lease: int) -> int:
        """The position of a lease; a new one is asked for the time that it has left."""
        position = self.leases.get(lease)
        if position is None:
            left = self._left(lease)
            with self.lock:
                position = self.leases[lease] = len(self.left)
                self.left.append(time.monotonic() + left)
        return position

    def _left(self, lease: int) -> float:
        try:
            return self.gateway.time_to_live(lease)
        except EtcdError as error:
            self._say(str(error))
            return 0.0

    # ---- publishing ----

    def _publish(self) -> None:
        """Publishes changes, not more often than is good; and looks at the leases from time to time, for those that are kept alive change without an event."""
        looked = time.monotonic()
        while not self.stopping.is_set():
            if self.dirty.wait(LEASES) and not self.stopping.is_set():
                self.dirty.clear()
                begun = time.monotonic()
                try:
                    self._make()
                except MemoryError as error:
                    self._say(defect(error))
                    self.stopping.wait(LONGEST_PAUSE)
                    self.dirty.set()
                self.stopping.wait(REST * (time.monotonic() - begun))
            if self.leases and time.monotonic() - looked >= LEASES and not self.stopping.is_set():
                self._renew()
                looked = time.monotonic()

    def _make(self) -> None:
        with self.publishing:
            with self.lock:
                rows = [self.rows[key] for key in sorted(self.rows)]
                now = time.monotonic()
                left = [until - now for until in self.left]
            self.records.publish(rows, left)

    def _renew(self) -> None:
        asking = Gateway([], None)
        asking.endpoints, asking.token = self.gateway.endpoints, self.gateway.token
        for lease, position in list(self.leases.items()):
            try:
                left = asking.time_to_live(lease)
            except EtcdError:
                return
            with self.lock:
                if self.leases.get(lease) != position:
                    return
                self.left[position] = time.monotonic() + left
                self.records.renew(position, left)

    def _say(self, text: str) -> None:
        now = time.monotonic()
        if text != self.said[0] or now - self.said[1] >= SAY_AGAIN:
            self.said = (text, now)
            log.error(f"Failed to follow etcd: {text}")
