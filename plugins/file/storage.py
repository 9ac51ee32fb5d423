"""Zones kept on disk: what came last, so that a restart serves it while no primary, and no cloud, answers.

A file has a whole version, and behind it what has changed since (``index/zone_dump.pxd``). A whole version is written beside the file before and renamed; what
a process that was killed had begun has a name of its own, which the next one writes over. Changes are appended; what a killed process, or a full
disk, has left of one is not read. A file's time of change is when a primary or a cloud last confirmed the version.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
import time
from typing import Final

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.index.zone_dump import ZoneDump, change_block, change_content
from fastdns.index.zone_load import ZoneFile
from fastdns.setup import Controller
from fastdns.system.files import check_folder, open_regular, sync_folder

__all__ = ["Storage", "store_folder"]

#: Changes of more octets than this share of the whole, and than this many, have the whole written again: a restart would read them all.
SHARE: Final = 4
LEAST: Final = 64 << 10
#: Only its owner may read a zone: transfers of it may be restricted.
MODE: Final = 0o600
#: Seconds that another process may hold a file's lock.
LOCK_SECONDS: Final = 5.0
LOCK_PAUSE: Final = 0.02


class Storage:
    """The file of one zone. From any thread. ``source`` distinguishes zones of one name."""

    def __init__(self, folder: str, origin: str, source: str = "") -> None:
        name = _file_name(origin, source)
        self.folder = folder
        self.path = os.path.join(folder, name)
        #: What the last `restore` could not use, "" for all is well.
        self.damage = ""
        self._begun = os.path.join(folder, f".{name}.new")
        self._lock = threading.Lock()
        #: Held while a version is published and noted, and while what is to be written is taken.
        self._noting = threading.Lock()
        #: Contents of changes that are not in the file; None: a whole version has to be written.
        self._changes: list[bytes] | None = None
        self._waiting = 0
        self._confirmed = 0.0
        self._removed = False
        #: Of the file, as it was read or written last: octets of the whole version, octets and blocks until the end of the last change, inode and size.
        self._whole = self._end = self._blocks = self._inode = self._size = 0

    # ---- reading ----

    def restore(self, zone: Zone) -> float | None:
        """Publish what is kept. Returns when it was last confirmed (Unix time); None: nothing is kept.

        Raises OSError, MemoryError and ValueError: nothing of it is usable.
        """
        with self._lock:
            try:
                descriptor = open_regular(self.path)
            except FileNotFoundError:
                return None
            try:
                status = os.fstat(descriptor)
                file = ZoneFile(zone, descriptor, status.st_size)
                try:
                    draft = file.read()
                except ValueError as error:
                    raise ValueError(f"{self.path} {error}") from error
                zone.publish(draft)
                self._read_changes(file, status.st_size)
            finally:
                os.close(descriptor)
            self._whole, self._end, self._blocks = file.whole, file.end, file.blocks
            self._inode, self._size = status.st_ino, status.st_size
            self._confirmed = status.st_mtime
            return self._confirmed

    def _read_changes(self, file: ZoneFile, size: int) -> None:
        """Changes that do not fit leave the version before them."""
        self.damage, self._changes = "", []
        try:
            change = file.read_changes(file.zone.serial or 0)
            if change is not None:
                change.publish()
        except ValueError as error:
            self.damage, self._changes = f"the changes in {self.path} are not usable: {error}", None
            return
        if file.end < size:
            self.damage = f"{self.path} ends with a change that is not whole"

    # ---- what is to be written ----

    def publishing(self) -> threading.Lock:
        """To be held while a version is published and noted."""
        return self._noting

    def note(self, version: ZoneDraft | ZoneChange, confirmed: float) -> None:
        """A version has been published, which a primary had at a time (Unix time); `write` writes it."""
        self._confirmed = confirmed
        if self._changes is None:
            return
        content = change_content(version) if isinstance(version, ZoneChange) else None
        if content is None or self._end - self._whole + self._waiting + len(content) > max(LEAST, self._whole // SHARE):
            self._changes = None
            self._waiting = 0
        else:
            self._changes.append(content)
            self._waiting += len(content)

    @property
    def behind(self) -> bool:
        """Whether something is to be written."""
        return self._changes is None or bool(self._changes)

    def confirm(self, confirmed: float | None = None) -> None:
        """A primary has, or had at a time (Unix time), the version that was noted last. Raises OSError, also if a next version could not be written."""
        self._confirmed = time.time() if confirmed is None else confirmed
        if not self.behind and not self._removed:
            os.utime(self.path, (self._confirmed,) * 2)
            check_folder(self.folder)

    # ---- writing ----

    def remove(self) -> None:
        """Keep nothing from now on, whatever is noted. Raises OSError."""
        with self._lock:
            self._removed = True
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def write(self, zone: Zone) -> None:
        """Write what was noted. Raises OSError and MemoryError."""
        with self._lock:
            if self._removed:
                return
            with self._noting:
                changes, self._changes, self._waiting = self._changes, [], 0
                dump = ZoneDump(zone) if changes is None else None
            try:
                if dump is None and changes and not self._append(changes):
                    with self._noting:
                        self._changes = []
                        dump = ZoneDump(zone)
                if dump is not None:
                    self._write_whole(dump)
            except BaseException:
                with self._noting:
                    self._changes = None
                raise

    def save(self, zone: Zone) -> None:
        """Keep the version that serves, whole and confirmed now. Raises OSError and MemoryError."""
        with self._noting:
            self._changes, self._confirmed = None, time.time()
        self.write(zone)

    def _write_whole(self, dump: ZoneDump) -> None:
        descriptor = self._begin()
        try:
            octets = dump.write(descriptor)
            self._finish(descriptor)
            os.replace(self._begun, self.path)
            self._whole = self._end = octets
            self._blocks = dump.blocks
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._begun)
            raise
        finally:
            os.close(descriptor)
        sync_folder(os.path.dirname(self.path) or ".")

    def _append(self, changes: list[bytes]) -> bool:
        """False: the file is not the one that was read or written last."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        try:
            _lock(descriptor)
            if any((status.st_ino, status.st_size) != (self._inode, self._size) for status in (os.fstat(descriptor), os.stat(self.path))):
                return False
            blocks = [change_block(content, self._blocks + i) for i, content in enumerate(changes)]
            os.fchmod(descriptor, MODE)  # of a file that an earlier version has made
            if self._end < self._size:
                os.ftruncate(descriptor, self._end)
            os.lseek(descriptor, self._end, os.SEEK_SET)
            octets = b"".join(blocks)
            while octets:
                octets = octets[os.write(descriptor, octets) :]
            self._finish(descriptor)
            self._end, self._blocks = self._size, self._blocks + len(blocks)
            return True
        except FileNotFoundError:  # it has been removed meanwhile
            return False
        finally:
            os.close(descriptor)

    def _finish(self, descriptor: int) -> None:
        """The disk has what was written; when it was confirmed is the file's time."""
        os.utime(descriptor, (self._confirmed,) * 2)
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        self._inode, self._size = status.st_ino, status.st_size

    def _begin(self) -> int:
        """An empty file that nobody else writes: a server that ends may be keeping the zone still when the next one begins."""
        while True:
            descriptor = os.open(self._begun, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, MODE)
            try:
                _lock(descriptor)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._begun)):
                    os.ftruncate(descriptor, 0)
                    os.fchmod(descriptor, MODE)
                    return descriptor
            except FileNotFoundError:  # the other one has renamed it
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def store_folder(controller: Controller) -> str:
    """Read the folder of a property. `fastdns check` warns of one that cannot be used; a server starts without it."""
    path = controller.path(controller.one_arg(), reads=False)
    try:
        check_folder(path)
    except OSError as error:
        controller.suspect(f"nothing can be kept in {path}: {error.strerror}")
    return path


def _lock(descriptor: int) -> None:
    """Lock a file that another process may be writing. Raises OSError if that one does not end."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(errno.EAGAIN, "another process holds the file's lock") from None
            time.sleep(LOCK_PAUSE)
        else:
            return


def _file_name(origin: str, source: str) -> str:
    """``db.example.org`` or ``db.example.org@SOURCE``; what might mean something to the file system is escaped."""
    name = _escaped(origin.lower().removesuffix("."), r"[^a-z0-9._-]")
    return f"db.{name}@{_escaped(source, r'[^A-Za-z0-9._-]')}" if source else f"db.{name}"


def _escaped(text: str, pattern: str) -> str:
    return re.sub(pattern, lambda found: "".join(f"%{octet:02x}" for octet in found[0].encode()), text)
