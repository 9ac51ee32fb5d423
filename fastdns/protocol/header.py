"""The header's flags (RFC 1035 4.1.1) for Python; the native side is in ``header.pxd``."""

from __future__ import annotations

from typing import Final

__all__ = [
    "FLAGS_OPCODE",
    "FLAG_AA",
    "FLAG_CD",
    "FLAG_QR",
    "FLAG_RA",
    "FLAG_RD",
    "FLAG_TC",
    "OPCODE_NOTIFY",
    "OPCODE_QUERY",
    "OPCODE_UPDATE",
    "flags_opcode",
    "flags_rcode",
    "message_flags",
]

FLAG_QR: Final = 0x8000
FLAG_AA: Final = 0x0400
FLAG_TC: Final = 0x0200
FLAG_RD: Final = 0x0100
FLAG_RA: Final = 0x0080
FLAG_CD: Final = 0x0010
FLAGS_OPCODE: Final = 0x7800

OPCODE_QUERY: Final = 0
OPCODE_NOTIFY: Final = 4
OPCODE_UPDATE: Final = 5


def message_flags(message: bytes) -> int:
    """The flags of a message of at least 4 octets."""
    return int.from_bytes(message[2:4], "big")


def flags_opcode(flags: int) -> int:
    return (flags >> 11) & 15


def flags_rcode(flags: int) -> int:
    """The low four bits of the response code; with EDNS the OPT record has eight more (RFC 6891 6.1.3)."""
    return flags & 15
