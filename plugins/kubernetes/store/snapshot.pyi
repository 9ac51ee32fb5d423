"""The snapshot's file: a head, the objects of each kind as protobuf, and a checksum."""

from collections.abc import Iterable
from mmap import mmap

from fastdns.plugins.kubernetes.decode.objects import Sink

MAGIC: bytes

def save(sink: Sink, kinds: Iterable[int], fd: int, head: bytes) -> tuple[int, int]:
    """Writes the standing objects of some kinds to a file; ``head`` is the JSON line. Returns (octets, objects). OSError, MemoryError."""

def check(data: bytes | bytearray | memoryview | mmap) -> tuple[bytes, int]:
    """The JSON line of a snapshot and where its objects begin. ValueError when it is not whole."""

def load(sink: Sink, data: bytes | bytearray | memoryview | mmap, start: int, kinds: Iterable[int]) -> int:
    """Hands the objects of some kinds to a sink, each kind as a full list. Returns how many. ValueError, MemoryError."""
