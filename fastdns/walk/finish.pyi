"""From a reply to a message; see walk/finish.pxd."""

def finished(query: bytes, reply: bytes, tcp: bool = ..., ipv6: bool = ..., copied: str = ...) -> tuple[bytes, int]:
    """What leaves for ``query`` when a plugin answers ``reply`` (for tests): the message and its length before OPT, cutting and compression.

    ``copied`` is ``""``, ``"own"`` (as if the query had been parked with it) or ``"append"`` (as if it had been a child's).
    Raises ValueError when either is malformed or too big.
    """
