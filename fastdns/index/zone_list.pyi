"""Zone lists of plugins; the native side is in ``index/zone_list.pxd``."""

from collections.abc import Iterable

class ZoneList:
    """Zones in presentation form with a final dot, compared without regard to case. Raises ValueError when a text is not a name."""

    names: tuple[str, ...]

    def __init__(self, zones: Iterable[str]) -> None: ...
    def match(self, text: str) -> bytes | None:
        """The longest zone at or above a name in presentation form, as lower-case wire form; None when no zone matches."""

def labels_first(wire: bytes) -> tuple[int, bytes]:
    """Sort key of a name in wire form: names with more labels come first."""
