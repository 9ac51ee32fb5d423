"""The source of the Corefile, at the start and at each reload."""

from __future__ import annotations

import os
import stat

from fastdns.corefile.errors import CorefileError, system_error

__all__ = ["Source", "find"]

#: Name of the Corefile that is looked for in the working directory, and of the built-in one.
DEFAULT_FILE = "Corefile"
STDIN = "/dev/stdin"


class Source:
    """The octets of a Corefile and its name in errors. ``path`` is the file that a reload reads, or "" when there is none."""

    __slots__ = ("built_in", "data", "file", "path")

    def __init__(self, data: bytes, file: str, path: str = "", built_in: bool = False) -> None:
        self.data = data
        self.file = file
        self.path = path
        self.built_in = built_in

    def again(self) -> Source:
        """Read the Corefile again; one from standard input is unchanged. Raises OSError."""
        if not self.path:
            return self
        with open(self.path, "rb") as file:
            return Source(file.read(), self.file, self.path)


def find(conf: str, port: str) -> Source:
    """The Corefile that the flag -conf names, else ./Corefile, else the built-in one. Raises CorefileError."""
    if conf == "stdin":
        found = _stdin()
        if found is not None:
            return found
        conf = ""
    path = conf or DEFAULT_FILE
    try:
        with open(path, "rb") as file:
            return Source(file.read(), path, path)
    except FileNotFoundError as error:
        if conf:
            raise CorefileError(f"loading Caddyfile via flag: {system_error(error, path=path)}") from None
    except OSError as error:
        by = "flag" if conf else "default"
        raise CorefileError(f"loading Caddyfile via {by}: {system_error(error, path=path)}") from None
    return built_in(port)


def built_in(port: str) -> Source:
    """The built-in Corefile."""
    return Source(f".:{port} {{\nwhoami\nlog\n}}\n".encode(), DEFAULT_FILE, built_in=True)


def _stdin() -> Source | None:
    """Standard input as a Corefile, unless it is a terminal or another device."""
    try:
        if stat.S_ISCHR(os.fstat(0).st_mode):
            return None
        data = bytearray()
        while part := os.read(0, 1 << 16):
            data += part
    except OSError as error:
        raise CorefileError(f"loading Caddyfile via flag: {system_error(error, 'read', STDIN)}") from None
    return Source(bytes(data), STDIN)
