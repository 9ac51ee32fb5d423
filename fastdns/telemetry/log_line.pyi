"""Log lines of text or JSON; the native side is in ``log_line.pxd``."""

def put(level: str, plugin: str, text: str, fields: bytes = b"") -> bool:
    """Queue a line. False: the ring was full and the line was dropped.

    ``level`` is DEBUG, INFO, WARNING, ERROR or FATAL, or "" for none (KeyError for another); ``plugin`` the name of a plugin, or "". In a line of text control
    characters, newlines included, are written as ``\\DDD``, and the line is truncated to 2,048 octets; in JSON they are escaped, and the text is truncated.
    ``fields`` are further members of the JSON object, with commas between them, which text does not have; more than 2,048 octets of them are left out.
    """

def compose(level: str, plugin: str, text: str) -> bytes:
    """The line that `put` would queue, without newline, for other descriptors than that of the log."""

def set_json(wanted: bool) -> None:
    """Set whether lines are JSON, process-wide: before the first line."""

def is_json() -> bool:
    """Whether lines are JSON."""
