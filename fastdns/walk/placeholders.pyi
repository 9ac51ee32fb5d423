"""Formats with placeholders."""

from fastdns.setup.config import Config

#: Placeholders by what stands between their braces.
PLACEHOLDERS: dict[str, int]

class Format:
    """A format, compiled; its text as it was given."""

    text: str
    def __init__(self, text: str) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that it names; before the chain is published."""

def compile_format(form: str) -> list[bytes | int | str]:
    """Literal octets, kinds of placeholders and labels of metadata, in order; unknown placeholders stay as they are."""
