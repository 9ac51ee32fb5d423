"""The native HTTP thread: listeners, connections and replies. ``endpoint.py`` uses it."""

def add_listener(fd: int, health: bool, health_only: bool) -> int:
    """Serve a listening, non-blocking socket and take ownership of it. Returns the listener's number.

    ``health``: /health is answered natively, with 200 ``OK``, or 503 while a worker has been in one batch for over a second.
    ``health_only``: all other paths are 404. Raises OSError for more than 64 listeners, or when the thread cannot be started.
    """

def set_health(id: int, health: bool, health_only: bool) -> None:  # noqa: A002
    """Set both flags of a listener."""

def remove_listener(id: int) -> None:  # noqa: A002
    """Close the socket of a listener. Replies in progress are completed."""

def take() -> tuple[int, int, int, bytes]:
    """Wait, without the GIL, for a request that is not answered natively: its number, its listener's, its client's network, its head with the blank line."""

def reply(request: int, head: bytes, body: bytes) -> None:
    """Answer a request from `take`. ``head``: status line and fields, without Connection, Content-Length and the blank line.

    A request whose connection was closed is ignored. Raises MemoryError.
    """
