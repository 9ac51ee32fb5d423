from fastdns.tls.context import ClientContext, ServerContext

class Pair:
    """A client and a server over a pair of sockets."""

    def __init__(self, server: ServerContext, client: ClientContext, name: str) -> None: ...
    def close(self) -> None: ...
    def shake(self) -> tuple[bool, bool]:
        """Whether client and server take the handshake as done."""
    def protocol(self) -> str:
        """Agreed on by ALPN; "" for none."""
    def carry(self, sent: bytes, source: int) -> bytes:
        """Octets from one end (0: the client's) to the other. OSError."""
    def stream(self, messages: list[bytes]) -> tuple[bytes, int]:
        """Send messages from the server, each in records of its own: what came, and in how many receptions."""
