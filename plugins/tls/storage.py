"""The folder of ACME: account, certificates with their keys, and the challenges of the order in progress.

Several processes may share it, also over NFS, where flock(2) is a lock of the server. Whoever holds the lock of the folder is the only one that orders
and writes. Files are written beside the former ones, and renamed: a reader finds the whole of one or of the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastdns.plugins.tls.options import AcmeOptions
from fastdns.system.files import replacing
from fastdns.tls.renewal import State, states_of

__all__ = ["Storage"]

CHALLENGES = "challenges.json"
#: Seconds after which challenges are left over from a process that was killed.
CHALLENGES_SECONDS = 900.0


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

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """False: another one has the lock. It ends with the process at the latest."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(folder)

    # ---- by whoever holds the lock ----

    def save_account(self, account: dict[str, Any]) -> None:
        self._write(self._account, json.dumps(account).encode())

    def save_certificate(self, text: bytes) -> None:
        self._write(os.path.basename(self.certificate), text)
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
        path = os.path.join(self.folder, CHALLENGES)
        states = states_of([path])
        if states == self._seen:
            return None
        self._seen = states
        if states[0] is None or time.time() - states[0][0] / 1e9 > CHALLENGES_SECONDS:
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
