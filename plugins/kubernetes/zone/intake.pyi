"""All objects of a zone at once."""

from collections.abc import Iterable

from fastdns.index.index import Index
from fastdns.plugins.kubernetes.decode.objects import Sink

def upsert_all(sink: Sink, index: Index, kinds: Iterable[int], pod_labels: bool = False) -> int:
    """Hand over the objects of these kinds, pods' labels if told. Returns how many. Raises ValueError for records that are no objects, and MemoryError."""
