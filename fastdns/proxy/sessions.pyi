"""UDP sessions through a proxy; the native side is in ``proxy/sessions.pxd``."""

#: Octets of an address (4 or 16), and its port.
End = tuple[bytes, int]

#: The most sessions of a table.
LIMIT: int

class Sessions:
    """Who the client is behind an address and port of a proxy; at most ``capacity`` of them. Times are in ns, monotonic."""

    def __init__(self, capacity: int) -> None:
        """ValueError outside of 1 to `LIMIT`."""
    @property
    def capacity(self) -> int: ...
    def __len__(self) -> int:
        """Sessions, expired ones included."""
    @property
    def tlvs(self) -> int:
        """Octets of the TLVs of all."""
    def store(self, peer: End, now: int, lifetime: int, client: End, tlvs: bytes = b"") -> None:
        """Begins a session, or changes its client and the TLVs of its header."""
    def find(self, peer: End, now: int, lifetime: int) -> End | None:
        """The client of a session that was used in the last ``lifetime`` ns; it is used now. For tests, like `store`."""
    def find_tlvs(self, peer: End, now: int, lifetime: int) -> bytes:
        """Likewise, its TLVs; b"" for none."""
