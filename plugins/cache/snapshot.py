"""The file that keeps what a cache has over a restart of the process.

fastdns cache snapshot 1 BYTEORDER LF
a JSON object on one line LF: identity of the server block, and when the file was written
entries (_snapshot.pyx)
SHA-256 of everything before (32 octets)
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdns.index.zone_list import ZoneList
from fastdns.plugins.cache import _snapshot
from fastdns.system.files import open_regular, replacing
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.control import Timer
    from fastdns.plugins.cache._cache import CacheHandler

__all__ = ["Snapshot"]

MAGIC = f"fastdns cache snapshot 1 {sys.byteorder}\n".encode()
DIGEST = hashlib.sha256().digest_size
#: Octets of the line with the JSON object.
HEAD_MAX = 4096
SECOND = 1_000_000_000
BOOT = Path("/proc/sys/kernel/random/boot_id")

LABELS = ("zones", "view")
RESTORED = Metric("fastdns_cache_restored_total", "Counter of entries that were taken from the snapshot.", "counter", LABELS)
FAILURES = Metric("fastdns_cache_snapshot_failures_total", "Counter of snapshots that could not be written.", "counter", LABELS)

log = Log("plugin/cache")


class Snapshot:
    """The file of one cache. ``stale``: seconds for which expired entries are served. ``keep_good``: as `prefer_positive`."""

    def __init__(self, path: str, seconds: float, handler: CacheHandler, labels: tuple[str, str], stale: int, keep_good: bool) -> None:
        self.path = path
        self.seconds = seconds
        #: `Config.identity`; "": nothing is kept.
        self.identity = ""
        self.handler = handler
        self.labels = labels
        self.stale = stale
        self.keep_good = keep_good
        self._timer: Timer | None = None
        #: Held while the file is written or removed.
        self._lock = threading.Lock()
        self._stopped = False
        #: The file is of a process that takes over.
        self._handed_over = False
        self._keeping = Keeping("cache", path, log.error, f"snapshot {path} cannot be written", f"snapshot {path} is written again")
        RESTORED.cell(labels, True)
        FAILURES.cell(labels, True)

    def begin(self, identity: str, load: bool, remove: bool) -> None:
        """Write the file again and again from now on.

        ``load``: take what is in it first. ``remove``: the cache is empty on purpose, so nothing is kept of it.
        """
        from fastdns.control import every

        self.identity = identity
        self._keeping.check(os.path.dirname(os.path.abspath(self.path)))
        if not identity:
            log.warning(f"snapshot {self.path} keeps nothing: the block has plugins that are not of this project")
            return
        if load:
            self.load()
        elif remove:
            self._remove()
        self._timer = every(self.seconds, self._write_again)

    def stop(self) -> None:
        """Write no more but at the end of the process. Waits for a write that is under way."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._stopped = True
        self._keeping.withdraw()

    def _remove(self) -> None:
        with self._lock:
            try:
                os.unlink(self.path)
            except FileNotFoundError:
                pass
            except OSError as error:
                log.error(f"snapshot {self.path} cannot be removed: {error}")

    # ---- writing ----

    def hand_over(self) -> None:
        """Write the file for a process that takes over, and leave it to that one, unless this one goes on."""
        with self._lock:
            self._try_to_write()
        self._handed_over = True

    def finish(self) -> None:
        """Write the file at the end of the process."""
        with self._lock:
            if not self._handed_over:
                self._try_to_write()

    def _write_again(self) -> None:
        with self._lock:
            if not self._stopped:
                self._handed_over = False  # the other process has failed
                self._try_to_write()

    def _try_to_write(self) -> None:
        """A failure is logged once, and counted."""
        try:
            self._write()
        except (OSError, MemoryError) as error:
            FAILURES.add(self.labels)
            self._keeping.failed(error)
        else:
            self._keeping.succeeded()

    def _write(self) -> None:
        """Raises OSError and MemoryError."""
        shared = self.handler.contents()
        if shared is None or not self.identity:
            return
        boot, up = uptime()
        head = {"identity": self.identity, "boot": boot, "up": up, "saved": time.time_ns()}
        digest = hashlib.sha256()
        with replacing(self.path, ".cache-") as file:
            for octets in self._octets(head, _snapshot.Entries(shared, time.monotonic_ns(), self.stale)):
                file.write(octets)
                digest.update(octets)
            file.write(digest.digest())

    @staticmethod
    def _octets(head: dict[str, Any], entries: _snapshot.Entries) -> Iterator[bytes]:
        yield MAGIC
        yield json.dumps(head).encode() + b"\n"
        yield from entries

    # ---- reading ----

    def load(self) -> None:
        """Have the workers put what the file has. One that is missing has nothing; why another is not used is logged."""
        shared = self.handler.contents()
        if shared is None:
            return
        try:
            with open(open_regular(self.path), "rb") as file:
                data = memoryview(file.read())
            head, start = read_head(data)
            if head["identity"] != self.identity:
                raise ValueError("it is of a server block with other directives or files")
            age = age_of(head)
            entries = data[start:-DIGEST]
            count = _snapshot.count(entries)
            # Where a plugin says which names change, nobody knows which did meanwhile.
            omitted = ZoneList(self.handler.observed())
            _snapshot.restore(shared, entries, omitted, time.monotonic_ns() - age, self.stale, self.keep_good, RESTORED.cell(self.labels))
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, MemoryError) as error:
            log.warning(f"snapshot {self.path} is not used: {error}")
            return
        log.info(f"Taking {count} entries from the snapshot {self.path}, {age / SECOND:.0f} s old")


def read_head(data: memoryview) -> tuple[dict[str, Any], int]:
    """The JSON object of a file's octets, and where its entries begin. Raises ValueError for what is not whole."""
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("it is no snapshot of a cache, or of another version")
    if len(data) < len(MAGIC) + DIGEST or hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
        raise ValueError("its digest is another one: it was cut short or changed")
    line = bytes(data[len(MAGIC) : len(MAGIC) + HEAD_MAX]).partition(b"\n")[0]
    head = json.loads(line)
    if not isinstance(head, dict):
        raise ValueError("it has no head")
    return head, len(MAGIC) + len(line) + 1


def uptime() -> tuple[str, int]:
    """What names this boot of the machine ("" where nothing does), and ns since then, those of suspension included."""
    try:
        return BOOT.read_text().strip(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except OSError:
        return "", 0


def age_of(head: dict[str, Any]) -> int:
    """ns since the file was written: by the time since the machine's boot, which nobody sets, or, after another boot, by its clock. Raises ValueError."""
    boot, up = uptime()
    age = up - int(head["up"]) if boot and head["boot"] == boot else time.time_ns() - int(head["saved"])
    if age < 0:
        raise ValueError("it was written later than now")
    return age
