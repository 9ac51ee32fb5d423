"""Copies of certificates in memory: what serves reads these and never the storage, which may hang.

A copy is a memory file (memfd_create(2)) behind one descriptor, which dup2(2) replaces in one step: its path under /proc stays.
"""

from __future__ import annotations

import os
import threading
import weakref

from fastdns.plugins.tls.storage_thread import StorageThread
from fastdns.tls.context import ServerContext
from fastdns.tls.credentials import Credentials
from fastdns.tls.renewal import Renewal, states_of

__all__ = ["CopiedCredentials", "Copy", "copy_of"]


class Copy:
    """Of one file with key and certificates. It lives as long as a configuration or a manager holds it."""

    def __init__(self, source: str, thread: StorageThread) -> None:
        self.source = source
        self.thread = thread
        self._file = os.memfd_create("certificate")
        weakref.finalize(self, os.close, self._file).atexit = False
        #: Empty until there is a certificate that can be used.
        self.path = f"/proc/self/fd/{self._file}"
        self._renewal: Renewal | None = None
        #: Whom to renew: the main thread changes it, and the storage's thread reads it. No file of the storage is touched with the lock.
        self._followers: list[CopiedCredentials] = []
        self._lock = threading.Lock()

    def look(self) -> None:
        """Take up what has changed. On the storage's thread."""
        if self._renewal is not None:
            self._renewal.look()
            return
        states = states_of([self.source])
        try:
            if states != [None]:
                self.renew()
        except (OSError, ValueError):  # the manager says so
            pass
        self._renewal = Renewal(self, [self.source], states, "plugin/tls", shared=False)

    def renew(self) -> None:
        """Read the file again. OSError and ValueError: everything stays as it was. On the storage's thread."""
        with open(self.source, "rb") as file:
            octets = file.read()
        made = os.memfd_create("certificate")
        try:
            os.write(made, octets)
            ServerContext(f"/proc/self/fd/{made}", f"/proc/self/fd/{made}")
            os.dup2(made, self._file, inheritable=False)
        finally:
            os.close(made)
        with self._lock:
            for follower in self._followers:
                follower.renew()

    def add(self, follower: CopiedCredentials) -> None:
        """Have these credentials renewed from now on. OSError, ValueError: what came before cannot be used."""
        with self._lock:
            if follower not in self._followers:
                self._followers.append(follower)
                follower.catch_up()

    def remove(self, follower: CopiedCredentials) -> None:
        """Another configuration serves."""
        with self._lock:
            if follower in self._followers:
                self._followers.remove(follower)


class CopiedCredentials(Credentials):
    """Those of a copy, which may be empty yet."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy.path, copy.path, awaited=True)
        self._copy = copy

    def keep_renewed(self) -> None:
        self._copy.add(self)

    def catch_up(self) -> None:
        """Read what came while this configuration was made. OSError, ValueError."""
        if self._states and self._states != states_of(self.files):
            self.renew()

    def stop_renewing(self) -> None:
        self._copy.remove(self)


_copies: weakref.WeakValueDictionary[str, Copy] = weakref.WeakValueDictionary()


def copy_of(source: str, thread: StorageThread) -> Copy:
    """The process's copy of this file. On the main thread."""
    found = _copies.get(source)
    if found is None:
        found = _copies[source] = Copy(source, thread)
    return found
