"""`snapshot FILE`: the last known state on disk, so that a restart serves at once while the API server is away."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdns.control import Signal, blocking, sleep
from fastdns.plugins.kubernetes.store import snapshot
from fastdns.plugins.kubernetes.watch import metrics
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.system.files import open_regular
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastdns.plugins.kubernetes.watch.informers import Cluster

#: Seconds between two writes, where something changed.
EVERY = 60.0

log = Log("plugin/kubernetes")


class Snapshot:
    """The file of one cluster. All calls on the loop's thread."""

    def __init__(self, path: str, cluster: Cluster[Kind], host: str) -> None:
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
            "places": cluster.options.places,
        }
        self.wanted: frozenset[Kind] = frozenset()
        self.complete = Signal()
        #: `changes` of the file that is in its place.
        self.saved = 0
        #: The last one that was written for another thread to put in its place.
        self.draft: Draft | None = None
        #: Held while a draft is put in its place.
        self.lock = threading.Lock()
        self.keeping = Keeping("kubernetes", path, log.error, f"snapshot {path} cannot be written", f"snapshot {path} is written again")

    def load(self, kinds: Iterable[Kind]) -> frozenset[Kind]:
        """Put the file's objects into the store; returns the kinds that it had. A missing or bad file gives none."""
        self.keeping.check(os.path.dirname(os.path.abspath(self.path)))
        try:
            with open(open_regular(self.path), "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
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
        """Grows with every object that the reflectors add."""
        feed = self.cluster.feed
        running = getattr(feed, "running", {})
        return sum(reflector.stream.handed for reflector, _ in running.values())

    async def run(self) -> None:
        """Write the file once everything is listed, then at intervals."""
        await sleep(EVERY, self.complete)
        while True:
            self.draft = self._write()
            if self.draft is not None:
                await blocking(self._replace, self.draft)
            await sleep(EVERY)

    def save(self) -> None:
        """Write the file at once, at the end; a draft that waits for its turn, or is being put in its place, comes first."""
        if self.draft is not None:
            self._replace(self.draft)
        draft = self._write()
        if draft is not None:
            self._replace(draft)

    def _write(self) -> Draft | None:
        """Write a new file if all of the cluster is known and something changed. The store is read here, on the loop's thread."""
        kinds = sorted(self.cluster.listed & set(self.cluster.wanted or self.cluster.listed))
        changes = self.changes()
        if not kinds or not self.cluster.listed >= set(self.cluster.wanted) or changes == self.saved:
            return None
        head = {"identity": self.identity, "kinds": [int(kind) for kind in kinds], "saved": time.time()}
        try:
            fd, temporary = tempfile.mkstemp(prefix=".snapshot-", dir=os.path.dirname(os.path.abspath(self.path)))
        except OSError as error:
            self.keeping.failed(error)
            return None
        draft = Draft(changes, fd, temporary)
        try:
            snapshot.save(self.cluster.sink, [int(kind) for kind in kinds], fd, json.dumps(head).encode())
        except (OSError, MemoryError) as error:
            draft.close()
            self.keeping.failed(error)
            return None
        return draft

    def _replace(self, draft: Draft) -> None:
        """Put a new file in the old one's place once the disk has it. On any thread, for it may take long."""
        with self.lock:
            if draft.closed:
                return
            try:
                os.fsync(draft.fd)
                os.replace(draft.path, self.path)
                self.saved = draft.changes
            except OSError as error:
                self.keeping.failed(error)
            else:
                self.keeping.succeeded()
            finally:
                draft.close()


@dataclass
class Draft:
    """A new file that is not in its place yet."""

    #: `Snapshot.changes` when it was written.
    changes: int
    fd: int
    path: str
    closed: bool = False

    def close(self) -> None:
        """Close it, and remove it if it is still where it was written."""
        self.closed = True
        os.close(self.fd)
        with contextlib.suppress(OSError):
            os.unlink(self.path)
