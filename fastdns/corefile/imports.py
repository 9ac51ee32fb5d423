"""The files of ``import``: paths, glob patterns and tokens."""

from __future__ import annotations

import os

from fastdns.corefile.errors import system_error
from fastdns.corefile.lexer import Token, decode, tokens

__all__ = ["RefusedImportError", "locate", "read"]

#: Octets of the largest imported file. Importing a device or a log file by mistake must not exhaust the memory.
MAX_FILE = 64 << 20


class RefusedImportError(Exception):
    """An import failed; the parser adds file and line."""


def locate(pattern: str, importer: str) -> list[str]:
    """Absolute paths that match ``pattern``, in lexical order; a relative pattern starts at the folder of the file ``importer``.

    Empty when a pattern with wildcards matches nothing. Raises RefusedImportError.
    """
    absolute = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(importer)), pattern))
    if absolute.count("*") > 1 or absolute.count("?") > 1 or ("[" in absolute and "]" in absolute):
        raise RefusedImportError(f"Glob pattern may only contain one wildcard (*), but has others: {absolute}")
    if absolute.endswith("\\") or "[" in absolute:
        raise RefusedImportError(f"Failed to use import pattern {pattern}: syntax error in pattern")
    if "\0" in absolute:
        raise RefusedImportError(f"File to import not found: {pattern}")
    wild = any(char in absolute for char in "*?[]")
    found = _glob(absolute) if wild else [absolute] if os.path.lexists(absolute) else []
    if not found and not wild:
        raise RefusedImportError(f"File to import not found: {pattern}")
    return found


def read(path: str) -> list[Token]:
    """The tokens of a file, which carry its absolute path. Raises RefusedImportError."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except IsADirectoryError:
        raise RefusedImportError(f"Could not import {path}: is a directory") from None
    except OSError as error:
        raise RefusedImportError(f"Could not import {path}: {system_error(error, path=path)}") from None
    if len(data) > MAX_FILE:
        raise RefusedImportError(f"Could not import {path}: larger than {MAX_FILE} bytes")
    return tokens(decode(data), os.path.abspath(path))


def _glob(pattern: str) -> list[str]:
    """Shell globbing in which ``*`` also matches names that begin with a dot, as Go's does; ``\\`` takes a character literally."""
    folders = ["/"]
    parts = pattern.strip("/").split("/")
    for index, part in enumerate(parts):
        if not any(char in part for char in "*?"):
            folders = [os.path.join(folder, part) for folder in folders if os.path.lexists(os.path.join(folder, part))]
            continue
        found = []
        for folder in folders:
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            found += [os.path.join(folder, name) for name in names if _matches(part, name)]
        folders = found if index == len(parts) - 1 else [path for path in found if os.path.isdir(path)]
    return folders


def _matches(pattern: str, name: str) -> bool:
    """Whether a path component matches a pattern with at most one ``*``."""
    units = _units(pattern)
    if "*" not in units:
        return len(units) == len(name) and all(map(_same, units, name))
    star = units.index("*")
    before, after = units[:star], units[star + 1 :]
    if len(name) < len(before) + len(after):
        return False
    tail = name[len(name) - len(after) :]
    return all(map(_same, before, name)) and all(map(_same, after, tail))


def _units(pattern: str) -> list[str]:
    """The pattern in pieces that each match one character, or are the star; escaped characters keep their backslash."""
    units = []
    position = 0
    while position < len(pattern):
        width = 2 if pattern[position] == "\\" else 1
        units.append(pattern[position : position + width])
        position += width
    return units


def _same(unit: str, char: str) -> bool:
    return unit == "?" or unit[-1] == char
