"""DNS messages of a recorded query: those that were kept, or rebuilt ones."""

from __future__ import annotations

import struct
from typing import NamedTuple

from fastdns.plugins.recorder import _records
from fastdns.plugins.recorder._records import Recorded
from fastdns.plugins.recorder.question import BADVERS, TRANSPORTS
from fastdns.protocol.header import FLAG_QR
from fastdns.protocol.parameters import TYPE_OPT

__all__ = ["REBUILT", "Sent", "messages", "query", "reply"]

FLAG_RD = 0x0100
#: What a reply takes from the query: opcode, RD, CD.
REFLECTED = 0x7910
EDNS_SIZE = 1232
#: The remark of what is not the octets that were sent.
REBUILT = "rebuilt by fastdns: not the octets that were sent"


class Sent(NamedTuple):
    """A message on its way between client and server."""

    #: ns, of the clock of records.
    at: int
    is_reply: bool
    octets: bytes
    #: What it is not, for readers of files; "" for the octets that were sent.
    remark: str


def messages(record: Recorded) -> list[Sent]:
    """Query and reply; the query alone where nothing was sent."""
    encrypted = TRANSPORTS[record.transport] if record.transport > 1 and record.transport < len(TRANSPORTS) else ""
    by = f"came over {encrypted} to port {record.local_port}" if encrypted else ""
    first = Sent(record.received, False, record.packet, by) if record.packet else Sent(record.received, False, query(record), _rebuilt(record, by))
    if record.marks & _records.UNSENT:
        return [first]
    then = record.received + round(record.took * 1e9)
    if record.reply:
        return [first, Sent(then, True, record.reply, by)]
    kept = "a transfer" if record.marks & _records.STREAM else f"a reply of {record.size} octets, whose records were not kept"
    return [first, Sent(then, True, reply(record), _rebuilt(record, by, kept))]


def _rebuilt(record: Recorded, by: str, kept: str = "") -> str:
    parts = [REBUILT, kept, by]
    if record.marks & _records.CUT_OPTIONS and not kept:
        parts.append("its EDNS options were left out")
    if record.marks & _records.HIDDEN_NAME:
        parts.append("the name is hashed or cut")
    if record.marks & _records.CUT_CLIENT:
        parts.append("the client's address is cut")
    return "; ".join(part for part in parts if part)


def query(record: Recorded) -> bytes:
    edns = _opt(record.edns_size, record.edns_version, 0, record.edns_flags, record.options) if record.marks & _records.EDNS else b""
    return struct.pack("!6H", record.id, record.flags, 1, 0, 0, bool(edns)) + _question(record) + edns


def reply(record: Recorded) -> bytes:
    """Header and question, and an OPT where the query had one."""
    flags = FLAG_QR | record.flags & REFLECTED | record.reply_flags & ~FLAG_RD & 0x07F0 | record.rcode & 15
    edns = _opt(EDNS_SIZE, 0, record.rcode >> 4, record.edns_flags, b"") if record.marks & _records.EDNS or record.rcode == BADVERS else b""
    return struct.pack("!6H", record.id, flags, 1, 0, 0, bool(edns)) + _question(record) + edns


def _question(record: Recorded) -> bytes:
    return record.name + struct.pack("!2H", record.qtype, record.qclass)


def _opt(size: int, version: int, extended: int, flags: int, options: bytes) -> bytes:
    return b"\0" + struct.pack("!2H2B2H", TYPE_OPT, size, extended, version, flags, len(options)) + options
