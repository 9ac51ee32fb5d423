"""Sets of networks as native handlers look them up; the contract is in ``index/prefixes.pxd``."""

from collections.abc import Mapping

class PrefixTree:
    """Networks with a number above 0 each.

    A network is its octets (4, or 16 for IPv6; bits behind the prefix do not count) and the length of the prefix. Raises ValueError for
    other octets, lengths and numbers, and where one network has two numbers.
    """

    def __init__(self, networks: Mapping[tuple[bytes, int], int]) -> None: ...
    def find(self, octets: bytes) -> list[int]:
        """The numbers of all networks that hold an address, the widest first."""
