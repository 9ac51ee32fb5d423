"""Sets of networks, which native handlers look addresses up in; the native side is in ``index/prefixes.pxd``."""

from collections.abc import Mapping

class PrefixTree:
    """A set of networks; each has a number above 0.

    A network is its octets (4 for IPv4, 16 for IPv6; bits behind the prefix are ignored) and the length of its prefix. Raises ValueError for
    other octets, lengths and numbers, and for a network that is given twice with different numbers.
    """

    def __init__(self, networks: Mapping[tuple[bytes, int], int]) -> None: ...
    def find(self, octets: bytes) -> list[int]:
        """The numbers of all networks that contain an address (4 or 16 octets), the widest first."""
