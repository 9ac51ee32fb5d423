"""Errors of a Corefile and their texts."""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["CorefileError", "defect", "plugin_frames", "quoted", "system_error"]


class CorefileError(Exception):
    """A Corefile, or an argument in it, is invalid. ``str()`` is the whole error text.

    ``file`` and ``line`` are the position, also when the text does not have it (lines count from 1; 0: unknown). ``frames`` are the lines of a
    traceback in the code of a third party's plugin, outermost first; see `plugin_frames`. ``origin`` is the file of ``import … skip_broken`` without
    which the error would not be; "": there is none.
    """

    def __init__(self, message: str, file: str = "", line: int = 0, frames: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.frames = list(frames)
        self.origin = ""

    def of(self, origin: str) -> CorefileError:
        """The error, with its origin unless it is known already."""
        self.origin = self.origin or origin
        return self


def system_error(error: OSError, operation: str = "open", path: str | None = None) -> str:
    """The text of a failed system call as Go prints it: ``open PATH: no such file or directory``."""
    reason = error.strerror or str(error)
    name = path if path is not None else error.filename
    return f"{operation} {name}: {reason[:1].lower()}{reason[1:]}"


def plugin_frames(error: BaseException) -> list[str]:
    """Where an exception passed through code that is not fastdns's: ``FILE:LINE in FUNCTION: SOURCE``, outermost first."""
    import linecache
    import traceback

    frames = []
    linecache.checkcache()
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("fastdns.", "importlib.")) and not code.co_filename.startswith("<"):
            frames.append(f"{code.co_filename}:{line} in {code.co_name}: {linecache.getline(code.co_filename, line).strip()}")
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(f"{error.filename}:{error.lineno}: {(error.text or '').strip()}")
    return frames


def defect(error: BaseException) -> str:
    """The text of an unexpected exception, with the line that raised it."""
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
