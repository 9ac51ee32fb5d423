"""The folder that recordings are written to: bounded in number and octets of files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fastdns.system.files import replacing
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["FILES_DEFAULT", "OCTETS_DEFAULT", "Folder", "Stored"]

log = Log("plugin/recorder")

FILES_DEFAULT, OCTETS_DEFAULT = 20, 256 << 20
SUFFIXES = ("pcapng", "dnstap")
NAME = re.compile(r"recorder-\d{8}T\d{6}\.\d{3}Z-[a-z0-9-]+\.(?:pcapng|dnstap)")
#: What files begin with while they are written.
UNFINISHED = ".recorder-"

WRITTEN = Metric("fastdns_recorder_files_total", "Counter of files that recordings were written to, by format.", "counter", ("format",))
FAILED = Metric("fastdns_recorder_file_errors_total", "Counter of files that could not be written.", "counter")


class Stored(NamedTuple):
    """A file of the folder."""

    path: str
    octets: int
    #: Seconds since 1970.
    time: float


class Folder:
    """Only one thread at a time may write."""

    def __init__(self, path: str, files: int = FILES_DEFAULT, octets: int = OCTETS_DEFAULT) -> None:
        self.path, self.files, self.octets = path, files, octets
        self.keeping = Keeping("recorder", path, log.error, f"recordings cannot be written to {path}", f"recordings are written to {path} again")

    def clean(self) -> None:
        """Remove what a process that ended while it wrote has left. Raises OSError."""
        for entry in os.scandir(self.path):
            if entry.name.startswith(UNFINISHED):
                os.unlink(entry.path)

    def listed(self) -> list[Stored]:
        """The oldest first. Raises OSError."""
        found = []
        for entry in os.scandir(self.path):
            if NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append(Stored(entry.path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda stored: os.path.basename(stored.path))

    def write(self, cause: str, contents: Iterable[tuple[str, Callable[[], Iterable[bytes]]]]) -> list[str]:
        """Write a file for each suffix, and return their paths. What cannot be written is logged and counted."""
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        word = re.sub(r"[^a-z0-9]+", "-", cause.lower()).strip("-")[:40] or "dump"
        paths = []
        for suffix, pieces in contents:
            path = os.path.join(self.path, f"recorder-{stamp}-{word}.{suffix}")
            try:
                self._make_room(1, 0)
                with replacing(path, UNFINISHED) as file:
                    for octets in pieces():
                        file.write(octets)
            except OSError as error:
                FAILED.add(())
                self.keeping.failed(error)
                log.error(f"cannot write {path}: {error.strerror}")
                continue
            WRITTEN.add((suffix,))
            self.keeping.succeeded()
            paths.append(path)
        try:
            self._make_room(0, 0)
        except OSError as error:
            log.error(f"cannot remove files of {self.path}: {error.strerror}")
        return [path for path in paths if os.path.exists(path)]

    def _make_room(self, files: int, octets: int) -> None:
        """Remove the oldest files until there is room for so many more. Raises OSError."""
        stored = self.listed()
        total = sum(file.octets for file in stored)
        while stored and (len(stored) + files > self.files or total + octets > self.octets):
            os.unlink(stored[0].path)
            total -= stored[0].octets
            del stored[0]
