"""A client's TLS over a socket, for threads of Python that wait for it."""

import socket

from fastdns.tls.context import ClientContext, TlsError

class WantsRead(BlockingIOError):
    """Octets of the peer are needed first."""

class WantsWrite(BlockingIOError):
    """Space in the socket's buffer is needed first."""

class HandshakeError(TlsError):
    """Why the handshake failed, as Go words it."""

class ClientStream:
    """Over a connected socket that does not block, which stays the caller's. The server's certificate must be of ``name``, which is also sent as SNI unless
    it is an address. One thread at a time."""

    def __init__(self, context: ClientContext, plain: socket.socket, name: str) -> None:
        """MemoryError."""
    def handshake(self) -> None:
        """Go on with it. WantsRead, WantsWrite, HandshakeError, OSError of the socket."""
    @property
    def protocol(self) -> str:
        """What ALPN has agreed on; "": nothing."""
    def receive(self) -> bytes:
        """What has come, b"" at the end. WantsRead; OSError: the connection is of no use any more."""
    def send(self, octets: memoryview) -> int:
        """How many octets were sent. WantsWrite: the same octets again; OSError as `receive`."""
    def close(self) -> None:
        """Tell the server, if the socket takes it at once. Nothing else may be called after it."""
