"""Where records are kept."""

class Recording:
    """Memory of all workers; they make their shares of it as they record their first query."""

    def __init__(self, octets: int, slow: int, name_hash: bool = False, name_labels: int = 255, prefix_ipv4: int = 32, prefix_ipv6: int = 128) -> None:
        """``octets`` of all workers together; ``slow``: ns from which on a query is slow.

        ``name_labels`` labels of names stay (255: all), behind a keyed hash of the whole name with ``name_hash``. Of addresses the first bits stay.
        """

    def copy(self, worker: int, kind: int, position: int) -> tuple[bytes, int, int, int, int, int]:
        """Have a worker copy records from a position on: some of them, where to go on, where the newest ends; how many are kept, their octets, and those
        of the worker's memory. Raises ValueError for a worker or kind that there is not, TimeoutError, MemoryError."""

def workers() -> int:
    """How many there are; 0 before the start."""
