"""The folder of ACME: account, certificates with their keys, and the challenges of the order in progress.

Several processes may share it, also over NFS, where flock(2) of a file is a lock of the server. Whoever holds it is the only one that orders and
writes. Files are written beside the former ones, and renamed: a reader finds the whole of one or of the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

from fastdns.plugins.tls.options import AcmeOptions
from fastdns.system.files import replacing
from fastdns.tls.renewal import State, states_of

__all__ = ["Storage", "StorageLock"]

CHALLENGES = "challenges.json"
#: Not the folder itself: an NFS client does not tell the server of locks on folders, nor of exclusive ones on what is not open for writing.
LOCK = "lock"
#: Seconds after which challenges are left over from a process that was killed, from when this process has seen them: the clocks of others may differ.
CHALLENGES_SECONDS = 900.0


class StorageLock:
    """Held by at most one process, and in it by one object. It ends with the process at the latest. Functions raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1

    def take(self) -> bool:
        """False: another one has it."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Also where `take` has failed, or was not called."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


class Storage:
    """The files of one directive. Functions raise OSError."""

    def __init__(self, options: AcmeOptions) -> None:
        self.folder = options.storage
        name = options.domains[0].replace("*", "_")
        #: Key and certificates in one file, so that one rename replaces both.
        self.certificate = os.path.join(self.folder, f"{name}-{_digest(options.ca, *sorted(options.domains))}.pem")
        self.failures = self.certificate.removesuffix(".pem") + ".failed.json"
        self._account = f"account-{_digest(options.ca, options.email)}.json"
        self._seen: list[State] = [None]
        #: When the challenges are left over (monotonic).
        self._expire = math.inf

    def prepare(self) -> None:
        """The folder exists; what is made of it is for its owner only."""
        missing = []
        folder = self.folder
        while folder and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for made in reversed(missing):
            try:
                os.mkdir(made, 0o700)
            except FileExistsError:  # by another process
                pass

    def lock(self) -> StorageLock:
        """The one of the folder, which is not taken yet."""
        return StorageLock(os.path.join(self.folder, LOCK))

    # ---- by whoever holds the lock ----

    def save_account(self, account: dict[str, Any]) -> None:
        self._write(self._account, json.dumps(account).encode())

    def save_certificate(self, text: bytes, check: Callable[[str], object]) -> None:
        """``check`` gets a path of the new one and raises what it likes: then the former one stays."""
        with replacing(self.certificate, f".{os.path.basename(self.certificate)}.") as file:
            file.write(text)
            file.flush()
            check(f"/proc/self/fd/{file.fileno()}")

    def forget_failed(self) -> None:
        """The CA has given a certificate."""
        _remove(self.failures)

    def failed(self) -> tuple[int, float]:
        """How often the CA has refused a certificate since the last one, and when it may be asked again (Unix time)."""
        found = self._read(os.path.basename(self.failures)) or {}
        count, again = found.get("count"), found.get("again")
        return (count, float(again)) if isinstance(count, int) and isinstance(again, (int, float)) else (0, 0.0)

    def save_failed(self, count: int, again: float) -> None:
        self._write(os.path.basename(self.failures), json.dumps({"count": count, "again": again}).encode())

    def publish(self, challenges: dict[str, list[str]]) -> None:
        """TXT values by name; none: the order is over."""
        if challenges:
            self._write(CHALLENGES, json.dumps(challenges).encode())
        else:
            _remove(os.path.join(self.folder, CHALLENGES))

    # ---- by everybody ----

    def account(self) -> dict[str, Any] | None:
        """None: there is none, or it cannot be read as one."""
        return self._read(self._account)

    def changed_challenges(self) -> dict[str, list[str]] | None:
        """None: nothing has changed since the last call."""
        now = time.monotonic()
        states = states_of([os.path.join(self.folder, CHALLENGES)])
        if states == self._seen and now < self._expire:
            return None
        expired = states == self._seen
        self._seen = states
        self._expire = math.inf if expired else now + CHALLENGES_SECONDS
        if expired or states[0] is None:
            return {}
        found = self._read(CHALLENGES) or {}
        return {name: [value for value in values if isinstance(value, str)] for name, values in found.items() if isinstance(values, list)}

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write(self, name: str, octets: bytes) -> None:
        with replacing(os.path.join(self.folder, name), f".{name}.") as file:
            file.write(octets)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
