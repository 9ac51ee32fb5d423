"""The record index that workers answer from. Names are text ("www.example.org.") or wire form; rdata is uncompressed wire form."""

from collections.abc import Iterable, Iterator

#: Type, TTL in seconds, rdata.
Record = tuple[int, int, bytes]

#: What `Found.outcome` may be.
OUTCOMES: tuple[str, ...]

class Found:
    """What the index says to a name and type (RFC 1034 4.3.2)."""

    #: One of `OUTCOMES`.
    outcome: str
    #: Wire form of the name whose records answer, or None.
    owner: bytes | None
    #: The owner is the wildcard below the closest encloser (RFC 4592).
    wildcard: bool
    #: The RRset asked for, the CNAME, the DNAME or the NS of the cut.
    records: list[Record]

class Index:
    """Records by owner name, read by workers without locks.

    Names must be at or below ``origin``. A ``flat`` index knows exact names only: no closest encloser, no wildcards, no cuts.
    Any thread may publish; what a change replaces is freed once no worker can be reading it.
    Raises ValueError for names that are none, lie outside, or have more than 100 types; MemoryError.
    """

    origin: str

    def __init__(self, origin: str | bytes = ".", *, flat: bool = False) -> None: ...
    def put(self, name: str | bytes, records: Iterable[Record]) -> None:
        """Replace all records of a name; without records, remove it."""

    def remove(self, name: str | bytes) -> None:
        """Remove all records of a name."""

    def update(self, changes: Iterable[tuple[str | bytes, Iterable[Record]]]) -> None:
        """Put many names; each becomes visible by itself. A change that is refused ends it; those before it stand."""

    def replace(self, names: Iterable[tuple[str | bytes, Iterable[Record]]]) -> None:
        """Put these names in place of everything, at one moment. When one is refused, nothing changes."""

    def get(self, name: str | bytes) -> list[Record]:
        """The records of exactly this name."""

    def find(self, name: str | bytes, qtype: int) -> Found:
        """The answer to a query. Not for flat indexes."""

    def snapshot(self, *, sorted: bool = True) -> Snapshot:  # noqa: A002
        """All records as they are now; ``sorted`` gives names in canonical order (RFC 4034 6.1)."""

    def collect(self) -> int:
        """Free what no worker reads any more; the octets that still wait."""

    @property
    def statistics(self) -> dict[str, int]:
        """``names`` with records, ``nodes`` (with empty non-terminals), ``records``, ``bytes`` in use, ``pending`` bytes to be freed."""

class Snapshot:
    """Records as they were at one moment: owner in wire form, type, TTL, rdata."""

    def __len__(self) -> int:
        """How many names."""

    def __iter__(self) -> Iterator[tuple[bytes, int, int, bytes]]: ...

def totals() -> dict[str, int]:
    """The `statistics` of all indexes of the process together."""
