"""Queries of front ends in Python: from the fronts' event loop to the workers and back. Everything here is for that loop's thread."""

import asyncio
from typing import Protocol

#: Transports: what :class:`Gate` is made with. DoQ and DoH3 count as UDP (sizes, metrics), the others as TCP.
TLS: int
HTTPS: int
HTTPS3: int
QUIC: int
GRPC: int

class Placed(Protocol):
    """What of a listener a gate needs."""

    @property
    def index(self) -> int: ...
    @property
    def generation(self) -> int: ...

class Rejected(Exception):
    """The message is none that the server answers (too short, a response, UPDATE, two questions, malformed): DoH says 400, gRPC an error, DoQ closes."""

    #: What UDP and TCP would send back; None where they say nothing.
    reply: bytes | None

    def __init__(self, reply: bytes | None) -> None: ...

class Gate:
    """The way of one front end to the workers; a reload needs nothing of it, because a listener's place leads to the configuration that serves now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Placed, transport: int) -> None:
        """``transport`` is one of the constants above."""
    def ask(self, packet: bytes, client: tuple, local: tuple) -> asyncio.Future[bytes | None]:  # type: ignore[type-arg]
        """Ask the server a message. The future gives the reply, or None where none will come (dropped, or the address is not served any more);
        it raises :class:`Rejected`.

        Addresses are (host, port, …) as sockets give them. The message is as received: TSIG is verified on its octets. Over QUIC an id other than 0
        and the option edns-tcp-keepalive are rejected too. Cancel the future when the client goes: what comes for it then is thrown away. When
        8,192 requests of the process are under way the reply is SERVFAIL. ValueError for a message above 65,535 octets and for what is no address.
        """

    def hold(self) -> None:
        """Keep what is asked from now on, to hand it to the workers together: one is woken once for all of it."""

    def release(self) -> None:
        """Hand over what was kept."""

class Recipient:
    """Base of native front ends that keep many requests of a connection under way: see ``fronts/queries.pxd``."""

def descriptor() -> int:
    """Readable when `deliver` has something to do; opened with the first call. OSError."""

def deliver() -> None:
    """Deliver what workers have returned."""

def requests() -> int:
    """How many requests of the process are under way."""
