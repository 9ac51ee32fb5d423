from collections.abc import Callable

from fastdns.index.zone import ZoneSet
from fastdns.plugins.file._file import FileHandler

#: Owner in lower-case wire form, type, class, TTL, rdata with uncompressed names; None: it is no rdata of that type.
UpdateRecord = tuple[bytes, int, int, int, bytes | None]

class DynupdateHandler(FileHandler):
    """Answers from the zone of a set as *file* does. UPDATEs for it that have a valid TSIG go to the function of `serve_updates`."""

    #: The zone's name, with a final dot.
    origin: str
    #: Called once no query is in the handler any more.
    on_close: Callable[[], object] | None

    def __init__(self, name: str, zones: ZoneSet, *, origin: str, number: int) -> None: ...
    def cache_bypass_zones(self) -> list[str]:
        """The zones that a *cache* above passes queries of."""

class Update:
    """An UPDATE whose signature is valid. Its client gets SERVFAIL when it is dropped without an answer. From any thread."""

    #: Of the handler that it came to.
    number: int
    #: Name of the key that signed it, in lower-case wire form.
    key: bytes
    #: Whether the client waits still, as far as is known.
    wanted: bool

    def sections(self) -> tuple[list[UpdateRecord], list[UpdateRecord]]:
        """The records of prerequisite and update section. Raises ValueError where the message is malformed."""

    def answer(self, rcode: int) -> None:
        """Reply with this code; once."""

def open_queue() -> None:
    """Once, before any handler serves. Raises OSError."""

def serve_updates(take: Callable[[Update], object]) -> None:
    """Without an end: ``take`` has the update answered, and must not block."""
