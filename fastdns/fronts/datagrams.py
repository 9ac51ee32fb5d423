"""Datagrams of a UDP socket, and the way that replies to each go."""

from __future__ import annotations

import socket
import struct
from typing import Any

__all__ = ["Datagrams", "Way"]

#: Octets of a datagram that are read: more than any path's MTU, but for those of a loopback.
DATAGRAM_MAX = 4096

#: The socket module does not name it on every version.
IP_PKTINFO = 8

ANCILLARY_ROOM = socket.CMSG_SPACE(20) * 2

#: Local addresses remembered; a machine with more forgets and learns them again.
WAYS_MAX = 256


class Way:
    """A socket and the address on it that a connection's datagrams came to."""

    __slots__ = ("_ancillary", "_socket", "local")

    def __init__(self, sock: socket.socket, local: tuple[str, int], ancillary: list[tuple[int, int, bytes]] | None = None) -> None:
        self._socket = sock
        self.local = local
        self._ancillary = ancillary

    def send(self, octets: bytes, address: Any) -> None:
        """What the kernel has no room for is lost, as it may be on any path: QUIC sends it again."""
        try:
            if self._ancillary is None:
                self._socket.sendto(octets, address)
            else:
                self._socket.sendmsg((octets,), self._ancillary, 0, address)
        except OSError:
            pass


class Datagrams:
    """A socket's datagrams, each with the way that its replies go: by the address that it came to, also on a wildcard socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        name = sock.getsockname()
        self._port = name[1]
        self._wildcard = name[0] in ("0.0.0.0", "::")
        self._ways: dict[bytes, Way] = {}
        if self._wildcard:
            if sock.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            else:
                sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self._way = Way(sock, (name[0], name[1]))

    def receive(self) -> tuple[bytes, Any, Way]:
        """One datagram. Raises BlockingIOError when there is none."""
        if not self._wildcard:
            octets, address = self.socket.recvfrom(DATAGRAM_MAX)
            return octets, address, self._way
        octets, ancillary, _, address = self.socket.recvmsg(DATAGRAM_MAX, ANCILLARY_ROOM)
        for level, kind, value in ancillary:
            if (level, kind) in ((socket.IPPROTO_IPV6, socket.IPV6_PKTINFO), (socket.IPPROTO_IP, IP_PKTINFO)):
                return octets, address, self._ways.get(value) or self._new_way(level, kind, value)
        return octets, address, self._way

    def _new_way(self, level: int, kind: int, value: bytes) -> Way:
        if level == socket.IPPROTO_IP:
            _, _, destination = struct.unpack("=I4s4s", value)
            host = socket.inet_ntop(socket.AF_INET, destination)
            value_out = struct.pack("=I4s4s", 0, destination, bytes(4))
        else:
            host = socket.inet_ntop(socket.AF_INET6, value[:16])
            host = host[7:] if host.startswith("::ffff:") and "." in host else host
            # The interface matters for link-local addresses only; for others the routes choose it.
            value_out = value if host.startswith("fe80") else value[:16] + bytes(4)
        if len(self._ways) >= WAYS_MAX:
            self._ways.clear()
        way = self._ways[value] = Way(self.socket, (host, self._port), [(level, kind, value_out)])
        return way
