"""DNS over gRPC: messages of ``coredns.dns.DnsService/Query`` as they stand in bodies of HTTP/2.

A body is a flag, a length in four octets, and the protobuf message ``DnsPacket { bytes msg = 1; }``
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""

from __future__ import annotations

from urllib.parse import unquote

__all__ = [
    "BODY_MAX",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "MESSAGE_MAX",
    "METHOD",
    "NOT_FOUND",
    "PACKET_MAX",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "StatusError",
    "pack",
    "percent_decoded",
    "unpack",
]

METHOD = "/coredns.dns.DnsService/Query"
#: Octets of a DNS message, of the packet around it (a tag and a length of three octets), and of a body.
MESSAGE_MAX = 65535
PACKET_MAX = MESSAGE_MAX + 4
PREFIX = 5
BODY_MAX = PREFIX + PACKET_MAX

#: Statuses of gRPC.
UNKNOWN, NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 2, 5, 8, 9, 12, 13, 14

NAMES = {1: "Canceled", 2: "Unknown", 3: "InvalidArgument", 4: "DeadlineExceeded", 5: "NotFound", 6: "AlreadyExists", 7: "PermissionDenied"}
NAMES |= {8: "ResourceExhausted", 9: "FailedPrecondition", 10: "Aborted", 11: "OutOfRange", 12: "Unimplemented", 13: "Internal", 14: "Unavailable"}
NAMES |= {15: "DataLoss", 16: "Unauthenticated"}


class StatusError(Exception):
    """A call that failed, with gRPC's status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"rpc error: code = {NAMES.get(status, f'Code({status})')} desc = {text}")
        self.status = status
        self.text = text


def pack(message: bytes) -> bytes:
    """A body with one packet."""
    packet = b"\x0a" + _varint(len(message)) + message
    return b"\0" + len(packet).to_bytes(4, "big") + packet


def unpack(body: bytes) -> bytes:
    """The DNS message of a body. Raises StatusError."""
    if len(body) < PREFIX:
        raise StatusError(INTERNAL, "unexpected EOF" if body else "EOF")
    size = int.from_bytes(body[1:PREFIX], "big")
    if size > PACKET_MAX:
        raise StatusError(RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({size} vs. {PACKET_MAX})")
    if body[0] == 1:
        raise StatusError(INTERNAL, "grpc: compressed flag set with identity or empty encoding")
    if body[0]:
        raise StatusError(INTERNAL, f"grpc: received unexpected payload format {body[0]}")
    if len(body) < PREFIX + size:
        raise StatusError(INTERNAL, "unexpected EOF")
    if len(body) > PREFIX + size:
        raise StatusError(INTERNAL, "cardinality violation: received multiple messages for a unary call")
    message = _field(body, PREFIX)
    if len(message) > MESSAGE_MAX:
        raise StatusError(UNKNOWN, f"dns message exceeds size limit: {len(message)}")
    return message


def percent_decoded(text: str) -> str:
    """A status's text, from a field of HTTP."""
    return unquote(text)


# ---- protobuf ----


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(octets: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(octets):
            break
        value |= (octets[at] & 0x7F) << shift
        at += 1
        if not octets[at - 1] & 0x80:
            return value, at
    raise _malformed()


def _field(octets: bytes, at: int) -> bytes:
    """Field 1, the last one if it is there more than once; unknown fields are passed over."""
    message = b""
    while at < len(octets):
        tag, at = _read_varint(octets, at)
        kind = tag & 7
        if kind == 0:
            _, at = _read_varint(octets, at)
            continue
        if kind == 2:
            size, at = _read_varint(octets, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _malformed()
        if tag >> 3 == 0 or at + size > len(octets):
            raise _malformed()
        if tag == 0x0A:
            message = octets[at : at + size]
        at += size
    return message


def _malformed() -> StatusError:
    return StatusError(INTERNAL, "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data")
