"""Front ends over TCP: accepting, the limit of connections, handshakes, and the end of them all."""

from __future__ import annotations

import asyncio
import socket
import ssl
from abc import abstractmethod
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM
from typing import TYPE_CHECKING, Any, cast

from fastdns.fronts.front import Front, Settings
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.fronts.queries import Placed

__all__ = ["Connection", "StreamFront"]

log = Log("server")

ACCEPT_BATCH = 64
#: Seconds without accepting after descriptors or memory were out.
ACCEPT_PAUSE = 0.1
#: Seconds that a client may take to say that it has seen our end.
SHUTDOWN_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """A client's connection. Derived classes add what they say to `connection_made`, and call those here."""

    def __init__(self, front: StreamFront) -> None:
        self.front = front
        #: Set while the connection stands; with TLS it is the clear-text end.
        self.transport: asyncio.Transport
        #: (host, port, …) of the two ends.
        self.client: tuple[Any, ...] = ()
        self.local: tuple[Any, ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.client = transport.get_extra_info("peername")
        self.local = transport.get_extra_info("sockname")
        self.front.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.front.forget(self)

    def finish(self) -> None:
        """The server takes no more queries: end once the replies that are owed have been written."""
        self.transport.close()


class StreamFront(Front):
    """A front end whose clients connect. Clients above ``limits["max_connections"]`` (0 or absent: no limit) wait unaccepted, as in CoreDNS."""

    kind = socket.SOCK_STREAM

    def __init__(self, sock: socket.socket, settings: Settings, loop: asyncio.AbstractEventLoop, place: Placed) -> None:
        super().__init__(sock, settings, loop, place)
        #: Those whose handshake is through.
        self.connections: set[Any] = set()
        #: The oldest first.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._accepting = False
        self._stopped = False
        self._pause: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    @abstractmethod
    def connection(self) -> asyncio.BaseProtocol:
        """The protocol of a new client: a `Connection`, or what calls `connections.add` and `forget` likewise and has `finish`."""

    @property
    def max_connections(self) -> int:
        return self.settings.limits.get("max_connections", 0)

    async def start(self) -> None:
        self._go_on()

    async def stop(self) -> None:
        self._stopped = True
        self._wait()
        if self._pause is not None:
            self._pause.cancel()
        for task in list(self._handshakes):
            task.cancel()
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            self._empty = self.loop.create_future()
            try:
                await self._empty
            finally:
                for connection in list(self.connections):
                    connection.transport.abort()

    def adopt(self, settings: Settings) -> None:
        super().adopt(settings)
        self._go_on()  # there may be room for more now

    def forget(self, connection: Any) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if self._empty is not None and not self._empty.done() and not self.connections:
            self._empty.set_result(None)
        self._go_on()

    # ---- accepting ----

    def _has_room(self) -> bool:
        return not self.max_connections or len(self.connections) + len(self._handshakes) < self.max_connections

    def _make_room(self) -> bool:
        """Whether somebody has to go for the client that waits, and is gone."""
        return False

    def _go_on(self) -> None:
        if not self._accepting and not self._stopped and self._pause is None and self._has_room():
            self._accepting = True
            self.loop.add_reader(self.sock.fileno(), self._accept)

    def _wait(self) -> None:
        if self._accepting:
            self._accepting = False
            self.loop.remove_reader(self.sock.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPT_BATCH):
            if not self._has_room() and not self._make_room():
                self._wait()
                return
            try:
                sock, _ = self.sock.accept()
            except OSError as error:
                if error.errno in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
                    self._wait()
                    self._pause = self.loop.call_later(ACCEPT_PAUSE, self._pause_over)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self.loop.create_task(self._greet(sock))
            self._handshakes[task] = None
            task.add_done_callback(self._greeted)

    def _pause_over(self) -> None:
        self._pause = None
        self._go_on()

    async def _greet(self, sock: socket.socket) -> None:
        """The handshake of one client, if there is one to be."""
        context: ssl.SSLContext | None = None
        options: dict[str, Any] = {}
        if self.settings.tls is not None and self.alpn is not None:
            context = self.settings.tls.context(self.alpn)
            options = {"ssl_handshake_timeout": self.settings.read_timeout, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            await self.loop.connect_accepted_socket(self.connection, sock, ssl=context, **options)
        except (OSError, asyncio.CancelledError) as error:
            sock.close()
            log.debug(f"{self.settings.address}: a handshake failed: {error}")

    def _greeted(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(f"{self.settings.address}: {error!r}")
        self._go_on()
