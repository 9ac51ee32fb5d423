class Regex:
    """A compiled regular expression in RE2's syntax.

    Raises ValueError with Go's reason and the part of the expression that RE2 refuses.
    """

    @property
    def source(self) -> str:
        """The expression as written in the Corefile."""
    @property
    def names(self) -> dict[str, int]:
        """Numbers of the groups that have names."""
    @property
    def literal(self) -> bytes:
        """Octets that every matching text contains; b"" when there are none."""
    def __init__(self, source: str, spelling: str | None = None, literal: tuple[bytes, int] = ...) -> None:
        """``spelling`` is what RE2 compiles, ``source`` where it is None; ``literal`` is what `fastdns.expression.regex.required` gives."""
    def search(self, text: str) -> list[str | None] | None:
        """All groups of the first match anywhere in the text, the whole match first; None when there is no match."""
    @property
    def groups(self) -> int:
        """Capturing groups, the whole match not counted."""
