"""A fair queue, as tests see it."""

LEVELS: int

class Entries:
    """A queue with ``number`` entries, numbered from 0, none of them in it. Raises MemoryError; methods raise IndexError for an entry that is none."""

    number: int

    def __init__(self, number: int) -> None: ...
    def add(self, which: int, *keys: int) -> None:
        """Add an entry that is not in the queue, with a key for each level."""

    def remove(self, which: int) -> None:
        """Remove an entry that is in the queue."""

    def choose(self) -> int | None:
        """The entry that is to go, which stays; None: there is none."""

    def made(self) -> tuple[int, int]:
        """Groups and ranks that were ever in use at a time."""
