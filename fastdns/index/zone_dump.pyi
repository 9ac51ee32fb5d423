"""Zones to files. The format is in ``index/zone_dump.pxd``; ``index/zone_load`` reads it."""

from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone

class ZoneDump:
    """The version of a zone that serves when it is made. Raises MemoryError."""

    #: That `write` has written.
    blocks: int

    def __init__(self, zone: Zone) -> None: ...
    def write(self, fd: int) -> int:
        """Write it to an empty file. Returns its octets. Raises OSError and MemoryError."""

def change_content(change: ZoneChange) -> bytes:
    """The content of the block of a change. Raises MemoryError."""

def change_block(content: bytes, number: int) -> bytes:
    """The block with that content that follows so many others."""
