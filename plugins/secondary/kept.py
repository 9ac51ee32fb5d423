"""A secondary zone on disk: what is written when, and what a restart makes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from fastdns import control
from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.file.storage import Storage
from fastdns.plugins.secondary.builders import BUILDERS
from fastdns.system import memory
from fastdns.system.files import check_folder
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log

__all__ = ["Kept", "read_once"]

log = Log("plugin/secondary")

#: Seconds between two notes that a zone with `stale` was confirmed, at least.
NOTE_PAUSE: Final = 30.0
#: Seconds between two writes, at least; and how many times as long as the last one took.
WRITE_PAUSE: Final = 5.0
WRITE_SHARE: Final = 20.0
#: Seconds after which a write that has failed is repeated, if there is no new version before.
REPEAT_SECONDS: Final = 30.0

#: Lower-case origins of the zones that `read_once` names, by their readers; and what guards it: a catalog's zones are restored while a reload sets up.
_read_once: WeakKeyDictionary[object, str] = WeakKeyDictionary()
_read_once_lock = threading.Lock()


def read_once(origin: str, reader: object) -> None:
    """Have the records of a zone, given in lower case, on disk where it is kept, for as long as its reader is there.

    The reader takes them once, and then only what changes. To be called before the zone's server serves.
    """
    with _read_once_lock:
        _read_once[reader] = origin


class Kept:
    """The file of one zone, written by the builders' threads. From any thread."""

    def __init__(self, zone: Zone, folder: str) -> None:
        self.zone = zone
        self.folder = folder
        self.storage = Storage(folder, zone.origin)
        path = self.storage.path
        self._keeping = Keeping("secondary", path, log.warning, f"Failed to keep {zone.origin} in {path}", f"{zone.origin} is kept in {path} again")
        #: A failed write is to be repeated; nothing is written any more.
        self._repeating = self._ended = False
        self._lock = threading.Lock()
        #: When it was last noted as confirmed, when it may be written next, whether that is to come, and whether it gives memory back.
        self._noted = 0.0
        self._write_at = 0.0
        self._due = self._large = False

    @property
    def path(self) -> str:
        return self.storage.path

    def restore(self) -> float | None:
        """Publish what is on disk. Returns when a primary last confirmed it (Unix time); None: there is nothing, or nothing usable, which is logged."""
        origin, began = self.zone.origin, time.monotonic()
        self._keeping.check(self.folder)
        if self._keeping.reason:
            self._repeat()
        with _read_once_lock:
            if origin.lower() in _read_once.values():
                self.zone.folder = self.folder
        try:
            confirmed = self.storage.restore(self.zone)
        except (OSError, ValueError, MemoryError) as error:
            log.warning(f"What was kept of {origin} is not used: {error}")
            return None
        if confirmed is not None:
            log.debug(f"Read {self.zone.index.statistics['records']} records of {origin} in {(time.monotonic() - began) * 1000:.0f} ms")
            if self.storage.damage:
                log.warning(f"Of what was kept of {origin} an older version is used: {self.storage.damage}")
        return confirmed

    def publish(self, publish: Callable[[], object], version: ZoneDraft | ZoneChange, confirmed: float) -> None:
        """Publish a version, which a primary had at a time (Unix time). Raises what ``publish`` does."""
        with self.storage.publishing():
            publish()
            self.storage.note(version, confirmed)

    def write_soon(self, octets: int, large: bool) -> None:
        """Write what is new: at once, if the last time was long ago. ``octets`` is the size of what came, and ``large`` whether memory is given back then."""
        with self._lock:
            self._large |= large
            if self._due:
                return
            self._due = True
            wait = self._write_at - time.monotonic()
        if wait <= 0:
            self._submit(octets)
        else:
            control.after(wait, partial(self._submit, octets))

    def _submit(self, octets: int) -> None:
        try:
            BUILDERS.submit(octets, self.write)
        except RuntimeError as error:  # no thread can be started: the next version tries again
            log.error(f"{error}")
            with self._lock:
                self._due = False

    def write(self) -> None:
        """Write what is new. Waits for the disk."""
        began = time.monotonic()
        with self._lock:
            self._due = False
            large, self._large = self._large, False
            ended = self._ended
        if ended or self.zone.serial is None or not self.storage.behind:
            return
        try:
            self.storage.write(self.zone)
        except (OSError, MemoryError) as error:
            self._failed(error)
        else:
            self._check_folder()
        if large:
            memory.give_back()
        took = time.monotonic() - began
        with self._lock:
            self._write_at = began + took + max(WRITE_PAUSE, WRITE_SHARE * took)

    def end(self) -> None:
        """Write what is new, and then nothing more: somebody else may keep the zone."""
        self.write()
        with self._lock:
            self._ended = True
        self._keeping.withdraw()

    def _failed(self, error: Exception) -> None:
        self._keeping.failed(error)
        self._repeat()

    def _repeat(self) -> None:
        """Write again after REPEAT_SECONDS."""
        with self._lock:
            if self._repeating or self._ended:
                return
            self._repeating = True
        control.after(REPEAT_SECONDS, self._write_again)

    def _write_again(self) -> None:
        with self._lock:
            self._repeating = False
            if self._ended:
                return
        if self.zone.serial is not None and self.storage.behind:
            self.write_soon(0, False)
            return
        self._check_folder()

    def _check_folder(self) -> None:
        """Tell whether the zone is kept: changes can be appended to a file whose folder cannot be written, but not for long."""
        try:
            check_folder(self.folder)
        except OSError as error:
            self._failed(error)
        else:
            self._keeping.succeeded()

    def remove(self) -> None:
        """Delete the file, and keep the zone no more."""
        with self._lock:
            self._ended = True
        self._keeping.withdraw()
        try:
            self.storage.remove()
        except OSError as error:
            log.warning(f"Failed to remove {self.path}: {error.strerror}")

    def confirm(self, confirmed: float, *, often: bool) -> None:
        """A primary had the version that serves at a time (Unix time). ``often``: it is asked every few seconds."""
        if often and time.monotonic() < self._noted + NOTE_PAUSE:
            return
        self._noted = time.monotonic()
        try:
            self.storage.confirm(confirmed)
        except OSError as error:
            self._failed(error)
