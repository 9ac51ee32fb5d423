"""Secrets of server cookies: the process's own, or those of a file, which several servers share."""

from __future__ import annotations

import os

from fastdns.setup import inheritance

__all__ = ["SECRETS_MAX", "SECRET_SIZE", "own_secret", "read_secrets"]

#: Octets (RFC 9018 4.4).
SECRET_SIZE = 16

#: The current and the former one, or the next (RFC 9018 5).
SECRETS_MAX = 2


def own_secret() -> bytes:
    """The process's: random, and the same in all its configurations and in the process that takes over (SIGUSR2)."""
    return inheritance.secret("cookies", SECRET_SIZE)


def read_secrets(path: str) -> list[bytes]:
    """The secrets of a file, a line each: 32 hexadecimal digits. OSError; ValueError with the line, and none of its text, for what is no such file."""
    with open(path, encoding="ascii", errors="replace") as file:
        lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(file.read(1 << 16).splitlines(), 1)]
    secrets = []
    for number, line in lines:
        if not line:
            continue
        try:
            secret = bytes.fromhex(line)
        except ValueError:
            secret = b""
        if len(secret) != SECRET_SIZE:
            raise ValueError(f"{os.path.basename(path)}:{number}: not a secret of {2 * SECRET_SIZE} hexadecimal digits")
        secrets.append(secret)
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise ValueError(f"{os.path.basename(path)}: {len(secrets)} secrets; a file has one or {SECRETS_MAX}")
    return secrets
