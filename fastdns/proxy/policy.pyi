"""Whose PROXY headers count on a listening address; the native side is in ``proxy/policy.pxd``."""

from collections.abc import Collection

from fastdns.proxy.sessions import Sessions

#: What may be done with headers, and the number of it.
RULES: dict[str, int]

class ProxyProtocol:
    """What workers do with PROXY headers: those of senders in ``networks`` (octets and length of a prefix) are used; for others ``otherwise`` counts, a
    key of `RULES`. Without networks ``otherwise`` counts for all.

    With ``sessions``, the client of a UDP header counts for ``lifetime`` ns for what the same sender sends without one. With ``tlvs``, queries have the
    TLVs of the headers that are used.
    """

    def __init__(self, networks: Collection[tuple[bytes, int]], otherwise: str, lifetime: int, sessions: Sessions | None, tlvs: bool = False) -> None: ...
    @property
    def sessions(self) -> Sessions | None: ...
    def rule(self, sender: bytes) -> str:
        """The key of `RULES` for a sender's address (4 or 16 octets)."""
