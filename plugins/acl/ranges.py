"""Networks as ranges of addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["ranges_of"]


def ranges_of(networks: Mapping[tuple[bytes, int], int], size: int, union: Callable[[int, int], int]) -> list[tuple[int, int]]:
    """First addresses of ranges, which begin with 0, and the number of each: it differs from that of the range before.

    ``networks`` have a number by their octets, of which those of ``size`` octets count, and the length of the prefix that the octets end with. A range
    has the number of the narrowest network that it is in; ``union`` gives that of a network within others from the wider one's and its own. 0: it is
    in none.
    """
    ranges = [(0, 0)]
    #: Networks that the address at hand is in, the narrowest last: the address behind it, and its number.
    inside: list[tuple[int, int]] = []

    def begin(first: int, number: int) -> None:
        if ranges[-1][0] == first:
            ranges.pop()
        if not ranges or ranges[-1][1] != number:
            ranges.append((first, number))

    def leave(address: int) -> None:
        """The networks that do not reach it."""
        while inside and inside[-1][0] <= address:
            end, _ = inside.pop()
            begin(end, inside[-1][1] if inside else 0)

    for (octets, bits), own in sorted(networks.items()):
        if len(octets) == size:
            first = int.from_bytes(octets, "big")
            leave(first)
            number = union(inside[-1][1], own) if inside else own
            begin(first, number)
            inside.append((first + (1 << 8 * size - bits), number))
    leave((1 << 8 * size) - 1)
    return ranges
