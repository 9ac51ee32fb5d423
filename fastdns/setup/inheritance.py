"""Secrets of the process that plugins ask for by name. The process that takes over after SIGUSR2 gets them as they are."""

from __future__ import annotations

import os

__all__ = ["adopt", "handed", "secret"]

_secrets: dict[str, bytes] = {}


def secret(name: str, octets: int) -> bytes:
    """The secret of that name: random when it is first asked for, and the same as long as the process and its successors run."""
    found = _secrets.get(name)
    if found is None or len(found) != octets:
        found = _secrets[name] = os.urandom(octets)
    return found


def handed() -> dict[str, str]:
    """All secrets, for a successor process: hexadecimal digits by name."""
    return {name: octets.hex() for name, octets in _secrets.items()}


def adopt(secrets: dict[str, str]) -> None:
    """Take the secrets of a former process, before a plugin asks for one. ValueError for what is no such text."""
    _secrets.update({name: bytes.fromhex(text) for name, text in secrets.items()})
