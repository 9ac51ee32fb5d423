"""TCP streams put together out of captured segments, in any order.

A segment costs the logarithm of the number that waits for segments before it. All memory is bounded, with what Python adds to each segment.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Key", "Streams"]

#: Octets of a stream that are kept while they wait for those before them.
AHEAD = 1 << 20
#: Streams that are followed at once, and octets that all of them keep: those that have had no segment for longest go first. The end of many is not captured.
STREAMS, KEPT = 1 << 16, 64 << 20
#: Octets that a waiting segment takes beside its data.
SEGMENT_OCTETS = 192
HALF, ALL = 1 << 31, 0xFFFFFFFF

#: Source address and port, destination address and port.
Key = tuple[bytes, int, bytes, int]


@dataclass
class Stream:
    #: Position that comes next. Positions are sequence numbers that go on where those begin again at 0.
    following: int
    octets: bytearray = field(default_factory=bytearray)
    #: Segments that came before those in front of them, by position, and a heap of their positions.
    ahead: dict[int, bytes] = field(default_factory=dict)
    positions: list[int] = field(default_factory=list)
    #: Octets of these segments.
    waiting: int = 0

    def add(self, number: int, data: bytes) -> None:
        """Put the data of a segment behind the octets, or aside until those before it are there. What came twice counts once."""
        at = self.following + ((number - self.following + HALF) & ALL) - HALF
        if at > self.following:
            former = self.ahead.get(at)
            if former is None:
                heapq.heappush(self.positions, at)
                self.waiting += SEGMENT_OCTETS
            elif len(former) >= len(data):
                return
            self.ahead[at] = data
            self.waiting += len(data) - len(former or b"")
            return
        self._append(at, data)
        while self.positions and self.positions[0] <= self.following:
            at = heapq.heappop(self.positions)
            data = self.ahead.pop(at)
            self.waiting -= SEGMENT_OCTETS + len(data)
            self._append(at, data)

    def _append(self, at: int, data: bytes) -> None:
        fresh = data[self.following - at :]
        self.octets += fresh
        self.following += len(fresh)

    def messages(self) -> Iterator[bytes]:
        """Take complete messages out of the octets (RFC 1035 4.2.2)."""
        octets = self.octets
        at = 0
        while len(octets) - at >= 2 and len(octets) >= (end := at + 2 + int.from_bytes(octets[at : at + 2])):
            yield bytes(octets[at + 2 : end])
            at = end
        del octets[:at]


class Streams:
    """The octets that each side sends in its connections, in order. One whose beginning is missing is taken to begin with a message."""

    def __init__(self) -> None:
        #: The one that had a segment last is the last.
        self.by_key: OrderedDict[Key, Stream] = OrderedDict()
        #: Octets that all of them keep.
        self.kept = 0

    def open(self, key: Key, following: int) -> None:
        self.close(key)
        self.by_key[key] = Stream(following & ALL)
        self._evict()

    def close(self, key: Key) -> None:
        if (stream := self.by_key.pop(key, None)) is not None:
            self.kept -= len(stream.octets) + stream.waiting

    def take(self, key: Key, number: int, data: bytes) -> Iterator[bytes]:
        """The messages that a segment completes."""
        if not data:
            return
        stream = self.by_key.get(key) or Stream(number)
        self.close(key)
        stream.add(number, data)
        yield from stream.messages()
        if stream.waiting <= AHEAD:  # else a segment was not captured
            self.by_key[key] = stream
            self.kept += len(stream.octets) + stream.waiting
            self._evict()

    def _evict(self) -> None:
        while len(self.by_key) > STREAMS or self.kept > KEPT:
            self.close(next(iter(self.by_key)))
