"""The parser of PROXY headers, for tests; the native side is in ``proxy/header.pxd``."""

#: Octets of an address, and its port.
End = tuple[bytes, int]

def parse(octets: bytes) -> tuple[int, int, int, tuple[End, End] | None] | tuple[int, str] | None:
    """The header with which the octets begin.

    None: there is none. A whole one: version, length in octets, address family and protocol (as version 2 writes them; 0: unknown), and source and
    destination, None without a client. The beginning of one: octets that are needed to tell more, and the error if there are no more octets ("": then
    it is no header). Raises ValueError for a malformed one.
    """
