"""Files that are replaced whole: a reader finds the former octets or the new ones, also after a loss of power."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["replacing", "sync_folder"]


@contextmanager
def replacing(path: str, prefix: str) -> Iterator[BinaryIO]:
    """A file of mode 0600 beside ``path`` to write to, renamed to it at the end; gone where the body raises. ``prefix`` begins its name. Raises OSError."""
    import tempfile

    folder = os.path.dirname(path) or "."
    descriptor, beside = tempfile.mkstemp(dir=folder, prefix=prefix)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Names of the folder's files survive a loss of power. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
