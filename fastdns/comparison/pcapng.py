"""Packets out of captures in the format pcapng (draft-ietf-opsawg-pcapng), with the comments that dpkt's reader leaves out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

__all__ = ["SECTION", "Packet", "read_packets"]

#: The block that a file begins with: the same octets in both orders.
SECTION = b"\n\r\r\n"
#: Kinds of blocks: the second is that of old captures.
INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 1, 2, 3, 6
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
OPTION_END, OPTION_COMMENT = 0, 1
#: Octets of a block: libpcap reads none that are larger.
BLOCK_MAX = 16 << 20
#: Interfaces of a section.
INTERFACES_MAX = 65_536


class Packet(NamedTuple):
    """What was captured of a packet."""

    #: Link type of its interface (www.tcpdump.org/linktypes.html).
    link: int
    octets: bytes
    comments: tuple[bytes, ...]


def read_packets(file: BinaryIO) -> Iterator[Packet]:
    """The packets of a file, in its order; other blocks are passed over. Raises ValueError for a damaged file."""
    order = "<"
    links: list[int] = []
    while head := file.read(8):
        if head[:4] == SECTION:
            magic = file.read(4)
            if magic not in ORDERS:
                raise ValueError("the order of octets is not known")
            order, links = ORDERS[magic], []
            _body(file, head, order, 4)
            continue
        body = _body(file, head, order)
        (kind,) = struct.unpack_from(order + "I", head)
        try:
            if kind == INTERFACE:
                links += struct.unpack_from(order + "H", body)
                if len(links) > INTERFACES_MAX:
                    raise ValueError("a section has too many interfaces")
            elif kind in (PACKET, OLD_PACKET):
                interface, captured = struct.unpack_from(order + ("I8xI4x" if kind == PACKET else "H10xI4x"), body)
                end = 20 + captured
                if end > len(body):
                    raise ValueError("a packet is longer than its block")
                yield Packet(links[interface], body[20:end], tuple(_comments(body[end + -captured % 4 :], order)))
            elif kind == SIMPLE_PACKET:
                (length,) = struct.unpack_from(order + "I", body)
                yield Packet(links[0], body[4 : 4 + length], ())
        except struct.error:
            raise ValueError("a block is too short") from None
        except IndexError:
            raise ValueError("a packet is of no interface") from None


def _body(file: BinaryIO, head: bytes, order: str, begun: int = 0) -> bytes:
    """What stands between both lengths of a block, of which some octets are read. Raises ValueError."""
    length = struct.unpack_from(order + "I", head, 4)[0] if len(head) == 8 else 0
    rest = length - 12 - begun
    if not 0 <= rest <= BLOCK_MAX or length % 4:
        raise ValueError(f"a block of {length} octets")
    body = file.read(rest + 4)
    if len(body) != rest + 4 or body[rest:] != head[4:]:
        raise ValueError("a block ends too early")
    return body[:rest]


def _comments(options: bytes, order: str) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(order + "2H", options, at)
        if code == OPTION_END:
            return
        if code == OPTION_COMMENT:
            yield options[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
