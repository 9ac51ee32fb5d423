"""The sockets of a listening address; the native side is in ``engine/listener.pxd``."""

import socket
from collections.abc import Callable

from fastdns.engine.loop import Workers
from fastdns.engine.service import Service

class Listener:
    """The sockets of one address: one or more for each worker, UDP and TCP ones, or with a service TCP ones alone. Made by :meth:`Engine.bind`."""

    sockets: list[socket.socket]

    def __init__(
        self,
        workers: Workers,
        forget: Callable[[Listener], None],
        index: int,
        generation: int,
        host: str,
        port: int,
        reuse: list[int],
        count: int,
        service: Service | None = None,
    ) -> None: ...
    def _bound(self, which: int, family: int, host: str) -> socket.socket: ...
    @property
    def index(self) -> int:
        """Place in the configuration's table of servers; free for another once this one is closed."""
    @property
    def generation(self) -> int:
        """Of all that the engine has made: unlike the place, it is never given twice."""
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def service(self) -> Service | None:
        """What clients get; None: DNS over UDP and TCP."""
    def adopt(self, service: Service) -> None:
        """Give clients this from now on; connections that stand go on. For an address that was opened with a service. OSError."""
    def keep_flows(self, wanted: bool) -> None:
        """Have all datagrams of a client's address and port come to one socket, in their order; otherwise they are spread over the
        workers: at random, those of QUIC by their connection ids."""
    @property
    def watched(self) -> bool:
        """Whether the workers take queries from it."""
    def filenos(self) -> list[int]:
        """Descriptors in the order in which ``bind(reuse=…)`` takes them."""
    def pause(self) -> None:
        """Take no more queries; replies under way still leave. For good: `close` follows."""
    def close(self) -> None:
        """Close the sockets, once no query can still answer through them."""
