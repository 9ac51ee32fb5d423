"""The process's log on standard output: ``[LEVEL] plugin/NAME: text``, no timestamps.

Lines go through the native ring (`fastdns.telemetry.log_writer`), so a stuck pipe drops lines and never holds up whoever logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from fastdns.telemetry import log_writer

__all__ = ["Log", "debug_wanted", "divert", "flush", "set_debug", "write"]

#: Seconds that the process's end waits for lines to leave.
FLUSH_SECONDS = 2.0


class Log:
    """A named source of lines: ``Log("plugin/cache")``; "" prints no name."""

    __slots__ = ("prefix",)

    def __init__(self, name: str = "") -> None:
        self.prefix = f"{name}: " if name else ""

    def debug(self, text: str) -> None:
        """A line that appears only while some server block uses `debug`."""
        if log_writer.debugging():
            self._put("DEBUG", text)

    def info(self, text: str) -> None:
        self._put("INFO", text)

    def warning(self, text: str) -> None:
        self._put("WARNING", text)

    def error(self, text: str) -> None:
        self._put("ERROR", text)

    def fatal(self, text: str) -> NoReturn:
        """Log and end the process with status 1."""
        self._put("FATAL", text)
        flush()
        os._exit(1)

    def _put(self, level: str, text: str) -> None:
        if _listener is not None:
            _listener(level, f"{self.prefix}{text}")
        else:
            log_writer.put(f"[{level}] {self.prefix}{text}")


#: Takes level and text of what would be logged.
_listener: Callable[[str, str], None] | None = None


def divert(listener: Callable[[str, str], None] | None) -> Callable[[str, str], None] | None:
    """Have lines of `Log` go to a function, for commands whose output is something else; None: to the log again. Returns where they went before."""
    global _listener
    before, _listener = _listener, listener
    return before


def write(text: str) -> None:
    """A line as it is, without level."""
    log_writer.put(text)


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Wait until the lines so far have left, at most so long."""
    log_writer.flush(seconds)


def set_debug(wanted: bool) -> None:
    """Whether DEBUG lines appear; for the whole process."""
    log_writer.set_debug(wanted)


def debug_wanted() -> bool:
    """Whether DEBUG lines appear."""
    return log_writer.debugging()
