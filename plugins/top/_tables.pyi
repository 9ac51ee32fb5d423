"""The tables of *top*, as octets and numbers; `report` makes text of them."""

#: A row: hash of the key, key, what is known of it, count, and how much too high the count may be.
Row = tuple[int, bytes, bytes, int, int]
#: A table: the total, the most that an absent key may have, and the rows.
Table = tuple[int, int, list[Row]]

class Tables:
    """What workers count. The methods are for one thread at a time."""

    def begin(self, workers: int) -> None:
        """Have this many workers count from now on. MemoryError."""

    def close(self) -> None:
        """End that. Further calls do nothing."""

    def drain(self, into: TableSet) -> None:
        """Move what the workers have counted into ``into``."""

class TableSet:
    """The tables of a span of time. MemoryError."""

    def merge(self, other: TableSet) -> None:
        """Add all rows and totals of another set. Errors add up: those of the other one, and at most a 256th of the total."""

    def add(self, table: int, key: bytes, count: int) -> None:
        """Add to the count of a key of at most 119 octets. ValueError."""

    def read(self) -> tuple[Table, ...]:
        """All tables, in the order of `TopTable`."""

    def weight(self) -> int:
        """The most queries that one that was counted stands for, at least 1."""

    def clear(self) -> None:
        """Remove all rows."""
