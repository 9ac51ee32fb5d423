"""Rings of dnstap messages, and the way out of them."""

from fastdns.walk.placeholders import Format

#: What `Sender.pump` ends with.
TIME: int
STOPPED: int

class Sender:
    """The rings of one tap, and what takes messages out of them. One thread at a time may take."""

    endpoint: str
    extra: Format | None
    def __init__(self, endpoint: str, identity: bytes, version: bytes, extra: Format | None, full: bool, octets: int) -> None:
        """``octets`` of all rings together. Raises ValueError where identity and version are too long, OSError."""
    @property
    def address(self) -> int:
        """Of the native `Tap`, for other plugins of the block; good as long as the Sender is."""
    def want(self, wanted: bool) -> None:
        """Whether messages are made at all."""
    def pump(self, fd: int, seconds: float) -> int:
        """Send what comes over a connected socket, without the GIL. `TIME` is over, `STOPPED` and all was sent, or -errno of a broken connection."""
    def take(self, seconds: float) -> bytes | None:
        """Frames, at least one unless the time is over; None when it is stopped and there are none left."""
    def stop(self) -> None:
        """No more messages are waited for: who sends ends when the rings are empty."""
    def count_dropped(self, frames: int) -> None:
        """Messages that were taken, and are lost."""
    @property
    def dropped(self) -> float:
        """Messages that were dropped so far, of all taps of the endpoint."""

def count_frames(octets: bytes) -> int:
    """How many whole or begun frames there are."""

def message(
    identity: bytes,
    version: bytes,
    extra: bytes,
    udp: bool,
    client: bytes,
    client_port: int,
    local: bytes,
    local_port: int,
    asked: int,
    answered: int,
    octets: bytes,
    forwarder: bool = False,
) -> bytes:
    """A frame, its length included, with the message ``octets`` of a client (``answered`` 0: the query, or else the response), for a file.

    ``forwarder``: it is of the server itself, whose address ``client`` may be empty, and ``local`` is that of the upstream. Addresses as octets; times in
    ns since 1970. Raises ValueError for what is no address.
    """
