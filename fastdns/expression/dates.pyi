class Zone:
    """A time zone of the time zone database, which native handlers use."""

    def __init__(self, name: str) -> None:
        """Raises ValueError when the database has no time zone of this name."""
