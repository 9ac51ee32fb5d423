"""The process's log on standard output: ``[LEVEL] plugin/NAME: text`` without timestamps, or JSON (`fastdns.telemetry.log_line`).

Lines go through `fastdns.telemetry.log_writer`: when the output is blocked lines are dropped, and a thread that logs never waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NoReturn

from fastdns.telemetry import log_line, log_writer

__all__ = ["Log", "debug_wanted", "divert", "failure", "flush", "is_json", "set_debug", "set_json", "write", "write_object"]

#: Seconds that the end of the process waits until all lines are written.
FLUSH_SECONDS = 2.0


class Log:
    """Writes lines with the name of their source, such as ``Log("plugin/cache")``; with "" lines have no name."""

    __slots__ = ("plugin", "prefix")

    def __init__(self, name: str = "") -> None:
        #: The name of a plugin, or "".
        self.plugin = name.removeprefix("plugin/") if name.startswith("plugin/") else ""
        #: What texts begin with where a name is not that of a plugin.
        self.prefix = f"{name}: " if name and not self.plugin else ""

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
            _listener(level, f"plugin/{self.plugin}: {text}" if self.plugin else f"{self.prefix}{text}")
        else:
            log_line.put(level, self.plugin, f"{self.prefix}{text}")


#: A function that gets level and text of each line.
_listener: Callable[[str, str], None] | None = None


def divert(listener: Callable[[str, str], None] | None) -> Callable[[str, str], None] | None:
    """Pass the lines of `Log` to a function, for commands whose output is not a log; None: write them again. Returns the former function."""
    global _listener
    before, _listener = _listener, listener
    return before


def write(*lines: str) -> None:
    """Write lines without level; in JSON they are one, of level INFO."""
    for text in ["\n".join(lines)] if log_line.is_json() else lines:
        log_line.put("", "", text)


def write_object(text: str, members: Mapping[str, object]) -> None:
    """In JSON, a line of level INFO with members more; as text, none: its lines are those of CoreDNS."""
    if log_line.is_json():
        import json

        log_line.put("INFO", "", text, json.dumps(members, default=str)[1:-1].encode())


def failure(lines: list[str]) -> str:
    """What a process that cannot start prints to standard error: the lines, each of level FATAL in JSON."""
    if log_line.is_json():
        lines = [log_line.compose("FATAL", "", text).decode() for text in lines]
    return "".join([f"{text}\n" for text in lines])


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Wait until the lines so far are written, at most this many seconds."""
    log_writer.flush(seconds)


def set_debug(wanted: bool) -> None:
    """Set whether DEBUG lines are written, process-wide."""
    log_writer.set_debug(wanted)


def debug_wanted() -> bool:
    """Whether DEBUG lines are written."""
    return log_writer.debugging()


def set_json(wanted: bool) -> None:
    """Set whether lines are JSON, process-wide: before the first line."""
    log_line.set_json(wanted)


def is_json() -> bool:
    """Whether lines are JSON."""
    return log_line.is_json()
