"""Fuzz targets over connections."""

def addresses() -> dict[str, int]:
    """As of _targets."""
