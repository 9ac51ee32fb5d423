"""Writes databases in MaxMind's format, from its specification (https://maxmind.github.io/MaxMind-DB/)."""

from __future__ import annotations

import struct
from ipaddress import IPv4Network, ip_network
from typing import Any


class Float32(float):
    """A number that is written in four octets."""


class Unsigned(int):
    """A number with the kind that it is to be written as: 5, 6 or 9."""

    kind: int

    def __new__(cls, value: int, kind: int) -> Unsigned:
        made = super().__new__(cls, value)
        made.kind = kind
        return made


class Pointer(int):
    """To a value at this offset."""


def head(kind: int, size: int) -> bytes:
    if size < 29:
        short, more = size, b""
    elif size < 285:
        short, more = 29, bytes([size - 29])
    elif size < 65821:
        short, more = 30, (size - 285).to_bytes(2, "big")
    else:
        short, more = 31, (size - 65821).to_bytes(3, "big")
    return (bytes([kind << 5 | short]) if kind < 8 else bytes([short, kind - 7])) + more


def pointer(to: int) -> bytes:
    for octets, begin, bits in ((1, 0, 11), (2, 2048, 19), (3, 526336, 27)):
        if to - begin < 1 << bits:
            number = to - begin
            return bytes([1 << 5 | (octets - 1) << 3 | number >> 8 * octets]) + (number & (1 << 8 * octets) - 1).to_bytes(octets, "big")
    return bytes([1 << 5 | 3 << 3]) + to.to_bytes(4, "big")


def encode(value: Any) -> bytes:
    if isinstance(value, Pointer):
        return pointer(value)
    if isinstance(value, str):
        return head(2, len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return head(4, len(value)) + value
    if isinstance(value, bool):
        return head(14, value)
    if isinstance(value, Float32):
        return head(15, 4) + struct.pack(">f", value)
    if isinstance(value, float):
        return head(3, 8) + struct.pack(">d", value)
    if isinstance(value, int):
        octets = value.to_bytes((value.bit_length() + 7) // 8, "big")
        return head(getattr(value, "kind", 6), len(octets)) + octets
    if isinstance(value, dict):
        return head(7, len(value)) + b"".join(encode(key) + encode(one) for key, one in value.items())
    return head(11, len(value)) + b"".join(map(encode, value))


def database(networks: dict[str, Any], kind: str = "GeoLite2-City", *, version: int = 6, size: int = 28, first: bytes = b"", **metadata: Any) -> bytes:
    """A file with a value for each network, none within another. ``size`` is that of records in bits, ``first`` what leads the values, for pointers."""
    values = bytearray(first)
    nodes: list[list[int | None]] = [[None, None]]
    leaves: dict[tuple[int, int], int] = {}
    for text, value in networks.items():
        network = ip_network(text)
        before = 96 if version == 6 and isinstance(network, IPv4Network) else 0
        bits = "0" * before + f"{int(network.network_address):0{network.max_prefixlen}b}"[: network.prefixlen]
        node = 0
        for bit in map(int, bits[:-1]):
            following = nodes[node][bit]
            if following is None:
                nodes.append([None, None])
                following = nodes[node][bit] = len(nodes) - 1
            node = following
        leaves[node, int(bits[-1])] = len(values)
        values += encode(value)
    count = len(nodes)
    tree = bytearray()
    for number, node_ in enumerate(nodes):
        left, right = (count + 16 + leaves[number, side] if (number, side) in leaves else count if child is None else child for side, child in enumerate(node_))
        if size == 28:
            tree += (left & 0xFFFFFF).to_bytes(3, "big") + bytes([left >> 24 << 4 | right >> 24]) + (right & 0xFFFFFF).to_bytes(3, "big")
        else:
            tree += left.to_bytes(size // 8, "big") + right.to_bytes(size // 8, "big")
    told = {
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": Unsigned(1_700_000_000, 9),
        "database_type": kind,
        "description": {"en": "made by a test"},
        "ip_version": version,
        "languages": ["en"],
        "node_count": count,
        "record_size": size,
        **metadata,
    }
    return bytes(tree) + bytes(16) + bytes(values) + b"\xab\xcd\xefMaxMind.com" + encode(told)
