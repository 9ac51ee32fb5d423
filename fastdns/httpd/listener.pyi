"""The native side of http.py: listeners, connections and replies."""

def add_door(fd: int, health: bool, alone: bool) -> int:
    """Serve a listening, non-blocking socket, owned here from now on; returns the door's number.

    ``health``: /health is answered natively, 200 ``OK`` or, while a worker has been in one batch for over a second, 503.
    ``alone``: everything else is 404. OSError when there are too many doors, or no thread.
    """

def change_door(id: int, health: bool, alone: bool) -> None:  # noqa: A002
    """Change both flags of a door."""

def remove_door(id: int) -> None:  # noqa: A002
    """Close the socket; replies under way are finished."""

def take() -> tuple[int, int, bytes]:
    """Wait, without the GIL, for a request that Python answers: its number, its door's, its head with the blank line."""

def reply(request: int, head: bytes, body: bytes) -> None:
    """Answer a request: status line and fields (no Connection, Content-Length, blank line), and the body."""
