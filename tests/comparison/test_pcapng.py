"""Captures in the format pcapng, written here octet by octet: orders, interfaces, kinds of packets, comments, damage."""

from __future__ import annotations

import io
import struct

import pytest

from fastdns.comparison.pcapng import Packet, read_packets

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 6
ETHERNET, RAW = 1, 101


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<", options: bytes = b"") -> bytes:
    return block(SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(link: int, order: str = "<") -> bytes:
    return block(INTERFACE, struct.pack(order + "HHI", link, 0, 0), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "2H", code, len(value)) + value + bytes(-len(value) % 4)


def packet(octets: bytes, number: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    head = struct.pack(order + "5I", number, 0, 0, len(octets), len(octets))
    return block(PACKET, head + octets + bytes(-len(octets) % 4) + options, order)


def read(octets: bytes) -> list[Packet]:
    return list(read_packets(io.BytesIO(octets)))


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_is_read(order: str) -> None:
    """Options of packets, lengths that are no multiple of four, and blocks that have nothing for us."""
    octets = section(order, option(4, b"program", order) + option(0, b"", order)) + interface(RAW, order) + interface(ETHERNET, order)
    octets += packet(b"one", 0, option(2, bytes(4), order) + option(1, b"first", order) + option(1, b"second", order) + option(0, b"", order), order)
    octets += block(NAMES, bytes(16), order) + packet(b"four", 1, b"", order)
    octets += block(OLD_PACKET, struct.pack(order + "2H4I", 1, 0, 0, 0, 2, 2) + b"xx", order)
    octets += block(SIMPLE_PACKET, struct.pack(order + "I", 5) + b"fives", order)
    assert read(octets) == [Packet(RAW, b"one", (b"first", b"second")), Packet(ETHERNET, b"four", ()), Packet(ETHERNET, b"xx", ()), Packet(RAW, b"fives", ())]


def test_sections_follow_on_one_another() -> None:
    """Each has its order and its interfaces."""
    octets = section() + interface(RAW) + packet(b"one") + section(">") + interface(ETHERNET, ">") + packet(b"two", 0, option(1, b"c", ">"), ">")
    assert read(octets) == [Packet(RAW, b"one", ()), Packet(ETHERNET, b"two", (b"c",))]


def test_options_that_are_cut() -> None:
    octets = section() + interface(RAW)
    assert read(octets + packet(b"four", 0, option(1, b"c") + struct.pack("<2H", 1, 60) + b"abcd")) == [Packet(RAW, b"four", (b"c", b"abcd"))]
    assert read(octets + packet(b"four", 0, option(0, b"") + option(1, b"behind the end"))) == [Packet(RAW, b"four", ())]


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (struct.pack("<III", SECTION, 28, 7), "the order of octets is not known"),
        (section() + b"\x06\0\0", "a block of 0 octets"),
        (section() + struct.pack("<II", PACKET, 8), "a block of 8 octets"),
        (section() + struct.pack("<II", PACKET, 18), "a block of 18 octets"),
        (section() + struct.pack("<II", PACKET, 0xFFFFFFF0), "a block of 4294967280 octets"),
        (section() + interface(RAW) + packet(b"four")[:-1], "a block ends too early"),
        (section() + interface(RAW) + packet(b"four")[:-4] + bytes(4), "a block ends too early"),
        (section() + packet(b"four"), "a packet is of no interface"),
        (section() + block(SIMPLE_PACKET, struct.pack("<I", 1) + b"x"), "a packet is of no interface"),
        (section() + interface(RAW) + block(PACKET, bytes(8)), "a block is too short"),
        (section() + block(INTERFACE, b""), "a block is too short"),
        (section() + interface(RAW) + block(PACKET, struct.pack("<5I", 0, 0, 0, 9, 9) + b"eight oc"), "a packet is longer than its block"),
    ],
)
def test_damage(octets: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"^{problem}$"):
        read(octets)
