"""The next version of a zone from differences to the version that is served (RFC 1995). The native side is in ``index/change.pxd``."""

from collections.abc import Iterable

from fastdns.index.zone import Zone

#: Owner and rdata in uncompressed wire form: owner, type, TTL, rdata.
Row = tuple[bytes, int, int, bytes]

class ZoneChange:
    """Differences to the version with ``serial``. Used by one thread at a time. It costs by the number of differences, whatever the size of the zone.

    Records are deleted and added in the order of an IXFR: what was added may be deleted again. Methods raise `ZoneError` for differences that do not
    fit the version that is served, and MemoryError; the version that is served stays.
    """

    zone: Zone
    #: Of the new version after `finish` and until `publish`, else None.
    serial: int | None
    #: The records that the former version has and the new one has not, and the other way round; SOA records of the origin left out. After `finish`.
    deleted: list[Row]
    added: list[Row]

    def __init__(self, zone: Zone, serial: int) -> None: ...
    def __len__(self) -> int:
        """The number of differences that came."""

    def delete(self, owner: bytes, kind: int, ttl: int, rdata: bytes) -> None:
        """Delete a record, whatever its TTL. Raises ValueError for a malformed owner or rdata."""

    def add(self, owner: bytes, kind: int, ttl: int, rdata: bytes) -> None:
        """Add a record; the SOA of the origin replaces the former one, and is required. Raises ValueError for a malformed owner or rdata."""

    def replace(self, owners: list[bytes], deleted: Iterable[tuple[int, int, bytes]], added: Iterable[tuple[int, int, bytes]]) -> None:
        """Delete and add the same records (type, TTL, rdata; no SOA) at each of many names. Raises ValueError as `delete`."""

    def finish(self) -> None:
        """Make the new version for `publish`."""

    def publish(self) -> None:
        """Serve the new version. Raises ZoneError when another version was published since `finish`."""
