"""Master files (RFC 1035 5), for what reads few records; the native side is in ``zonefile/parser.pxd``."""

#: Owner (wire form, case as written), type, class, TTL, rdata.
ZoneRecord = tuple[bytes, int, int, int, bytes]

class ZoneFileError(ValueError):
    """What is wrong with a master file, in the words of CoreDNS's parser: ``FILE: dns: bad A A: "1.2.3" at line: 3:15``."""

    file: str
    line: int
    column: int

def parse(text: str | bytes, origin: str = ".", path: str = "", *, ttl: int | None = None) -> list[ZoneRecord]:
    """The records of a master file's text. ``path`` is for messages and $INCLUDE, ``ttl`` for records that have none.

    Raises ZoneFileError, MemoryError; ValueError when ``origin`` is no name.
    """

def read(path: str, origin: str = ".") -> list[ZoneRecord]:
    """The records of a master file. Raises OSError when it cannot be read, and as `parse` does."""

def count(path: str, origin: str = ".") -> int:
    """How many records a master file has; keeps none of them. Raises as `read` does."""
