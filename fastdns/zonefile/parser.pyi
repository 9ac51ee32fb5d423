"""Master files (RFC 1035 5), for callers that read few records; the native side is in ``zonefile/parser.pxd``."""

from collections.abc import Callable

#: Owner (wire form, case as written), type, class, TTL, rdata.
ZoneRecord = tuple[bytes, int, int, int, bytes]

class ZoneFileError(ValueError):
    """A syntax error of a master file, with the text of CoreDNS's parser: ``FILE: dns: bad A A: "1.2.3" at line: 3:15``."""

    file: str
    line: int
    column: int

def parse(text: str | bytes, origin: str = ".", path: str = "", *, ttl: int | None = None) -> list[ZoneRecord]:
    """The records of a master file's text.

    ``path`` is the file's name in error texts and the base of $INCLUDE; ``ttl`` (seconds) is that of records without one.
    Raises ZoneFileError, OSError for an $INCLUDE, MemoryError; ValueError when ``origin`` is not a name.
    """

def feed(text: bytes, take: Callable[[bytes, int, int, int, bytes], object], origin: str = ".", path: str = "", *, ttl: int | None = None) -> None:
    """Calls ``take(owner, type, class, ttl, rdata)`` for each record of a master file's text, so that they need not be in memory at a time.

    Raises as `parse`, and what ``take`` raises.
    """

def read(path: str, origin: str = ".") -> list[ZoneRecord]:
    """The records of a master file. Raises OSError when it cannot be read, else as `parse`."""

def count(path: str, origin: str = ".") -> int:
    """The number of records of a master file. No record is kept in memory. Raises as `read`."""
