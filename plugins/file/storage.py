"""Zones kept on disk: what came last, so that a restart serves it while no primary, and no cloud, answers.

A file is a master file in RFC 3597's generic form, written beside the one before and renamed: it is whole or not there. What a process
that was killed had begun has a name of its own, which the next one writes over. A file's time of change is when a primary or a cloud
last confirmed the zone; its last line says how many records there are, and a file without it is not read.
"""

from __future__ import annotations

import fcntl
import os
import re
import time

from fastdns._wire import name_text
from fastdns.corefile import CorefileError
from fastdns.corefile.errors import system_error
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.system.files import sync_folder

__all__ = ["Storage", "check_folder"]

END = re.compile(rb"; end: (\d+) records\n\Z")


class Storage:
    """The file of one zone. All functions raise OSError. ``source`` distinguishes zones of one name."""

    def __init__(self, folder: str, origin: str, source: str = "") -> None:
        name = _file_name(origin, source)
        self.path = os.path.join(folder, name)
        self._begun = os.path.join(folder, f".{name}.new")

    def load(self, zone: Zone) -> tuple[ZoneDraft, float] | None:
        """A finished draft of what was kept and when it was last confirmed (Unix time); None: nothing is kept. Raises ValueError for a broken file."""
        try:
            with open(self.path, "rb") as file:
                confirmed = os.fstat(file.fileno()).st_mtime
                file.seek(max(0, os.fstat(file.fileno()).st_size - 64))
                end = END.search(file.read())
        except FileNotFoundError:
            return None
        if end is None:
            raise ValueError(f"{self.path} is cut short")
        draft = zone.draft()
        draft.read(self.path)
        if draft.records != int(end[1]):
            raise ValueError(f"{self.path} has {draft.records} records, not {int(end[1])}")
        draft.finish()
        return draft, confirmed

    def save(self, zone: Zone) -> None:
        """Keep the version that serves, confirmed now."""
        with os.fdopen(self._begin(), "wb", buffering=1 << 20) as file:
            try:
                count = 0
                owner, text = b"", b""
                for name, kind, ttl, rdata in zone.index.snapshot():
                    if name != owner:
                        owner, text = name, name_text(name).encode("ascii")
                    file.write(b"%s %d IN TYPE%d \\# %d %s\n" % (text, ttl, kind, len(rdata), rdata.hex().encode("ascii")))
                    count += 1
                file.write(b"; end: %d records\n" % count)
                file.flush()
                os.fsync(file.fileno())
                os.replace(self._begun, self.path)
            except BaseException:
                os.unlink(self._begun)
                raise
        sync_folder(os.path.dirname(self.path) or ".")

    def _begin(self) -> int:
        """An empty file that nobody else writes: a server that ends may be keeping the zone still when the next one begins."""
        while True:
            descriptor = os.open(self._begun, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._begun)):
                    os.ftruncate(descriptor, 0)
                    return descriptor
            except FileNotFoundError:  # the other one has renamed it
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def confirm(self) -> None:
        """There is nothing newer than what is kept."""
        os.utime(self.path, (time.time(),) * 2)


def check_folder(path: str) -> str:
    """The folder, if files can be made in it. Raises CorefileError."""
    try:
        os.listdir(path)
    except OSError as error:
        raise CorefileError(system_error(error)) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise CorefileError(f"open {path}: permission denied")
    return path


def _file_name(origin: str, source: str) -> str:
    """``db.example.org`` or ``db.example.org@SOURCE``; what might mean something to the file system is escaped."""
    name = _escaped(origin.lower().removesuffix("."), r"[^a-z0-9._-]")
    return f"db.{name}@{_escaped(source, r'[^A-Za-z0-9._-]')}" if source else f"db.{name}"


def _escaped(text: str, pattern: str) -> str:
    return re.sub(pattern, lambda found: "".join(f"%{octet:02x}" for octet in found[0].encode()), text)
