"""Files that are replaced while they are in use, such as renewed certificates: whoever read them reads them again.

A timer compares what stat(2) says of each file, behind symbolic links: a Secret of Kubernetes is a link that is swapped.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from fastdns import control
from fastdns.telemetry import events
from fastdns.telemetry.log import Log

__all__ = ["Renewable", "Renewal", "State", "states_of"]

#: Between two looks at the files. A change is taken up by the look after the one that finds it, when nothing more has changed.
SECONDS = 1.0

#: Of a file: modified (ns), inode, size, device; None while there is none.
State = tuple[int, int, int, int] | None


class Renewable(Protocol):
    """Whose files are watched."""

    def renew(self) -> None:
        """Read the files again. OSError and ValueError: everything stays as it was."""


class Renewal:
    """The watch over the files of one owner, who keeps it: it ends with the owner, or by `end`."""

    def __init__(self, owner: Renewable, files: Sequence[str], states: list[State], log: str, shared: bool = True) -> None:
        """``states`` is what `states_of` returned before the owner read the files; ``log`` names the source of log lines.

        Without ``shared`` the owner calls `look`, for files that may hang: the timer of all others does not touch them.
        """
        self.files = tuple(files)
        self.log = Log(log)
        self._owner = weakref.ref(owner)
        self._read = self._seen = states
        if shared:
            _watch(self)

    def end(self) -> None:
        """Nothing is read any more from now on."""
        with _lock:
            _watched.discard(self)

    def look(self) -> None:
        """Compare the files with what was read."""
        owner, states = self._owner(), states_of(self.files)
        settled, self._seen = states == self._seen, states
        if owner is None or states == self._read or not settled:
            return
        self._read = states
        try:
            owner.renew()
        except (OSError, ValueError) as error:
            self.log.error(f"{', '.join(self.files)} have changed and cannot be used: {error}; what was read before stays in use")
        else:
            events.note("certificate", ", ".join(self.files), "the files have changed")
            self.log.info(f"Read {', '.join(self.files)} again")


def states_of(files: Sequence[str]) -> list[State]:
    """Compared with what it says later: whether the files were replaced."""
    return [_state(path) for path in files]


def _state(path: str) -> State:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_dev


_lock = threading.Lock()
_watched: weakref.WeakSet[Renewal] = weakref.WeakSet()
_timer: control.Timer | None = None


def _watch(renewal: Renewal) -> None:
    global _timer
    with _lock:
        _watched.add(renewal)
        if _timer is None:
            _timer = control.every(SECONDS, _look)


def _look() -> None:
    global _timer
    with _lock:
        renewals = list(_watched)
        if not renewals and _timer is not None:
            _timer.cancel()
            _timer = None
    for renewal in renewals:
        renewal.look()
