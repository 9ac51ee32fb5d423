"""A sink that keeps what it is given as Python objects."""

from typing import Any

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.store.store import Store

NAMES: tuple[str, ...]

class Recorder(Sink):
    """Keeps objects by the rules of _objects.pxd and logs what changed."""

    #: What happened, oldest first: ("begin", kind, source), ("upsert", kind, namespace, name), ("remove", …), ("commit", kind).
    log: list[tuple[Any, ...]]
    #: Kinds committed at least once.
    synced: set[int]
    flushes: int
    #: Whether upserts fail as if memory had run out.
    refuses: bool

    def objects(self, kind: int) -> dict[tuple[str, str], dict[str, Any]]:
        """Standing objects of a kind by (namespace, name)."""

    def at(self, store: Store, address: bytes) -> list[str]:
        """The slices and pods of a store that have an address and that a look-up of it meets, sorted."""

    def take(self, store: Store) -> None:
        """Takes all objects of a store, as whole lists. Raises MemoryError."""
