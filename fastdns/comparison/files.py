"""Messages of DNS out of files: packet captures (pcap, pcapng) and dnstap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fastdns.comparison.capture import read_capture
from fastdns.comparison.recorded import Recorded, RecordingError
from fastdns.comparison.tapfile import read_tap

__all__ = ["read_recorded"]

#: The escape that control frames of dnstap begin with, and so each file.
CONTROL = bytes(4)


def read_recorded(path: str | Path, port: int = 53) -> Iterator[Recorded]:
    """The messages of a capture (to and from ``port``) or a dnstap file (of clients), in their order. Raises RecordingError."""
    try:
        with open(path, "rb") as file:
            is_tap = file.read(4) == CONTROL
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    yield from read_tap(path) if is_tap else read_capture(path, port)
