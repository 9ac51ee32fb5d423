"""Writing what is recorded to files."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastdns.plugins.recorder import _records, reading
from fastdns.plugins.recorder._memory import Recording
from fastdns.plugins.recorder._records import Recorded, decode
from fastdns.plugins.recorder.folder import Folder
from fastdns.plugins.recorder.pcapng import Capture
from fastdns.plugins.recorder.tap import Tap
from fastdns.system.files import check_folder
from fastdns.telemetry import events
from fastdns.telemetry.log import Log

__all__ = ["Output"]

log = Log("plugin/recorder")

#: A record's time, and what tells it from others: the first fields of `Record`.
TIME = struct.Struct("=8xq")
SAME = slice(8, 28)
#: Octets of a packet and its like in a file, beside its message: more than they are.
PACKET_OCTETS = 320


class Output:
    """A folder, and the recording that is written to it."""

    def __init__(self, recording: Recording, folder: Folder) -> None:
        self.recording, self.folder = recording, folder
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Look whether the folder can be used. A problem is logged and no more: files are not worth a server that does not start."""
        try:
            self.folder.clean()
            check_folder(self.folder.path)
        except OSError as error:
            self.folder.keeping.failed(error)

    def dump(self, trigger: str, cause: str) -> dict[str, Any]:
        """Write all that is recorded. Returns the paths and the number of queries; what cannot be written is logged, and no path is of it.

        Raises TimeoutError where a worker does not answer.
        """
        with self._lock:
            found = gather(self.recording, self.folder.octets // 2)
            offset = time.time_ns() - _records.clock()
            capture, tap = Capture(offset), Tap(offset)
            contents: list[tuple[str, Callable[[], Iterator[bytes]]]] = [
                ("pcapng", lambda: file_of(capture.head(), capture.packets, found, b"")),
                ("dnstap", lambda: file_of(tap.head(), tap.packets, found, tap.end())),
            ]
            paths = self.folder.write(trigger, contents)
        if paths:
            log.info(f"{len(found)} queries written to {' '.join(paths)}: {cause}")
            events.note("recording", paths[0], cause, files=paths, queries=len(found))
        return {"files": paths, "queries": len(found)}


def gather(recording: Recording, most: int) -> list[bytes]:
    """All records by time; one that is kept longer stands for the short one of the same query.

    The oldest are left out if a file would exceed ``most`` octets.
    """
    runs = {kind: reading.raw(recording, number) for number, kind in enumerate(reading.KINDS)}
    found: dict[bytes, bytes] = {}
    for kind in reversed(reading.KINDS):  # recent ones last
        for octets in runs.pop(kind):
            for record in _records.split(octets, b"", b"", 0):
                found.setdefault(record[SAME], record)
    ordered = sorted(found.values(), key=TIME.unpack_from)
    total, first = 0, len(ordered)
    while first and total + _estimate(ordered[first - 1]) <= most:
        first -= 1
        total += _estimate(ordered[first])
    return ordered[first:]


def _estimate(record: bytes) -> int:
    """Octets of a file that a record takes, at most."""
    messages = 6 if _records.has_pair(record) else 2
    return messages * (PACKET_OCTETS + len(record))


def file_of(head: bytes, packets: Callable[[Recorded], Iterable[tuple[int, bytes]]], found: list[bytes], end: bytes) -> Iterator[bytes]:
    """Octets of a file, its packets by time: replies stand where they were sent."""
    yield head
    later: list[tuple[int, bytes]] = []
    for octets in found:
        record = decode(octets)
        later.sort(key=_time)
        while later and later[0][0] <= record.received:
            yield later.pop(0)[1]
        later += packets(record)
    later.sort(key=_time)
    yield from (packet for _, packet in later)
    yield end


def _time(packet: tuple[int, bytes]) -> int:
    return packet[0]
