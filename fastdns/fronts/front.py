"""What every front end is: made for a listening address, started, told of new configurations, stopped."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from fastdns.fronts.queries import Gate

if TYPE_CHECKING:
    from fastdns.fronts.credentials import Credentials
    from fastdns.fronts.queries import Placed

__all__ = ["Front", "Settings"]


class Settings(NamedTuple):
    """What a configuration says of a listening address. It is replaced whole by a reload."""

    #: The label of metrics and errors, such as ``tls://:853``.
    address: str
    #: From `tls`; None: the transport goes without, or the configuration was refused.
    tls: Credentials | None = None
    #: Seconds.
    read_timeout: float = 3.0
    write_timeout: float = 5.0
    idle_timeout: float = 10.0
    #: Queries of a connection; 0: no limit.
    max_queries: int = 0
    #: What the transport's own directive says (`Front.directive`), with the defaults of `Front.defaults`.
    limits: Mapping[str, int] = {}


class Front(ABC):
    """The front end of one listening address. Everything but the constructor runs on the fronts' loop, and so may expect no other thread."""

    #: Of `fastdns.fronts.queries`: TLS, HTTPS, HTTPS3, QUIC or GRPC.
    transport: ClassVar[int]
    #: Of its socket: `SOCK_STREAM` or `SOCK_DGRAM`.
    kind: ClassVar[socket.SocketKind] = socket.SOCK_STREAM
    #: Protocols of its TLS handshake; ``settings.tls.context(self.alpn)`` has them.
    alpn: ClassVar[tuple[str, ...]] = ()
    #: The directive that sets its limits: set-up puts a dict into ``controller.config.values[DIRECTIVE]``.
    directive: ClassVar[str] = ""
    #: The limits where the directive does not name them.
    defaults: ClassVar[Mapping[str, int]] = {}

    def __init__(self, sock: socket.socket, settings: Settings, loop: asyncio.AbstractEventLoop, place: Placed) -> None:
        """``sock`` is bound (streams: listening), not blocking, and closed by who made it. Called in a control thread; what this raises refuses
        the configuration (OSError and ValueError with the reason)."""
        self.sock = sock
        self.settings = settings
        self.loop = loop
        self.place = place
        #: ``await self.gate.ask(packet, client, local)``
        self.gate = Gate(loop, place, self.transport)

    @classmethod
    def read(cls, settings: Settings) -> None:
        """Read the files that connections will need, before the configuration serves: whatever is wrong with them refuses it. OSError, ValueError."""
        if settings.tls is not None:
            settings.tls.context(cls.alpn)

    @abstractmethod
    async def start(self) -> None:
        """Take clients from now on."""

    @abstractmethod
    async def stop(self) -> None:
        """Take no more clients and no more queries; returns when the replies to what was asked have been delivered and all connections are closed.

        It may be cancelled when it takes too long."""

    def adopt(self, settings: Settings) -> None:
        """A new configuration serves the address: connections that exist go on, those to come have its certificate and limits."""
        self.settings = settings
