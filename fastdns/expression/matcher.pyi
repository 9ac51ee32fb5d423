from fastdns.expression.regex import Program

def engine() -> str:
    """What matches regular expressions here: "RE2", or "NFA" where fastdns was built without libre2."""

class Regex:
    """A compiled expression of RE2's syntax. ``program`` (see `fastdns.expression.regex.assemble`) makes it run on our own machine; without one it is RE2's.

    ValueError with Go's reason when RE2 refuses it.
    """

    @property
    def source(self) -> str: ...
    @property
    def names(self) -> dict[str, int]:
        """Numbers of the groups that have names."""
    @property
    def literal(self) -> bytes:
        """What every text that matches holds, b"" for nothing in particular."""
    def __init__(self, source: str, names: dict[str, int], program: Program | None = None, literal: tuple[bytes, int] = ...) -> None:
        """``literal`` is what `fastdns.expression.regex.required` gives."""
    def search(self, text: str) -> list[str | None] | None:
        """All groups of the first match anywhere, the whole match first; None without one."""
    @property
    def groups(self) -> int:
        """Capturing groups, the whole match not counted."""
