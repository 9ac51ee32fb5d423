"""Where a list comes from: a file that is looked at, or a URL that is fetched, perhaps kept on disk. The last good version is held packed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import threading
import time
import zlib
from weakref import WeakSet

from fastdns.corefile.errors import system_error
from fastdns.plugin import Log
from fastdns.plugins.blocklist.fetch import SIZE_MOST, Body, FetchError, Packer, fetch, shown
from fastdns.plugins.blocklist.lists import READERS, Contents
from fastdns.system.files import check_folder, open_regular, replacing
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.metrics import Metric

__all__ = ["FileSource", "Source", "UrlSource", "is_url"]

log = Log("plugin/blocklist")

LABELS = ("list",)
NAMES = Metric("fastdns_blocklist_names", "Names that a list has.", "gauge", LABELS)
IGNORED = Metric("fastdns_blocklist_ignored_lines", "Lines and records of a list that were left out.", "gauge", LABELS)
CONFIRMED = Metric("fastdns_blocklist_confirmed_timestamp_seconds", "The time when a list was last read, or found to be unchanged.", "gauge", LABELS)
FAILURES = Metric("fastdns_blocklist_failures_total", "Counter of failures to read a list.", "counter", LABELS)
BLOCKED = Metric("fastdns_blocklist_blocked_total", "Counter of queries that were answered, or dropped, because of a list.", "counter", LABELS)

#: Seconds between two looks at a file.
FILE_SECONDS = 5.0
#: Seconds after which a URL that failed is fetched again; then twice as many each time.
FIRST_DELAY = 1.0
DELAY_MOST = 300.0
#: Octets that are read at a time.
PIECE = 1 << 20
#: The first line of what is kept on disk, before the packed list.
MAGIC = "fastdns blocklist 1"

#: Sources of several blocks, and of two configurations during a reload, may have one label.
_used: dict[str, int] = {}
#: Of all configurations, so that the next one has the lists of the one that serves.
_fetched: WeakSet[UrlSource] = WeakSet()
_lock = threading.Lock()


def is_url(text: str) -> bool:
    return "://" in text


class Source:
    """A list. One thread at a time reads it."""

    #: Seconds between two readings.
    seconds = FILE_SECONDS

    def __init__(self, kind: str, place: str, *, exceptions: bool = False) -> None:
        """``kind`` is ``hosts``, ``domains`` or ``rpz``; the names of ``exceptions`` are never blocked."""
        self.kind = kind
        self.place = place
        self.exceptions = exceptions
        #: For metrics and the log.
        self.label = place
        #: Of the last good version.
        self.body: Body | None = None
        self.names = 0
        #: Why the last reading failed.
        self.problem = ""

    def read(self) -> Body | None:
        """A new version; None: it is the one before. Raises FetchError."""
        raise FetchError("has no place")

    def start(self) -> None:
        with _lock:
            _used[self.label] = _used.get(self.label, 0) + 1
        FAILURES.cell((self.label,), zero=True)
        BLOCKED.cell((self.label,), zero=True)

    def stop(self) -> None:
        with _lock:
            _used[self.label] -= 1
            if _used[self.label] == 0:
                del _used[self.label]
                for metric in (NAMES, IGNORED, CONFIRMED):
                    metric.forget((self.label,))

    def read_into(self, body: Body, contents: Contents) -> None:
        """Raises ValueError for a list that cannot be used, MemoryError."""
        with gzip.open(io.BytesIO(body.packed)) as packed, io.TextIOWrapper(packed, "utf-8-sig", "surrogateescape") as text:
            READERS[self.kind](text, contents)

    def accept(self, body: Body, contents: Contents) -> None:
        """This version serves from now on."""
        self.body = body
        self.names = contents.names
        NAMES.set((self.label,), contents.names)
        IGNORED.set((self.label,), contents.ignored)
        log.info(f"{self.label} has {contents.names} names")
        if contents.ignored:
            log.warning(f"{contents.ignored} lines of {self.label} were left out, the first: {contents.first!r}")
        if contents.triggers:
            found = ", ".join(f"{count} of {trigger}" for trigger, count in sorted(contents.triggers.items()))
            log.warning(f"{self.label} has triggers other than by name, which were left out: {found}")

    def confirm(self) -> None:
        """There is nothing newer than what serves."""
        CONFIRMED.set((self.label,), time.time())

    def fail(self, text: str) -> None:
        self.problem = text
        FAILURES.add((self.label,))
        log.warning(f"{self.label} {text}{'; its last version serves on' if self.body is not None else ''}")


class FileSource(Source):
    """A file, read again when its status has changed."""

    def __init__(self, kind: str, place: str, *, exceptions: bool = False) -> None:
        super().__init__(kind, place, exceptions=exceptions)
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> Body | None:
        packer = Packer()
        try:
            status = os.stat(self.place)
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return None
            with open(self.place, "rb") as file:
                while piece := file.read(PIECE):
                    packer.add(piece)
        except OSError as error:
            self._seen = None
            raise FetchError(f"cannot be read: {system_error(error, 'open', self.place)}") from error
        self._seen = seen
        return packer.body()


class UrlSource(Source):
    """A list that is fetched, and kept in a folder for a restart ("": nowhere)."""

    def __init__(self, kind: str, place: str, *, exceptions: bool = False, seconds: float, folder: str = "") -> None:
        super().__init__(kind, place, exceptions=exceptions)
        self.seconds = seconds
        self.label = shown(place)
        #: Digest of what is on disk.
        self._kept = b""
        name = hashlib.blake2b(f"{kind} {place}".encode(), digest_size=12).hexdigest()
        self.path = os.path.join(folder, f"blocklist-{name}.gz") if folder else ""
        failing, again = f"{self.label} cannot be kept in {self.path}", f"{self.label} is kept in {self.path} again"
        self._keeping = Keeping("blocklist", self.path, log.warning, failing, again)
        with _lock:
            _fetched.add(self)

    def read(self) -> Body | None:
        former = self.body
        body = fetch(self.place, former.etag, former.modified) if former is not None else fetch(self.place)
        if body is None or former is None or former.digest != body.digest:
            return body
        self.body = former._replace(etag=body.etag, modified=body.modified)
        return None

    def accept(self, body: Body, contents: Contents) -> None:
        super().accept(body, contents)
        self._keep(body)

    def _keep(self, body: Body) -> None:
        """Write a version that is not on disk yet."""
        if self.path and self._kept != body.digest:
            try:
                with replacing(self.path, ".blocklist-") as file:
                    head = {"magic": MAGIC, "etag": body.etag, "modified": body.modified, "digest": body.digest.hex(), "url": shown(self.place)}
                    file.write(json.dumps(head).encode() + b"\n")
                    file.write(body.packed)
                self._kept = body.digest
            except OSError as error:
                self._keeping.failed(error)
            else:
                self._keeping.succeeded()

    def confirm(self) -> None:
        super().confirm()
        if self.body is not None and self._kept != self.body.digest:
            self._keep(self.body)
        elif self._kept:
            try:
                os.utime(self.path)
                check_folder(os.path.dirname(self.path))
            except OSError as error:
                self._keeping.failed(error)
            else:
                self._keeping.succeeded()

    def stop(self) -> None:
        super().stop()
        self._keeping.withdraw()

    def restore(self) -> Body | None:
        """What another configuration serves, or what was kept; None: nothing that can be used."""
        with _lock:
            for other in _fetched:
                if other.body is not None and (other.kind, other.place) == (self.kind, self.place):
                    self._kept = other._kept if other.path == self.path else b""
                    return other.body
        if not self.path:
            return None
        self._keeping.check(os.path.dirname(self.path))
        try:
            with open(open_regular(self.path), "rb") as file:
                head = json.loads(file.readline(PIECE))
                packed = file.read(SIZE_MOST)
            if head["magic"] != MAGIC or _digest(packed).hex() != head["digest"]:
                raise ValueError("it is damaged")
            body = Body(packed, bytes.fromhex(head["digest"]), str(head["etag"]), str(head["modified"]))
            CONFIRMED.set((self.label,), os.stat(self.path).st_mtime)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, KeyError, TypeError, MemoryError, zlib.error) as error:  # json's are among them
            log.warning(f"What was kept of {self.label} is not used: {error}")
            return None
        self._kept = body.digest
        return body


def _digest(packed: bytes) -> bytes:
    """Of the text. Raises OSError and EOFError for what is damaged, zlib.error and ValueError."""
    found = hashlib.blake2b(digest_size=16)
    size = 0
    with gzip.open(io.BytesIO(packed)) as text:
        while piece := text.read(PIECE):
            found.update(piece)
            size += len(piece)
            if size > SIZE_MOST:
                raise ValueError("it is too large")
    return found.digest()
