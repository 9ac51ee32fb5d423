"""Zones of authoritative plugins: versions built beside the one that serves, and swapped whole."""

from collections.abc import Iterable

from fastdns.index.index import Index

class ZoneError(ValueError):
    """Records that are no zone."""

class ZoneDraft:
    """A version of a zone in the making; `Zone.draft` begins one."""

    #: Of its zone.
    origin: str
    #: Of the SOA, once it is finished.
    serial: int | None
    #: How many were taken.
    records: int
    #: How many records were left out, being outside of the zone or not of class IN, and the first one's owner.
    ignored: tuple[int, str | None]

    def add(self, owner: bytes, kind: int, ttl: int, rdata: bytes, klass: int = 1) -> bool:
        """Take a record; owner and rdata in uncompressed wire form. False: the SOA has the serial that need not be loaded.

        Raises ValueError (`ZoneError` when a limit is passed) and MemoryError.
        """

    def read(self, path: str) -> bool:
        """Take the records of a master file. False: its SOA has the serial that need not be loaded.

        Raises OSError when it cannot be read, `fastdns.zonefile.parser.ZoneFileError`, ZoneError and MemoryError.
        """

    def finish(self) -> None:
        """Make it ready to be published. Raises ZoneError and MemoryError."""

class Zone:
    """A zone that workers answer from, empty (SERVFAIL) until a first version is published."""

    index: Index
    #: Name with its final dot.
    origin: str
    #: The same in lower-case wire form.
    wire: bytes
    #: Of the version that serves; None: there is none.
    serial: int | None
    #: The data are too old to be served (secondaries); a new version clears it.
    expired: bool

    def __init__(self, origin: str) -> None: ...
    def draft(self, unless: int | None = None) -> ZoneDraft:
        """Begin a version; with ``unless`` one with this serial is not loaded."""

    def publish(self, draft: ZoneDraft) -> None:
        """Let workers answer from a finished draft from now on. Raises ValueError for any other."""

class ZoneSet:
    """The zones that a handler looks a name's zone up in; of two with one name the later one."""

    zones: tuple[Zone, ...]

    def __init__(self, zones: Iterable[Zone] = ()) -> None: ...
    def replace(self, zones: Iterable[Zone]) -> None:
        """Put these zones in place of those that stood, at one moment."""

    def collect(self) -> int:
        """Let go of zones that no worker looks at any more; how many sets still wait."""
