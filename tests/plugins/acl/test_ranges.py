"""acl: networks as ranges of addresses, beside the standard library's idea of them."""

from __future__ import annotations

import random
from bisect import bisect_right
from ipaddress import ip_address, ip_network

import pytest

from fastdns.plugins.acl.ranges import ranges_of


def either(wider: int, own: int) -> int:
    """Numbers as sets of bits."""
    return wider | own


def ranges(size: int, *texts: str) -> list[tuple[int, int]]:
    networks = [ip_network(text) for text in texts]
    return ranges_of({(network.network_address.packed, network.prefixlen): 1 << place for place, network in enumerate(networks)}, size, either)


def test_ranges() -> None:
    assert ranges(4) == [(0, 0)]
    assert ranges(4, "::/0") == [(0, 0)]
    assert ranges(4, "0.0.0.0/0") == [(0, 1)]
    assert ranges(4, "0.0.0.0/1", "128.0.0.0/1") == [(0, 1), (1 << 31, 2)]
    assert ranges(4, "10.0.0.0/8", "10.0.0.0/16", "10.255.255.255/32") == [(0, 0), (10 << 24, 3), (10 << 24 | 1 << 16, 1), ((11 << 24) - 1, 5), (11 << 24, 0)]
    assert ranges(4, "255.255.255.255/32", "0.0.0.0/32") == [(0, 2), (1, 0), ((1 << 32) - 1, 1)]
    assert ranges(16, "ffff::/16", "ffff:ffff::/32", "10.0.0.0/8") == [(0, 0), (0xFFFF << 112, 1), (0xFFFFFFFF << 96, 3)]


def test_neighbours_with_one_number_are_one() -> None:
    networks = {(bytes([10, 0, 0, 0]), 9): 1, (bytes([10, 128, 0, 0]), 9): 1, (bytes([10, 1, 0, 0]), 16): 1}
    assert ranges_of(networks, 4, either) == [(0, 0), (10 << 24, 1), (11 << 24, 0)]


@pytest.mark.parametrize("size", [4, 16])
def test_random_networks(size: int) -> None:
    rng = random.Random(size)
    networks = set()
    for _ in range(300):
        octets = bytes([rng.choice((0, 10, 255)), *rng.choices((0, 1, 128, 255), k=size - 1)])
        networks.add(ip_network((octets, rng.randint(0, 8 * size)), strict=False))
    numbers = {network: 1 << place for place, network in enumerate(sorted(networks))}
    found = ranges_of({(network.network_address.packed, network.prefixlen): number for network, number in numbers.items()}, size, either)
    assert len(found) <= 2 * len(networks) + 1
    firsts = [first for first, _ in found]
    assert firsts == sorted(set(firsts))
    for first in firsts:
        for value in (first - 1, first, rng.randrange(1 << 8 * size)):
            if value >= 0:
                address = ip_address(value.to_bytes(size, "big"))
                assert found[bisect_right(firsts, value) - 1][1] == sum(number for network, number in numbers.items() if address in network), address
