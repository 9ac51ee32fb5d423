from collections.abc import Callable, Iterable

from fastdns.index.zone import ZoneSet
from fastdns.plugins.file._file import FileHandler

class SecondaryHandler(FileHandler):
    """Answers from the zones of a set as *file* does. NOTIFYs for them go to the function of `serve_notifies`, by the handler's number."""

    def __init__(self, name: str, zones: ZoneSet, fall: Iterable[str] = (), *, number: int) -> None: ...

def open_queue() -> None:
    """Once, before any handler serves. Raises OSError."""

def serve_notifies(accept: Callable[[int, bytes, bytes], bool]) -> None:
    """Without an end: ``accept(handler number, zone, packed address)`` says whether a NOTIFY gets an answer."""
