"""What can be wrong with a Corefile, and the texts for it."""

from __future__ import annotations

import os

__all__ = ["CorefileError", "defect", "quoted", "system_error"]


class CorefileError(Exception):
    """A Corefile, or an argument in it, that cannot be served. ``str()`` is the whole text for the operator.

    ``file`` and ``line`` tell where, even if the text does not (line counts from 1; 0: unknown).
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line


def system_error(error: OSError, operation: str = "open", path: str | None = None) -> str:
    """The text of a failed system call as operators know it: ``open PATH: no such file or directory``."""
    reason = error.strerror or str(error)
    name = path if path is not None else error.filename
    return f"{operation} {name}: {reason[:1].lower()}{reason[1:]}"


def defect(error: BaseException) -> str:
    """An exception that nobody foresaw, and the line that it came from."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})" if place is not None else ""
    return f"{type(error).__name__}: {error}{where}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}


def quoted(text: str) -> str:
    """The text in double quotes, with everything unprintable escaped."""
    out = []
    for char in text:
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    return f'"{"".join(out)}"'
