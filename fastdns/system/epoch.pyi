"""When memory that workers may read can be freed."""

def online(worker: int) -> None:
    """Put a worker's slot online, as its thread does before a batch.

    For tests and threads that stand in for a worker. Raises ValueError when the number is not below 64.
    """

def offline(worker: int) -> None:
    """Put a worker's slot offline. Raises ValueError when the number is not below 64."""

class Mark:
    """The counters of all workers at the time of construction."""

    def passed(self) -> bool:
        """Whether each worker has been offline or quiescent since then."""
