"""The zone of a cluster's objects."""

from fastdns.plugins.kubernetes.decode.objects import Sink

#: Type of its records, the octet of `FORMAT` in that of the apex, and what the second octet of other owners' says.
TYPE_OBJECT: int
FORMAT: int
#: Bits of its third.
EXTRA_LABELS: int
EXTRA_PLACES: int
PART_HEAD: int
PART_ENDPOINT: int
PART_PIECE: int

def begin(sink: Sink, kind: int) -> None:
    """A full list of a kind begins."""

def validate(kind: int, message: bytes) -> None:
    """Raises ValueError for a malformed object, MemoryError."""

def upsert(sink: Sink, kind: int, message: bytes, pod_labels: bool = False) -> None:
    """Hand an object over, a pod's labels if told. Raises ValueError for a malformed one, MemoryError."""

def remove(sink: Sink, kind: int, message: bytes) -> None:
    """Remove the object of that namespace and name. Raises ValueError for a malformed one."""

def commit(sink: Sink, kind: int) -> None:
    """The list is complete: what was not upserted is gone. Raises MemoryError: it is not served, and has to come again."""

def drop(sink: Sink, kind: int) -> None:
    """Nobody wants the kind any more: its objects are forgotten."""

def flush(sink: Sink) -> None:
    """No more changes are at hand for the moment."""
