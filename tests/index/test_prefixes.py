"""Sets of networks against the standard library's idea of them."""

from __future__ import annotations

import random
from ipaddress import ip_address, ip_network

import pytest

from fastdns.index.prefixes import PrefixTree


def tree(*networks: str) -> PrefixTree:
    return PrefixTree({(ip_network(text).network_address.packed, ip_network(text).prefixlen): number for number, text in enumerate(networks, 1)})


@pytest.mark.parametrize(
    ("networks", "address", "wanted"),
    [
        ((), "192.0.2.1", []),
        (("0.0.0.0/0",), "192.0.2.1", [1]),
        (("0.0.0.0/0",), "::1", []),
        (("::/0",), "192.0.2.1", []),
        (("192.0.2.0/24", "192.0.0.0/16", "192.0.2.1/32"), "192.0.2.1", [2, 1, 3]),
        (("192.0.2.0/24", "192.0.0.0/16", "192.0.2.1/32"), "192.0.2.2", [2, 1]),
        (("10.0.0.0/16", "10.128.0.0/9"), "10.200.0.1", [2]),
        (("10.0.0.0/16", "10.128.0.0/9"), "10.64.0.1", []),
        (("::/0", "2001:db8::/32", "2001:db8::1/128"), "2001:db8::1", [1, 2, 3]),
        (("2001:db8:0:0:8000::/65", "2001:db8::/64"), "2001:db8::8000:0:0:1", [2, 1]),
    ],
)
def test_networks_that_hold_an_address(networks: tuple[str, ...], address: str, wanted: list[int]) -> None:
    assert tree(*networks).find(ip_address(address).packed) == wanted


@pytest.mark.parametrize("size", [4, 16])
def test_random_networks(size: int) -> None:
    rng = random.Random(size)
    networks = {}
    for _ in range(1000):
        bits = rng.randint(0, 8 * size)
        octets = bytes([rng.choice((0, 10, 255)), *rng.choices((0, 1, 128, 255), k=size - 1)])
        networks[ip_network((octets, bits), strict=False)] = len(networks) + 1
    found = PrefixTree({(network.network_address.packed, network.prefixlen): number for network, number in networks.items()})
    matches = 0
    for _ in range(1000):
        address = ip_address(bytes([rng.choice((0, 10, 255)), *rng.choices((0, 1, 128, 255), k=size - 1)]))
        wanted = sorted((network.prefixlen, number) for network, number in networks.items() if address in network)
        assert found.find(address.packed) == [number for _, number in wanted]
        matches += len(wanted)
    assert matches > 1000


@pytest.mark.parametrize("network", [(b"\0" * 5, 0), (b"\0" * 4, 33), (b"\0" * 4, -1)])
def test_what_is_no_network(network: tuple[bytes, int]) -> None:
    with pytest.raises(ValueError, match="no network"):
        PrefixTree({network: 1})


def test_one_network_has_one_number() -> None:
    with pytest.raises(ValueError, match="twice"):
        PrefixTree({(bytes([10, 0, 0, 0]), 8): 1, (bytes([10, 0, 0, 1]), 8): 2})
