"""Digests of the local files that a configuration depends on."""

from __future__ import annotations

import os
import re
import stat

__all__ = ["FILES_MAX", "OCTETS_MAX", "digest"]

#: A master file that has others read (RFC 1035 5.1), or a comment that says so: to search for what a line begins with takes ten times as long.
INCLUDES = rb"(?i)\$INCLUDE\b"
#: Octets that are read at a time, and those of the part before that are looked at again.
PART = 1 << 20
LINE = 64
#: What is read of a path at most: a directory may have much more in it than what a plugin reads there. 128 MB take 0.1 s where they are in memory.
OCTETS_MAX = 128 << 20
FILES_MAX = 10_000


class _Incomparable(Exception):
    """It has another digest each time."""


def digest(path: str) -> bytes:
    """Of a file's octets, or of the names and octets of all files below a directory; b"" where nothing can be read.

    What cannot be compared has another one each time: pipes and devices, master files that include others, and more than FILES_MAX files or OCTETS_MAX octets.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            return _directory(path)
        if not stat.S_ISREG(mode):
            raise _Incomparable
        return _file(path, [OCTETS_MAX])
    except _Incomparable:
        return os.urandom(32)
    except OSError:
        return b""


def _file(path: str, left: list[int]) -> bytes:
    """``left``: how many octets may be read. Raises OSError and _Incomparable."""
    left[0] -= os.stat(path).st_size
    if left[0] < 0:
        raise _Incomparable
    from hashlib import sha256

    found = sha256()
    seen = b""
    with open(path, "rb") as file:
        while octets := file.read(PART):
            if re.search(INCLUDES, seen + octets):
                raise _Incomparable
            found.update(octets)
            seen = octets[-LINE:]
    return found.digest()


def _directory(path: str) -> bytes:
    """Raises _Incomparable."""
    from hashlib import sha256

    found = sha256()
    left, count = [OCTETS_MAX], 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        count += 1 + len(names)
        if count > FILES_MAX:
            raise _Incomparable
        for name in sorted(names):
            place = os.path.join(folder, name)
            found.update(os.fsencode(os.path.relpath(place, path)) + b"\0")
            try:
                if not stat.S_ISREG(os.stat(place).st_mode):
                    raise _Incomparable
                found.update(_file(place, left))
            except OSError:
                found.update(bytes(found.digest_size))
    return found.digest()
