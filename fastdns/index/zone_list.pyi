"""Zone lists of plugins."""

from collections.abc import Iterable

class ZoneList:
    """Zones given as text with a final dot; letter case does not count. Raises ValueError for what is no name."""

    names: tuple[str, ...]

    def __init__(self, zones: Iterable[str]) -> None: ...
    def match(self, text: str) -> bytes | None:
        """The longest zone, in wire form, that is the name or above it."""

def labels_first(wire: bytes) -> tuple[int, bytes]:
    """Sort key: names with more labels come first."""
