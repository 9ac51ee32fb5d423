"""`snapshot FILE`: the last known state on disk, so that a restart serves at once while the API server is away."""

from __future__ import annotations

import json
import mmap
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

from fastdns.plugins.kubernetes.store import snapshot
from fastdns.plugins.kubernetes.watch import metrics
from fastdns.plugins.kubernetes.watch.poller import Signal, sleep
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastdns.plugins.kubernetes.watch.cluster import Cluster

#: Seconds between two writes, where something changed.
EVERY = 60.0

log = Log("plugin/kubernetes")


class Snapshot:
    """The file of one cluster. All calls on the cluster's poller."""

    def __init__(self, path: str, cluster: Cluster, host: str) -> None:
        self.path = path
        self.cluster = cluster
        self.host = metrics.label(host)
        selectors = cluster.options.selectors
        #: A file made with other selectors holds other objects.
        self.identity = {
            "origin": [str(part) for part in cluster.origin.key],
            "labels": str(selectors.labels),
            "namespace_labels": str(selectors.namespace_labels),
            "pod_labels": cluster.options.pod_labels,
        }
        self.wanted: frozenset[Kind] = frozenset()
        self.complete = Signal()
        self.saved = 0
        self.failed = ""

    def load(self, kinds: Iterable[Kind]) -> frozenset[Kind]:
        """Put the file's objects into the store; returns the kinds that it had. A missing or bad file gives none."""
        try:
            with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                text, start = snapshot.check(data)
                head: dict[str, Any] = json.loads(text)
                if head.get("identity") != self.identity:
                    log.warning(f"snapshot {self.path} is of another cluster or of other selectors: not used")
                    return frozenset()
                found = frozenset(kinds) & {Kind(kind) for kind in head["kinds"]}
                count = snapshot.load(self.cluster.sink, data, start, found)
                age = max(0.0, time.time() - float(head["saved"]))
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, KeyError, TypeError, MemoryError) as error:
            log.warning(f"snapshot {self.path} is not usable: {error}")
            return frozenset()
        metrics.snapshot_stale.set((self.host,), 1)
        log.info(f"Serving {count} objects from the snapshot {self.path}, {age:.0f} s old, until the API server is heard")
        return found

    def synced(self, kind: Kind) -> None:
        """A kind was listed whole."""
        if self.cluster.listed >= set(self.cluster.wanted):
            metrics.snapshot_stale.set((self.host,), 0)
            self.complete.wake()

    def changes(self) -> int:
        """Grows with everything that the reflectors hand over."""
        feed = self.cluster.feed
        running = getattr(feed, "running", {})
        return sum(reflector.stream.handed for reflector, _ in running.values())

    async def run(self) -> None:
        """Write the file once everything is listed, then at intervals."""
        await sleep(EVERY, self.complete)
        while True:
            self.save()
            await sleep(EVERY)

    def save(self) -> None:
        """Write the file if all of it is known and something changed; a failure is logged once and tried again later."""
        kinds = sorted(self.cluster.listed & set(self.cluster.wanted or self.cluster.listed))
        changes = self.changes()
        if not kinds or not self.cluster.listed >= set(self.cluster.wanted) or changes == self.saved:
            return
        head = {"identity": self.identity, "kinds": [int(kind) for kind in kinds], "saved": time.time()}
        folder = os.path.dirname(os.path.abspath(self.path))
        temporary = ""
        try:
            fd, temporary = tempfile.mkstemp(prefix=".snapshot-", dir=folder)
            try:
                snapshot.save(self.cluster.sink, [int(kind) for kind in kinds], fd, json.dumps(head).encode())
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, self.path)
        except (OSError, MemoryError) as error:
            if temporary:
                try:
                    os.unlink(temporary)
                except OSError:
                    pass
            if str(error) != self.failed:
                self.failed = str(error)
                log.error(f"snapshot {self.path} cannot be written: {error}")
            return
        self.saved, self.failed = changes, ""
