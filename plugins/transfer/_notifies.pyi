"""NOTIFY for the addresses of a zone, on one socket."""

from collections.abc import Sequence

TRIES: int
#: Seconds that an address has for an answer: the first time, and each further time so much more.
PATIENCE: float

class Notifies:
    """The NOTIFYs of a zone to addresses of one family (RFC 1996 3). For one thread.

    An address that has not answered yet when the zone changes again gets its next NOTIFY after its answer, or when it is tried again.
    """

    def __init__(self, fd: int, zone: bytes, addresses: Sequence[tuple[bytes, int, int]]) -> None:
        """A UDP socket that does not block, and is the caller's; the zone in wire form; octets, port and scope of each address, each once.

        Raises ValueError and MemoryError.
        """

    def begin(self) -> None:
        """The zone has changed: all are to be told."""

    def step(self) -> float | None:
        """Take up answers, and send what is due. Seconds until the next step, unless the socket can be read before; None: nothing is under way."""

    def failures(self) -> list[tuple[int, int, int]]:
        """Number of each address that has not accepted the zone's NOTIFY since the last call, with errno and rcode (one of them is 0)."""
