"""Whose interface and rules are: of all pods that serve. Each has a shared lock on a file of the folder (flock(2)), which the kernel ends with its process.

Who wants to remove interface and rules asks for the exclusive lock, and has it if nobody serves. A pod that comes meanwhile waits until they are removed.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib

__all__ = ["Ownership"]

#: Seconds to wait for a process that removes interface and rules. It may hang: then they are made beside it.
WAIT_SECONDS = 10.0
#: Seconds between two attempts.
POLL = 0.02


class Ownership:
    """One process's part in a network. Raises OSError where the folder is of no use."""

    def __init__(self, folder: str, network: str) -> None:
        """``network`` says what is made: those that make the same are owners of the same."""
        path = os.path.join(folder, f"network-{zlib.crc32(network.encode()):08x}")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def join(self) -> None:
        """Be an owner from now on."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._lock(fcntl.LOCK_SH) and time.monotonic() < deadline:
            time.sleep(POLL)

    def leave(self) -> bool:
        """Be none any more. Returns whether there is no other one: then nobody becomes one until `release`, or the end of this process."""
        # A request for another kind of lock gives the former one up, also if it fails. So of two that leave at once the later one finds nobody.
        return self._lock(fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
