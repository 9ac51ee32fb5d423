"""Databases in MaxMind's format."""

class Database:
    """A database in memory. Raises ValueError, with the reason, for what is none."""

    #: Its ``database_type``, such as ``GeoLite2-City``.
    type: str

    def __init__(self, data: bytes) -> None: ...
    def get(self, address: str) -> object:
        """The whole value for an address, or None. Raises ValueError for what is no address, or broken."""
