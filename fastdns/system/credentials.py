"""Who is at the other end of a unix socket."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

__all__ = ["UCRED", "Credentials", "peer_credentials"]

#: linux/socket.h: struct ucred
UCRED = struct.Struct("=iII")


class Credentials(NamedTuple):
    """Of a process: what the kernel says of who connected or listened (SO_PEERCRED), or of who sent a message (SCM_CREDENTIALS)."""

    pid: int
    uid: int
    gid: int

    @classmethod
    def from_octets(cls, octets: bytes) -> Credentials:
        """Raises struct.error where they are no struct ucred."""
        return cls(*UCRED.unpack(octets))


def peer_credentials(sock: socket.socket) -> Credentials:
    """Of who connected, or of who listens. Raises OSError."""
    return Credentials.from_octets(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size))
