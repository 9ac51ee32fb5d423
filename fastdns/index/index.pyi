"""The record index. Names are presentation form (``www.example.org.``) or wire form; rdata is uncompressed wire form.

The native side is in ``index/index.pxd``.
"""

from collections.abc import Iterable, Iterator

#: Type, TTL in seconds, rdata.
Record = tuple[int, int, bytes]

#: The values of `Found.outcome`.
OUTCOMES: tuple[str, ...]

class Found:
    """The result of looking up a name and type (RFC 1034 4.3.2)."""

    #: One of `OUTCOMES`.
    outcome: str
    #: Wire form of the node whose records answer, or None.
    owner: bytes | None
    #: The owner is the wildcard below the closest encloser (RFC 4592).
    wildcard: bool
    #: The RRset of the queried type, the CNAME, the DNAME or the NS of the zone cut.
    records: list[Record]

class Index:
    """Records by owner name. Workers read it without locks.

    Names must be at or below ``origin``. A ``flat`` index answers exact names only: it has no closest encloser, wildcards or zone cuts.
    Any thread except a worker may write. Memory that a change replaces is freed once no worker can be reading it.
    Methods raise ValueError for malformed names, names outside the origin and names with more than 100 types, and MemoryError.
    """

    origin: str

    def __init__(self, origin: str | bytes = ".", *, flat: bool = False) -> None: ...
    def put(self, name: str | bytes, records: Iterable[Record]) -> None:
        """Replace all records of a name; without records, remove it."""

    def remove(self, name: str | bytes) -> None:
        """Remove all records of a name."""

    def update(self, changes: Iterable[tuple[str | bytes, Iterable[Record]]]) -> None:
        """`put` each name; workers may see some of the changes before the others. The first error ends the update, earlier changes remain."""

    def replace(self, names: Iterable[tuple[str | bytes, Iterable[Record]]]) -> None:
        """Replace all names at once: workers see the old or the new records, never both. On an error nothing changes."""

    def get(self, name: str | bytes) -> list[Record]:
        """The records of exactly this name; [] when it does not exist."""

    def find(self, name: str | bytes, qtype: int) -> Found:
        """Look a name and type up. Not for flat indexes."""

    def snapshot(self, *, sorted: bool = True) -> Snapshot:  # noqa: A002
        """All records at this time; ``sorted`` gives names in canonical order (RFC 4034 6.1)."""

    def collect(self) -> int:
        """Free the replaced memory that no worker can be reading; returns the octets that still wait."""

    @property
    def statistics(self) -> dict[str, int]:
        """``names`` with records, ``nodes`` (empty non-terminals included), ``records``, ``bytes`` in use, ``pending`` bytes to be freed.

        ``work`` is the number of slots and records that writers have looked at or copied since the index was made.
        """

class Snapshot:
    """The records at one point of time. Iteration gives owner in wire form, type, TTL in seconds, rdata."""

    def __len__(self) -> int:
        """The number of names."""

    def __iter__(self) -> Iterator[tuple[bytes, int, int, bytes]]: ...

def totals() -> dict[str, int]:
    """The sums of `Index.statistics` over all indexes of the process."""
