"""DNS over TLS (RFC 7858); without a certificate it is DNS over TCP. The messages of a connection are the native side's (`fastdns._dot`)."""

from __future__ import annotations

from fastdns import _front
from fastdns._dot import Channel
from fastdns.server.fronts.stream import StreamFront

__all__ = ["DotFront"]

#: Connections of an address; CoreDNS has no limit.
CONNECTIONS_MAX = 10000


class DotFront(StreamFront):
    """Pipelined queries, replies as they come (RFC 7766 6.2.1.1)."""

    transport = _front.TLS

    @property
    def max_connections(self) -> int:
        return CONNECTIONS_MAX

    def connection(self) -> Channel:
        return Channel(self)
