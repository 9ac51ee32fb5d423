"""Entries of a cache as octets, and back. `snapshot` has the file around them."""

from collections.abc import Iterator

from fastdns.index.zone_list import ZoneList
from fastdns.plugins.cache._contents import SharedContents

class Entries:
    """Iterates over a cache's entries: octets of some whole ones at a time, while workers go on. Without those that have expired for good at ``now``
    (ns, monotonic), for more than ``stale`` seconds. MemoryError."""

    def __init__(self, shared: SharedContents, now: int, stale: int) -> None: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...

def count(data: memoryview) -> int:
    """How many entries these octets have. ValueError when they are not whole entries."""

def restore(shared: SharedContents, data: memoryview, omitted: ZoneList, began: int, stale: int, keep_good: bool, cell: int) -> None:
    """Have a worker put the entries of ``data``, for which `count` has been called, part by part. ``began`` (ns, monotonic) is ``now`` of when they were
    written. Put is what has not expired for more than ``stale`` seconds, is in none of the ``omitted`` zones, and is not there by now.
    ``cell`` counts them. MemoryError."""
