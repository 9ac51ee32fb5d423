"""The native handler."""

from typing import Any

from fastdns._mux import NativeHandler
from fastdns.walk.metadata import LabelHandle

class TraceHandler(NativeHandler):
    """Writes down every N-th query."""

    #: What sends them on.
    reporter: Any
    def __init__(self, every: int, long_ids: bool = False) -> None:
        """every: 0 is none; long_ids: traces that begin here have ids of 128 bits."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``trace/traceid``."""

    def below(self, deepest: int) -> list[str]:
        """Names of the handlers below this one, up to a position in the chain."""

    def take(self) -> list[tuple[tuple[int, int, int, int, int], int, int, str, int, int, bool, str, int, str]]:
        """What came since the last call: its span, ns since 1970, ns taken, name, type, rcode, over UDP, client, position of the deepest handler, error."""
