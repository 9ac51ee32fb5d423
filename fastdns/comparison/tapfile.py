"""Messages of clients out of dnstap files (https://dnstap.info), which are Frame Streams of protobuf messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fastdns.comparison.recorded import REBUILT, Recorded, RecordingError

__all__ = ["read_tap"]

CONTENT_TYPE = b"protobuf:dnstap.Dnstap"
FRAME_MAX = 1 << 20
#: Fields of `Dnstap` and `Message`, and types of messages with what clients ask and get.
EXTRA, MESSAGE, TYPE, QUERY_ADDRESS, QUERY_MESSAGE, RESPONSE_MESSAGE = 3, 14, 1, 4, 10, 14
QUERIES, RESPONSES = (1, 5), (2, 6)  # AUTH_, CLIENT_
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5


def read_tap(path: str | Path) -> Iterator[Recorded]:
    """The queries of clients in a dnstap file, and the replies. Other messages, those without octets and rebuilt replies are passed over.

    Raises RecordingError.
    """
    frames = 0
    try:
        with open(path, "rb") as file:
            for frame in _frames(file):
                frames += 1
                message = _message(frame)
                if message is not None:
                    yield message
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordingError(f"{path}: after message {frames}: {error}") from error


def _frames(file: BinaryIO) -> Iterator[bytes]:
    """Data frames up to the end of the file, or to where it breaks off. Raises ValueError."""
    while len(head := file.read(4)) == 4:
        (size,) = struct.unpack("!I", head)
        control = size == 0
        if control:
            size = int.from_bytes(file.read(4))
        if size > FRAME_MAX:
            raise ValueError("a frame is too long")
        frame = file.read(size)
        if len(frame) < size:
            return
        if not control:
            yield frame
        elif len(frame) > 4 and CONTENT_TYPE not in frame:
            raise ValueError("the frames are not of dnstap")


def _message(frame: bytes) -> Recorded | None:
    """The client's message in a frame; None: there is none. Raises ValueError."""
    outer = dict(_fields(frame))
    value, extra = outer.get(MESSAGE), outer.get(EXTRA)
    if not isinstance(value, bytes):
        return None
    fields = dict(_fields(value))
    is_reply = fields.get(TYPE) in RESPONSES
    octets, client = fields.get(RESPONSE_MESSAGE if is_reply else QUERY_MESSAGE), fields.get(QUERY_ADDRESS, b"")
    if not (is_reply or fields.get(TYPE) in QUERIES) or not isinstance(octets, bytes) or not octets:
        return None
    if is_reply and isinstance(extra, bytes) and extra.startswith(REBUILT):
        return None  # without the records that the answer had
    return Recorded(octets, is_reply, client if isinstance(client, bytes) and len(client) in (4, 16) else b"")


def _fields(octets: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a protobuf message. Raises ValueError."""
    at = 0
    while at < len(octets):
        tag, at = _varint(octets, at)
        value: int | bytes
        if tag & 7 == VARINT:
            value, at = _varint(octets, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(tag & 7, 0)
            if tag & 7 == DELIMITED:
                size, at = _varint(octets, at)
            elif not size:
                raise ValueError("malformed protobuf")
            value, at = octets[at : at + size], at + size
        if at > len(octets):
            raise ValueError("malformed protobuf")
        yield tag >> 3, value


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i, octet in enumerate(octets[at : at + 10]):
        value |= (octet & 0x7F) << 7 * i
        if octet < 0x80:
            return value, at + i + 1
    raise ValueError("malformed protobuf")
