"""Connections that a front end has accepted, and whose handshake is through, go on as a worker's own (``fastdns.engine.io.tcp``). For the fronts' thread."""

import socket

from fastdns.fronts.queries import Placed

def now() -> int:
    """Of the clock that `settle` wants, ns."""

def settle(sock: socket.socket, listener: Placed, since: int) -> None:
    """Hand a connection (not blocking; an `ssl.SSLSocket` after its handshake, or one in clear text) to a worker, which speaks DNS with the client.

    ``since`` is when the client came: its first message is due by the read timeout from then. The socket object is empty afterwards.
    """

def end(listener: Placed) -> None:
    """Have the connections of a listener end once what they asked is answered."""
