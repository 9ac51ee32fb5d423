"""Frames of HTTP/2 (RFC 9113) and the heads of its requests, as far as a server needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import hpack

__all__ = ["FRAME_MAX", "PREFACE", "Code", "Fault", "Flag", "Head", "Heads", "Kind", "frame", "unpadded"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Octets of a frame that we take, and send whatever the client would take.
FRAME_MAX = 16384

#: A block that consists of references to the table, an octet each: it leaves the table as it is.
REFERENCES = re.compile(rb"[\x80-\xfe]*")
#: Blocks that are remembered: those of one client are mostly the same.
KNOWN_MAX = 64

PSEUDO = frozenset((b":method", b":path", b":scheme", b":authority"))
#: Fields of a connection, which HTTP/2 does not have (8.2.2).
FORBIDDEN = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
UNFIT_NAME = re.compile(rb"[\x00-\x20A-Z\x7f-\xff:]")
UNFIT_VALUE = re.compile(rb"[\x00\r\n]")


class Kind(IntEnum):
    """Of frames (6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(IntEnum):
    """ACK of SETTINGS and PING is END_STREAM's bit."""

    END_STREAM = 1
    ACK = 1
    END_HEADERS = 4
    PADDED = 8
    PRIORITY = 32


class Code(IntEnum):
    """Of errors (7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Fault(Exception):
    """The client has done what ends the connection."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big") + payload


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS without its padding (6.1). Raises Fault."""
    if not flags & Flag.PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Fault(Code.PROTOCOL_ERROR)
    return payload[1 : len(payload) - payload[0]]


class Head(NamedTuple):
    """What a server wants of a request's fields."""

    method: str
    target: str
    #: Octets of all but the target, with 32 more for each (RFC 9113 6.5.2).
    size: int
    #: Those that were asked for.
    fields: dict[str, str]


class Heads:
    """Reads the blocks of one connection, in their order."""

    def __init__(self, octets_max: int, noted: frozenset[str]) -> None:
        """``octets_max``: of all fields of a request; ``noted``: those that the caller wants."""
        self._decoder = hpack.Decoder(octets_max)
        self._noted = noted
        self._known: dict[bytes, Head | None] = {}

    def read(self, block: bytes) -> Head | None:
        """The head, or None of a malformed one (RFC 9113 8.1.1). Raises Fault when the connection cannot go on."""
        if block in self._known:
            return self._known[block]
        try:
            head = self._head((bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True))
        except hpack.OversizedHeaderListError:
            raise Fault(Code.ENHANCE_YOUR_CALM) from None
        except hpack.HPACKError:
            raise Fault(Code.COMPRESSION_ERROR) from None
        if not REFERENCES.fullmatch(block):
            self._known.clear()  # the table may be another from here on
        elif len(self._known) < KNOWN_MAX:
            self._known[block] = head
        return head

    def _head(self, fields: Iterable[tuple[bytes, bytes]]) -> Head | None:
        pseudo: dict[bytes, bytes] = {}
        noted: dict[str, str] = {}
        size = 0
        regular = False
        for name, value in fields:
            size += len(name) + len(value) + 32
            if name.startswith(b":"):
                if regular or name in pseudo or name not in PSEUDO:
                    return None
                pseudo[name] = value
                continue
            regular = True
            if not name or UNFIT_NAME.search(name) or name in FORBIDDEN or (name == b"te" and value != b"trailers"):
                return None
            if UNFIT_VALUE.search(value):
                return None
            text = name.decode("ascii")
            if text in self._noted:
                noted[text] = value.decode("latin-1")
        method, target = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
        if not method or not target or b":scheme" not in pseudo or UNFIT_VALUE.search(target):
            return None
        return Head(method.decode("latin-1"), target.decode("latin-1"), size - len(target), noted)
