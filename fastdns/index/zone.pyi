"""Zones of authoritative plugins. A new version is built beside the served one and replaces it at once. The native side is in ``index/zone.pxd``."""

from collections.abc import Iterable

from fastdns.index.index import Index

class ZoneError(ValueError):
    """The records do not form a zone: no SOA, too many types at a name, an NSEC3 chain with too many iterations and so on."""

class ZoneDraft:
    """A version of a zone that is not yet published; `Zone.draft` makes one. Used by one thread at a time."""

    #: The zone's.
    origin: str
    #: Serial of the SOA after `finish`, else None.
    serial: int | None
    #: Number of records accepted.
    records: int
    #: Number of records outside the zone or not of class IN, which are ignored, and the owner of the first one.
    ignored: tuple[int, str | None]
    #: Number of names whose records contradict each other, after `finish` and until it is published; see ``index/conflict.pxd``.
    conflicts: int

    def add(self, owner: bytes, kind: int, ttl: int, rdata: bytes, klass: int = 1) -> bool:
        """Add a record; owner and rdata are uncompressed wire form, ttl is in seconds. False: the SOA has the serial ``unless`` of `Zone.draft`.

        Raises ValueError for a malformed owner or rdata, `ZoneError` when a limit is exceeded, MemoryError.
        """

    def read(self, path: str) -> bool:
        """Add the records of a master file (RFC 1035 5). False: its SOA has the serial ``unless`` of `Zone.draft`.

        Raises OSError when the file cannot be read, `fastdns.zonefile.parser.ZoneFileError`, ZoneError and MemoryError.
        """

    def finish(self) -> None:
        """Complete the version for `Zone.publish`. Raises ZoneError and MemoryError."""

class Zone:
    """A zone that workers answer from. Queries get SERVFAIL until a first version is published."""

    index: Index
    #: Name in presentation form with a final dot.
    origin: str
    #: The same in lower-case wire form.
    wire: bytes
    #: Serial of the published version; None before the first.
    serial: int | None
    #: Number of names of that version whose records contradict each other.
    conflicts: int
    #: A secondary's copy has expired (RFC 1035 3.3.13): queries get SERVFAIL. `publish` clears it.
    expired: bool
    #: Folder of a nameless file for the records of versions that are made from now on, which a process then has in memory only while it reads them; None: none.
    #: For zones that hardly any query is answered from: a worker may have to wait for the disk.
    folder: str | None
    #: Seconds since when a secondary's copy may differ from its primary's: see `confirm`. None where `confirm` was never called: this server is the primary.
    age: float | None
    #: Age in seconds beyond which a secondary's copy is stale; None: it never is.
    stale_after: float | None
    #: A stale copy is not served: *secondary* answers with SERVFAIL.
    stale_fails: bool

    def __init__(self, origin: str) -> None: ...
    def confirm(self, age: float) -> None:
        """A primary has the version that serves, or had it ``age`` seconds ago."""

    def draft(self, unless: int | None = None) -> ZoneDraft:
        """Begin a version. A version whose SOA has the serial ``unless`` is not loaded. Raises MemoryError."""

    def publish(self, draft: ZoneDraft) -> None:
        """Publish a finished draft: workers answer from it with their next batch. Raises ValueError when it is not finished, or another zone's."""

class ZoneSet:
    """A set of zones in which a handler finds the zone of a name. Of two zones with one origin the later one counts."""

    zones: tuple[Zone, ...]

    def __init__(self, zones: Iterable[Zone] = ()) -> None: ...
    def replace(self, zones: Iterable[Zone]) -> None:
        """Replace all zones at once."""

    def collect(self) -> int:
        """Drop the references to replaced sets that no worker can be reading; returns the number of sets that still wait."""
