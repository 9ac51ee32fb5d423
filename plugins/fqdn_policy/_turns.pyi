"""Turns of clients at the policy agent."""

class TurnsTest:
    """Queues and a window, for tests. Times are nanoseconds. MemoryError."""

    def __init__(self, most: int, timeout: int) -> None: ...
    def add(self, address: bytes) -> int:
        """A message of a client waits; its number. ValueError."""

    def queue(self, address: bytes) -> tuple[int, int]:
        """The queues of a client's network and of the client, which other ones may have, too. ValueError."""

    def remove(self, number: int) -> None:
        """It waits no more. ValueError."""

    def next(self) -> int:
        """The number of the message whose turn it is, which waits no more; -1: there is none."""

    def send(self, now: int) -> int:
        """The number of the message that the agent gets now; -1: none waits, or the window is full."""

    def taken(self, sent: int, now: int) -> None:
        """The agent has acknowledged the message that it got at ``sent``."""

    def extend(self, now: int) -> bool:
        """Whether one more message without acknowledgement may be sent, which is charged then."""
