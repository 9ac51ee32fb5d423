"""Digests of the local files that a configuration depends on."""

from __future__ import annotations

import hashlib
import os
import re
import stat

__all__ = ["digest"]

#: A master file that has others read (RFC 1035 5.1), or a comment that says so: to search for what a line begins with takes ten times as long.
INCLUDES = re.compile(rb"\$INCLUDE\b", re.I)
#: Octets that are read at a time, and those of the part before that are looked at again.
PART = 1 << 20
LINE = 64


def digest(path: str) -> bytes:
    """Of a file's octets, or of the names and octets of all files below a directory; b"" where nothing can be read.

    What cannot be compared has another one each time: pipes and devices, and master files that include others.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return _directory(path)
        if not stat.S_ISREG(mode):
            return os.urandom(64)
        return _file(path)
    except OSError:
        return b""


def _file(path: str) -> bytes:
    found = hashlib.sha256()
    seen = b""
    with open(path, "rb") as file:
        while octets := file.read(PART):
            if INCLUDES.search(seen + octets):
                return os.urandom(64)
            found.update(octets)
            seen = octets[-LINE:]
    return found.digest()


def _directory(path: str) -> bytes:
    found = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            place = os.path.join(folder, name)
            found.update(os.fsencode(os.path.relpath(place, path)) + b"\0" + hashlib.sha256(digest(place)).digest())
    return found.digest()
