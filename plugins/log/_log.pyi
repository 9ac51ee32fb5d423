"""The native query log."""

from collections.abc import Sequence, Set

from fastdns._mux import NativeHandler

#: Placeholders by what stands between their braces.
PLACEHOLDERS: dict[str, int]
#: Words of `class`.
CLASSES: dict[str, int]

class QueryLog(NativeHandler):
    """Writes a line for each query that its rules want."""

    def __init__(self, name: str, rules: Sequence[tuple[str, Set[str], list[bytes | int]]]) -> None:
        """Rules are tried in order: zone, classes of replies, and the operations of `compile_format`. KeyError for an unknown class."""

def compile_format(form: str) -> list[bytes | int]:
    """Literal octets and kinds of placeholders, in order; unknown placeholders stay as they are."""
