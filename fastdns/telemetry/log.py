"""The process's log on standard output: ``[LEVEL] plugin/NAME: text``, no timestamps.

Lines go through `fastdns.telemetry.log_writer`: when the output is blocked lines are dropped, and a thread that logs never waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from fastdns.telemetry import log_writer

__all__ = ["Log", "debug_wanted", "divert", "flush", "set_debug", "write"]

#: Seconds that the end of the process waits until all lines are written.
FLUSH_SECONDS = 2.0


class Log:
    """Writes lines with the name of their source, such as ``Log("plugin/cache")``; with "" lines have no name."""

    __slots__ = ("prefix",)

    def __init__(self, name: str = "") -> None:
        self.prefix = f"{name}: " if name else ""

    def debug(self, text: str) -> None:
        """A line that is written only while a server block has the directive `debug`."""
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


#: A function that gets level and text of each line.
_listener: Callable[[str, str], None] | None = None


def divert(listener: Callable[[str, str], None] | None) -> Callable[[str, str], None] | None:
    """Pass the lines of `Log` to a function, for commands whose output is not a log; None: write them again. Returns the former function."""
    global _listener
    before, _listener = _listener, listener
    return before


def write(text: str) -> None:
    """Write a line without level."""
    log_writer.put(text)


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Wait until the lines so far are written, at most this many seconds."""
    log_writer.flush(seconds)


def set_debug(wanted: bool) -> None:
    """Set whether DEBUG lines are written, process-wide."""
    log_writer.set_debug(wanted)


def debug_wanted() -> bool:
    """Whether DEBUG lines are written."""
    return log_writer.debugging()
