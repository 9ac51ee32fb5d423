"""Files of JSON values, cut into the values."""

class Splitter:
    """Cuts a JSON file into its top-level values, or into the items of a list with what stands around them."""

    def __init__(self, items: bool) -> None: ...
    def feed(self, data: bytes) -> list[tuple[bytes, int]]:
        """The values that are whole now, each with its offset in the file. StreamError, MemoryError."""

    @property
    def around(self) -> bytes:
        """What stood around the items so far."""

    @property
    def complete(self) -> bool:
        """Whether the file may end here."""
