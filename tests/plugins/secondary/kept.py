"""What *secondary* keeps on disk, as the tests read it."""

from __future__ import annotations

from pathlib import Path

from fastdns.index.zone import Zone
from fastdns.index.zone_load import ZoneFile


def read(path: Path, origin: str = "example.org.") -> tuple[Zone, ZoneFile]:
    """The zone of a file with its changes. Raises OSError and ValueError."""
    zone = Zone(origin)
    with path.open("rb") as file:
        kept = ZoneFile(zone, file.fileno(), path.stat().st_size)
        zone.publish(kept.read())
        change = kept.read_changes(zone.serial or 0)
        if change is not None:
            change.publish()
    return zone, kept


def serial_in(path: Path) -> int | None:
    """None: there is no whole zone."""
    try:
        return read(path)[0].serial
    except (OSError, ValueError):
        return None
