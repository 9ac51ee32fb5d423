"""The native half of errors."""

from fastdns._mux import NativeHandler

class ErrorLog(NativeHandler):
    """Tells of each query that ended in an error."""

    def __init__(self, name: str, number: int) -> None:
        """0 logs each error at once; another number is given out by `take` with the error."""

def take(seconds: float) -> list[tuple[int, str, str]]:
    """Errors that wait to be consolidated: the handler's number, the error, and the line to log.

    Waits for the first, at most so many seconds (negative: without end), without the GIL.
    """

def take_lost() -> int:
    """Errors since the last call that found the queue full."""
