class Zone:
    """A place of the time zone database, for the workers."""

    def __init__(self, name: str) -> None:
        """ValueError for a name that the database lacks."""
