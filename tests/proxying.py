"""PROXY headers as a proxy writes them, and a reference for their parser (haproxy's proxy-protocol.txt)."""

from __future__ import annotations

import re
import struct
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

import dns.message
import dns.rdatatype

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"

PROXY = 0x21
LOCAL = 0x20

#: Address families and protocols of version 2.
UNSPEC, TCP4, UDP4, TCP6, UDP6, UNIX, UNIXGRAM = 0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32

#: Octets of the addresses.
BLOCKS = {0: 0, 1: 12, 2: 36, 3: 216}

#: The most octets of addresses and TLVs.
BLOCK_MAX = 4096


def text(source: str, destination: str = "", port: int = 4321, to: int = 53) -> bytes:
    """A header of version 1."""
    family = 6 if ":" in source else 4
    return f"PROXY TCP{family} {source} {destination or ('::1' if family == 6 else '127.0.0.1')} {port} {to}\r\n".encode()


def binary(source: str, destination: str = "", port: int = 4321, to: int = 53, *, udp: bool = False, tlvs: bytes = b"") -> bytes:
    """A header of version 2 with the command PROXY."""
    address = ip_address(source)
    target = ip_address(destination or ("::1" if address.version == 6 else "127.0.0.1"))
    kind = (TCP6 if address.version == 6 else TCP4) + udp
    return block(PROXY, kind, address.packed + target.packed + struct.pack("!HH", port, to) + tlvs)


def block(command: int, kind: int, octets: bytes, size: int | None = None) -> bytes:
    """A header of version 2, with whatever it should hold; ``size``: a length that need not be true."""
    return SIGNATURE + struct.pack("!BBH", command, kind, len(octets) if size is None else size) + octets


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value


def whose(reply: dns.message.Message) -> tuple[str, int]:
    """The client that *whoami* saw."""
    address, port = "", 0
    for rrset in reply.additional:
        if rrset.rdtype == dns.rdatatype.SRV:
            port = rrset[0].port
        else:
            address = rrset[0].address
    return address, port


#: Octets of an address (IPv4 where it is an IPv4-mapped one), and a port.
End = tuple[bytes, int]


def reference(octets: bytes) -> tuple[str, int, tuple[End, End] | None]:
    """``absent``, ``present``, ``partial`` or ``malformed``; octets of a header that is present; source and destination."""
    if octets[:5] == b"PROXY"[: len(octets)]:
        return _text(octets) if len(octets) >= 5 else ("partial", 0, None)
    if octets[:12] == SIGNATURE[: len(octets)]:
        return _binary(octets) if len(octets) >= 12 else ("partial", 0, None)
    return "absent", 0, None


def _binary(octets: bytes) -> tuple[str, int, tuple[End, End] | None]:
    if len(octets) > 12 and octets[12] not in (PROXY, LOCAL):
        return "malformed", 0, None
    if len(octets) > 13 and (octets[13] not in (UNSPEC, TCP4, UDP4, TCP6, UDP6, UNIX, UNIXGRAM) or octets[12:14] == bytes((PROXY, UNSPEC))):
        return "malformed", 0, None
    if len(octets) < 16:
        return "partial", 0, None
    (size,) = struct.unpack_from("!H", octets, 14)
    family = octets[13] >> 4
    if size > BLOCK_MAX or (octets[12] == PROXY and size < BLOCKS[family]):
        return "malformed", 0, None
    if len(octets) < 16 + size:
        return "partial", 0, None
    if octets[12] == LOCAL or family == 3:
        return "present", 16 + size, None
    width = 4 if family == 1 else 16
    ports = struct.unpack_from("!HH", octets, 16 + 2 * width)
    ends = [(_unmapped(octets[16 + i * width : 16 + (i + 1) * width]), ports[i]) for i in range(2)]
    return "present", 16 + size, (ends[0], ends[1])


def _text(octets: bytes) -> tuple[str, int, tuple[End, End] | None]:
    end = octets[:107].find(b"\n")
    if end < 0:
        return ("malformed" if len(octets) >= 107 else "partial"), 0, None
    if octets[end - 1 : end] != b"\r":
        return "malformed", 0, None
    words = octets[: end - 1].split(b" ")
    if words[0] != b"PROXY" or len(words) < 2:
        return "malformed", 0, None
    if words[1] == b"UNKNOWN":
        return "present", end + 1, None
    if words[1] not in (b"TCP4", b"TCP6") or len(words) != 6:
        return "malformed", 0, None
    try:
        kind: type[IPv4Address | IPv6Address] = IPv4Address if words[1] == b"TCP4" else IPv6Address
        addresses = [kind(word.decode("ascii")) for word in words[2:4]]
    except (AddressValueError, UnicodeDecodeError):
        return "malformed", 0, None
    if b"%" in words[2] + words[3] or not all(re.fullmatch(rb"0|[1-9][0-9]{0,4}", word) and int(word) < 65536 for word in words[4:]):
        return "malformed", 0, None
    ends = [(_unmapped(address.packed), int(port)) for address, port in zip(addresses, words[4:], strict=True)]
    return "present", end + 1, (ends[0], ends[1])


def _unmapped(octets: bytes) -> bytes:
    return octets[12:] if len(octets) == 16 and octets.startswith(bytes(10) + b"\xff\xff") else octets
