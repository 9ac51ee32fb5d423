class Regex:
    """A compiled expression of RE2's syntax.

    ValueError with Go's reason and the part of the expression that RE2 refuses.
    """

    @property
    def source(self) -> str:
        """As the Corefile has it."""
    @property
    def names(self) -> dict[str, int]:
        """Numbers of the groups that have names."""
    @property
    def literal(self) -> bytes:
        """What every text that matches holds, b"" for nothing in particular."""
    def __init__(self, source: str, spelling: str | None = None, literal: tuple[bytes, int] = ...) -> None:
        """``spelling`` is what RE2 compiles, ``source`` where it is None; ``literal`` is what `fastdns.expression.regex.required` gives."""
    def search(self, text: str) -> list[str | None] | None:
        """All groups of the first match anywhere, the whole match first; None without one."""
    @property
    def groups(self) -> int:
        """Capturing groups, the whole match not counted."""
