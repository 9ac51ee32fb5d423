"""Files that are replaced whole: a reader finds the former octets or the new ones, also after a loss of power."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["check_folder", "open_regular", "replacing", "sync_folder"]


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


def open_regular(path: str) -> int:
    """Open a file to read. Raises OSError, also for a pipe or a device, whose octets may never come or never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def check_folder(path: str) -> None:
    """Raise OSError if no file can be made in a folder."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if os.access(path, os.W_OK | os.X_OK):
        return
    number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
    raise OSError(number, os.strerror(number), path)
