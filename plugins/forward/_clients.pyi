"""The way of questions between the workers and the thread that asks over TLS and HTTPS."""

def open_wake() -> int:
    """A descriptor that becomes readable when there are requests; OSError when there is none to be had."""

def take() -> list[tuple[int, int, bytes | None]]:
    """All requests that wait, oldest first: their number, the client's number, and the request (None: a probe)."""

def give(number: int, reply: bytes | None, error: str = "") -> None:
    """Ends a request, with the octets of the reply or with the error."""
