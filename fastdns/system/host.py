"""The machine that the server runs on."""

from __future__ import annotations

import socket

__all__ = ["host_name"]


def host_name() -> str:
    """Its name, ``localhost`` where it has none."""
    try:
        return socket.gethostname() or "localhost"
    except OSError:
        return "localhost"
