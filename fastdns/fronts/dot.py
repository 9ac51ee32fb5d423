"""DNS over TLS (RFC 7858); without a certificate it is DNS over TCP.

Here clients are accepted and hands shaken. What follows is a worker's (`fastdns.engine.io.tcp`), who does TLS by itself, or where this Python's OpenSSL
cannot be reached a connection on the fronts' loop (`fastdns.fronts.channel`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from fastdns.engine.io import tls
from fastdns.fronts import handover, queries
from fastdns.fronts.channel import Channel
from fastdns.fronts.front import Settings
from fastdns.fronts.stream import StreamFront
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.fronts.queries import Placed

__all__ = ["DotFront"]

log = Log("server")

#: Connections on the loop, and handshakes at the same time; CoreDNS has no limit. Workers have one of their own.
CONNECTIONS_MAX = 10000
HANDSHAKES_MAX = 1000


class DotFront(StreamFront):
    """Pipelined queries, replies as they come (RFC 7766 6.2.1.1)."""

    transport = queries.TLS

    def __init__(self, sock: socket.socket, settings: Settings, loop: asyncio.AbstractEventLoop, place: Placed) -> None:
        super().__init__(sock, settings, loop, place)
        try:
            tls.find_library()
            self.by_workers = True
        except LookupError as reason:
            log.info(f"{settings.address}: TLS is not the workers': {reason}")
            self.by_workers = False

    @property
    def max_connections(self) -> int:
        return CONNECTIONS_MAX

    def _has_room(self) -> bool:
        return len(self._handshakes) < HANDSHAKES_MAX and super()._has_room()

    def _make_room(self) -> bool:
        """Clients that say nothing keep nobody out: the one whose handshake has taken longest goes."""
        if len(self._handshakes) < HANDSHAKES_MAX or not super()._has_room():
            return False
        oldest = next(iter(self._handshakes))
        del self._handshakes[oldest]
        oldest.cancel()
        return True

    def connection(self) -> Channel:
        return Channel(self)

    async def stop(self) -> None:
        handover.finish(self.place)
        await super().stop()

    async def _greet(self, sock: socket.socket) -> None:
        if not self.by_workers or (self.settings.tls is not None and self.settings.tls.keylog):  # which calls Python from any thread
            await super()._greet(sock)
            return
        since = handover.now()
        try:
            if self.settings.tls is not None:
                sock = await asyncio.wait_for(self._shake(sock, self.settings.tls.context(self.alpn)), self.settings.read_timeout)
            if not self._stopped:
                handover.begin(sock, self.place, since)
        except (OSError, asyncio.CancelledError) as error:
            log.debug(f"{self.settings.address}: a handshake failed: {error}")
        finally:
            sock.close()  # detached already where a worker has taken it

    async def _shake(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        await self._ready(sock, self.loop.add_reader, self.loop.remove_reader)  # who says nothing costs little
        secure = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        try:
            while True:
                try:
                    secure.do_handshake()
                    return secure
                except ssl.SSLWantReadError:
                    await self._ready(secure, self.loop.add_reader, self.loop.remove_reader)
                except ssl.SSLWantWriteError:
                    await self._ready(secure, self.loop.add_writer, self.loop.remove_writer)
        except BaseException:
            secure.close()
            raise

    async def _ready(self, sock: socket.socket, watch: Callable[..., object], unwatch: Callable[..., object]) -> None:
        """Waits until the socket can be read or written."""
        ready = self.loop.create_future()
        watch(sock.fileno(), _set, ready)
        try:
            await ready
        finally:
            unwatch(sock.fileno())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
