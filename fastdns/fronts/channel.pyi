"""Connections of DNS over TLS; the native side is in ``fronts/channel.pxd``."""

import asyncio
from typing import Any

class Channel(asyncio.Protocol):
    """The protocol of one connection: what a client asks goes to the workers, replies leave in the order in which they come.

    At most 64 queries are unanswered, then reading stops; so it does while the client does not take its replies. A connection ends when the first
    message, with the handshake, takes longer than the read timeout, one after it longer than the idle timeout, and a client that does not read
    longer than the write timeout; also after as many queries as `timeouts` allows. A zone transfer has the connection alone.
    """

    def __init__(self, front: Any) -> None:
        """``front`` is a `fastdns.fronts.dot.DotFront`; called when the client is accepted."""
    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool: ...
    def connection_lost(self, error: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def finish(self) -> None:
        """Read no more messages; end when those that were read are answered."""
    def on_time(self) -> None: ...
