"""Connections that a front end has accepted go over to a worker (``fastdns.engine.io.tcp``) once the TLS handshake is done. For the fronts' thread."""

import socket

from fastdns.fronts.queries import Placed

def now() -> int:
    """Of the clock that `begin` wants, ns."""

def begin(sock: socket.socket, listener: Placed, since: int) -> None:
    """Hand a connection (not blocking; an `ssl.SSLSocket` after its handshake, or one in clear text) to a worker, which speaks DNS with the client.

    ``since`` is when the client was accepted: its first message is due by the read timeout from then. The socket object is empty afterwards.
    """

def finish(listener: Placed) -> None:
    """Have the connections of a listener end once what they asked is answered."""
