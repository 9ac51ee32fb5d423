"""Packets out of captures in the format pcap (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from fastdns.comparison.pcapng import Packet

__all__ = ["begin"]

#: By the file's first octets: the order of octets, and the octets of a packet's head.
FORMATS = {
    bytes.fromhex(magic): (order, octets)
    for big, octets in (("a1b2c3d4", 16), ("a1b23c4d", 16), ("a1b2cd34", 24))
    for order, magic in ((">", big), ("<", bytes.fromhex(big)[::-1].hex()))
}
HEAD = 24
#: Octets of a packet. libpcap takes no larger ones, and reads of a damaged length would be the rest of the file.
PACKET_MAX = 262_144


def begin(file: BinaryIO) -> tuple[int, Iterator[Packet]]:
    """Link type and packets of a file that was just opened. Raises ValueError, also while packets are read, for what is not such a file."""
    head = file.read(HEAD)
    if len(head) < HEAD or head[:4] not in FORMATS:
        raise ValueError("invalid tcpdump header")
    order, octets = FORMATS[head[:4]]
    link = struct.unpack_from(order + "I", head, 20)[0] & 0xFFFF  # the upper half has flags
    return link, _packets(file, order, octets, link)


def _packets(file: BinaryIO, order: str, octets: int, link: int) -> Iterator[Packet]:
    while head := file.read(octets):
        if len(head) < octets:
            raise ValueError("the file ends within the head of a packet")
        (captured,) = struct.unpack_from(order + "I", head, 8)
        if captured > PACKET_MAX:
            raise ValueError(f"a packet of {captured} octets")
        yield Packet(link, file.read(captured), ())
