"""Where a zone's records contradict each other, so that only some of them are served. What a conflict is says ``index/conflict.pxd``."""

from typing import Final

from fastdns.index.zone import Zone, ZoneDraft

#: Kinds of conflicts.
CNAME_DATA: Final[int]
CNAME_APEX: Final[int]
CNAME_CUT: Final[int]
CNAMES: Final[int]
DNAMES: Final[int]
DNAME_CUT: Final[int]
OCCLUDED: Final[int]
SOAS: Final[int]

def conflicts_of(zone: Zone, limit: int) -> list[tuple[str, int]]:
    """Names with conflicts of the version that is served, and what kind the first one is: at most ``limit`` in canonical order. Raises MemoryError."""

def conflicts_in(draft: ZoneDraft, path: str, limit: int) -> list[tuple[str, int, str, int]]:
    """File (perhaps an included one), line, name and kind: the first conflict of each name in the order of the file from which the draft was read.

    The file is read once more, unless the draft, which must be finished, has no conflicts. Raises OSError, ZoneFileError and MemoryError, and
    ValueError for a draft that is not finished or is published.
    """
