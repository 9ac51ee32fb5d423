"""Counts of what each client gets while there are two configurations."""

class ClientCounts:
    """The table of one worker, for tests. MemoryError."""

    def __init__(self) -> None: ...
    def count(self, address: bytes, proven: bool, place: int) -> None:
        """Count an answer at a place of `Tally.replies`. ValueError."""

    def begin(self) -> None:
        """Forget all clients."""

    def rows(self, place: int) -> list[tuple[int, int, bool, int, int]]:
        """Network, client, whether the address is proven, answers at the place, all answers."""
