"""Zones from files. The format is in ``index/zone_dump.pxd``."""

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneDraft

class ZoneFile:
    """An open file of ``size`` octets, read from its beginning. What is not whole, or whose digest does not fit, ends it."""

    zone: Zone
    #: Octets of the zone without changes.
    whole: int
    #: Number of changes that follow it.
    changes: int
    #: Where what could be read ends, and the number of blocks until there.
    end: int
    blocks: int

    def __init__(self, zone: Zone, fd: int, size: int) -> None: ...
    def read(self) -> ZoneDraft:
        """The zone, finished. Raises OSError, MemoryError, ValueError for a file that has none whole, and ZoneError."""

    def read_changes(self, serial: int) -> ZoneChange | None:
        """All changes that follow, as a finished change of the version that serves, which is the one of `read`; None: there are none.

        Raises OSError, MemoryError, ValueError and ZoneError: they do not fit.
        """
