"""Fuzz targets over master files and rdata."""

def addresses() -> dict[str, int]:
    """As of _targets."""
