from fastdns._mux import NativeHandler

class Loop(NativeHandler):
    """Counts queries of type HINFO for the name, of which the server sends one. Enabled until `disable`."""

    def __init__(self, name: str) -> None: ...
    def reset(self) -> None:
        """Forget what was seen: the query may have been sent in vain."""

    def disable(self) -> None:
        """Count no more; for good."""

    def client(self) -> tuple[bytes, int] | None:
        """Address (4 or 16 octets) and port that the third query came from, once there was one."""
