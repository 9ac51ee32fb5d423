"""Captures in the format of Wireshark (draft-ietf-opsawg-pcapng): IP packets with the messages of recorded queries."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fastdns import __version__
from fastdns.plugins.recorder._records import Recorded
from fastdns.plugins.recorder.messages import Sent, messages
from fastdns.plugins.recorder.question import asked_text

__all__ = ["Capture"]

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER = 0x1A2B3C4D
LINK_RAW = 101  # IPv4 or IPv6 without a link layer
OPTION_END, OPTION_COMMENT, OPTION_FLAGS = 0, 1, 2
APPLICATION, RESOLUTION = 4, 9
INBOUND, OUTBOUND = 1, 2
UDP, TCP = 17, 6
ACK_PUSH = 0x18
#: Of DNS, for what came encrypted.
PORT = 53
#: Octets of a message in a UDP datagram or a TCP segment of one packet.
MESSAGE_MAX = 65000

Flow = tuple[bytes, int, bytes, int]


class Capture:
    """Makes one file. TCP messages of a connection follow on each other, as Wireshark wants them to."""

    def __init__(self, offset: int) -> None:
        """``offset``: ns from the clock of records to the time since 1970."""
        self.offset = offset
        self._sequence: dict[Flow, int] = {}

    def head(self) -> bytes:
        """What the file begins with."""
        section = struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1) + _option(APPLICATION, f"fastdns {__version__} recorder".encode()) + _option(OPTION_END, b"")
        interface = struct.pack("<HHI", LINK_RAW, 0, 0) + _option(RESOLUTION, b"\x09") + _option(OPTION_END, b"")
        return _block(SECTION, section) + _block(INTERFACE, interface)

    def packets(self, record: Recorded) -> Iterator[tuple[int, bytes]]:
        """Times (of the records' clock) and blocks of the query and its reply."""
        for sent in messages(record):
            if len(sent.octets) <= MESSAGE_MAX:
                yield sent.at, self._packet(record, sent)

    def _packet(self, record: Recorded, sent: Sent) -> bytes:
        client, server = (record.client, record.client_port), (record.local, record.local_port if record.transport <= 1 else PORT)
        (source, sport), (target, dport) = (server, client) if sent.is_reply else (client, server)
        if len(source) != len(target):  # an IPv4 client of an IPv6 socket
            source, target = _ipv6(source), _ipv6(target)
        if record.transport == 0:
            protocol, segment = UDP, struct.pack("!4H", sport, dport, 8 + len(sent.octets), 0) + sent.octets
            check = 6
        else:
            data = struct.pack("!H", len(sent.octets)) + sent.octets
            protocol, segment = TCP, self._segment((source, sport, target, dport), data)
            check = 16
        total = _checksum(_pseudo(source, target, protocol, len(segment)) + segment) or 0xFFFF
        segment = segment[:check] + struct.pack("!H", total) + segment[check + 2 :]
        packet = _ip(source, target, protocol, len(segment)) + segment
        time = sent.at + self.offset
        remark = "; ".join(filter(None, [sent.remark, *(asked_text(one) for one in record.pair)])) if sent.is_reply else sent.remark
        options = _option(OPTION_COMMENT, remark.encode()) if remark else b""
        options += _option(OPTION_FLAGS, struct.pack("<I", OUTBOUND if sent.is_reply else INBOUND)) + _option(OPTION_END, b"")
        head = struct.pack("<5I", 0, time >> 32 & 0xFFFFFFFF, time & 0xFFFFFFFF, len(packet), len(packet))
        return _block(PACKET, head + _padded(packet) + options)

    def _segment(self, flow: Flow, data: bytes) -> bytes:
        source, sport, target, dport = flow
        number = self._sequence.get(flow, 1)
        self._sequence[flow] = number + len(data) & 0xFFFFFFFF
        acknowledged = self._sequence.get((target, dport, source, sport), 1)
        return struct.pack("!2H2I4H", sport, dport, number, acknowledged, 5 << 12 | ACK_PUSH, 0xFFFF, 0, 0) + data


def _ipv6(octets: bytes) -> bytes:
    """IPv4 addresses as mapped ones (RFC 4291 2.5.5.2)."""
    return octets if len(octets) == 16 else bytes(10) + b"\xff\xff" + octets


def _ip(source: bytes, target: bytes, protocol: int, length: int) -> bytes:
    if len(source) == 16:
        return struct.pack("!IHBB", 6 << 28, length, protocol, 64) + source + target
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, protocol, 0) + source + target
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:]


def _pseudo(source: bytes, target: bytes, protocol: int, length: int) -> bytes:
    """RFC 768, RFC 8200 8.1."""
    return source + target + struct.pack("!IxxxB", length, protocol)


def _checksum(octets: bytes) -> int:
    """RFC 1071."""
    padded = octets + b"\0" * (len(octets) % 2)
    total = int.from_bytes(padded) % 0xFFFF
    return 0xFFFF - total if total else 0 if any(padded) else 0xFFFF


def _padded(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<2H", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length
