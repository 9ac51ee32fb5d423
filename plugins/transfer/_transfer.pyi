"""Where the records of zone transfers come from. The contract for providers is in _transfer.pxd."""

from collections.abc import Iterable, Iterator

from fastdns.index.index import Index

class Transfer:
    """The records of one zone at one moment: SOA first, SOA last. What a provider's ``transfer(zone, serial)`` returns.

    A single SOA says that the client is up to date. Iterating gives the records (owner, type, TTL, rdata in wire form), once.
    """

    @staticmethod
    def of_records(rows: Iterable[tuple[bytes, int, int, bytes]]) -> Transfer:
        """From rows of owner, type, TTL and rdata, which are copied. Raises ValueError for a bad owner, and MemoryError."""

    @staticmethod
    def of_index(index: Index, serial: int | None = None) -> Transfer | None:
        """From an index as it is now, in canonical order; only the SOA when ``serial`` is its serial. None: no SOA at the origin."""

    def __iter__(self) -> Iterator[tuple[bytes, int, int, bytes]]: ...
