"""The native query log."""

from collections.abc import Sequence, Set

from fastdns._mux import NativeHandler
from fastdns.setup.config import Config
from fastdns.walk.metadata import LabelHandle
from fastdns.walk.placeholders import Format

#: Words of `class`.
CLASSES: dict[str, int]

class QueryLog(NativeHandler):
    """Writes a line for each query that its rules want."""

    def __init__(self, name: str, rules: Sequence[tuple[str, Set[str], Format]]) -> None:
        """Rules are tried in order: zone, classes of replies, and the format of the line. KeyError for an unknown class."""

    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that formats name, and what tells the client's pod; before the chain is published."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``log/type`` and ``log/class``."""
