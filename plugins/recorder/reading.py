"""What recordings hold: the section ``recorder`` of the status document."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from fastdns._wire import name_wire
from fastdns.plugins.recorder import _records
from fastdns.plugins.recorder._memory import Recording, workers
from fastdns.plugins.recorder.question import describe

__all__ = ["KINDS", "last", "raw", "section", "total"]

#: Where records are kept, by number.
KINDS = ("recent", "slow", "failed", "dropped")
MOST_DEFAULT, MOST_MAX = 100, 10_000


def section(recordings: Sequence[Recording], request: Mapping[str, Any]) -> dict[str, Any]:
    """The last queries, newest first: at most ``most``, of the list ``which``, of names in or below ``name``, of clients in the network ``client``.

    Raises ValueError, TypeError.
    """
    which = request.get("which") or "recent"
    if which not in KINDS:
        raise ValueError(f"which is one of {', '.join(KINDS)}, not {which!r}")
    most = min(int(request.get("most") or MOST_DEFAULT), MOST_MAX)
    if most < 0:
        raise ValueError("most is a number of queries")
    name = name_wire(request["name"]) if request.get("name") else b""
    client, bits = b"", 0
    if request.get("client"):
        network = ip_network(request["client"], strict=False)
        client, bits = network.network_address.packed, network.prefixlen
    found = [record for recording in recordings for record in last(recording, KINDS.index(which), most, name, client, bits)]
    found.sort(key=lambda record: record.received, reverse=True)
    offset = time.time_ns() - _records.clock()
    return {"queries": [describe(record, offset) for record in found[:most]], **total(recordings, KINDS.index(which))}


def total(recordings: Sequence[Recording], kind: int) -> dict[str, int]:
    """Records of a kind that are held, their octets, and those that the recordings take with all they keep."""
    held = used = capacity = 0
    for recording in recordings:
        for worker in range(workers()):
            # Behind the last record: nothing is copied.
            *_, count, octets, memory = recording.copy(worker, kind, (1 << 64) - 1)
            held, used, capacity = held + count, used + octets, capacity + memory
    return {"held": held, "bytes": used, "capacity": capacity}


def last(recording: Recording, kind: int, most: int, name: bytes = b"", client: bytes = b"", bits: int = 0) -> list[_records.Recorded]:
    """The newest records of each worker."""
    found: list[_records.Recorded] = []
    for worker in range(workers()):
        newest: deque[bytes] = deque(maxlen=most)
        for octets in pieces(recording, worker, kind):
            newest.extend(_records.split(octets, name, client, bits))
        found += map(_records.decode, newest)
    return found


def raw(recording: Recording, kind: int) -> list[bytes]:
    """All records of a kind as they are in memory, a list of pieces: few copies, so that a busy worker overwrites little of it meanwhile."""
    return [octets for worker in range(workers()) for octets in pieces(recording, worker, kind)]


def pieces(recording: Recording, worker: int, kind: int) -> Iterator[bytes]:
    """Runs of whole records of one worker, the oldest first, up to the one that was the newest as this began."""
    position, end = 0, None
    while end is None or position < end:
        octets, position, newest, *_ = recording.copy(worker, kind, position)
        end = newest if end is None else end
        if octets:
            yield octets
