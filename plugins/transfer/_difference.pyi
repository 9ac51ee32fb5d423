"""What changed between two versions of a zone."""

from fastdns.index.index import Index

#: Owner, type, TTL, rdata in wire form.
_Row = tuple[bytes, int, int, bytes]

class Version:
    """The records of an index as they are now, kept whatever is published since."""

    def __init__(self, index: Index) -> None: ...
    @property
    def soa(self) -> _Row | None:
        """The SOA at the origin."""

def difference(old: Version, new: Version, most: int) -> tuple[list[_Row], list[_Row]] | None:
    """The records that are only in one or the other, without SOAs of the origin; None when there are more than ``most``. A TTL that changed counts."""
