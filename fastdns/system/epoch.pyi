"""When memory that workers may read can be freed."""

def online(worker: int) -> None:
    """Put a worker's slot online, as its thread does before a batch.

    For tests and threads that stand in for a worker. Raises ValueError when the number is not below 64.
    """

def offline(worker: int) -> None:
    """Put a worker's slot offline. Raises ValueError when the number is not below 64."""

class Ticket:
    """A moment after which the workers seen online must have gone on."""

    def passed(self) -> bool:
        """Whether each of them has since been offline or quiescent."""
