"""Queries out of files of dnstap messages (https://dnstap.info), which are Frame Streams of protobuf messages; and of any file with queries in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fastdns._wire import accept
from fastdns.bench.workload import Question, WorkloadError
from fastdns.bench.workloads.capture import read_capture

__all__ = ["read_recorded", "read_tap"]

QUERY, IN = 0, 1
#: The escape that control frames begin with, and so each file.
CONTROL = bytes(4)
CONTENT_TYPE = b"protobuf:dnstap.Dnstap"
FRAME_MAX = 1 << 20
#: Fields of `Dnstap` and `Message`, and types of messages with what clients ask.
MESSAGE, TYPE, QUERY_MESSAGE = 14, 1, 10
AUTH_QUERY, CLIENT_QUERY = 1, 5
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5


def read_recorded(path: str | Path, port: int = 53) -> Iterator[Question]:
    """The queries of a capture (pcap, pcapng: those to ``port``) or a dnstap file, in their order. WorkloadError when there is nothing to read."""
    try:
        with open(path, "rb") as file:
            is_tap = file.read(4) == CONTROL
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error
    yield from read_tap(path) if is_tap else read_capture(path, port)


def read_tap(path: str | Path) -> Iterator[Question]:
    """The queries of clients in a dnstap file. Others, and messages without their octets, are passed over. WorkloadError when there is nothing to read."""
    frames = found = 0
    try:
        with open(path, "rb") as file:
            for frame in _frames(file):
                frames += 1
                octets = _query(frame)
                acceptance, _, name, qtype, qclass = accept(octets) if octets else (-1, 0, None, 0, 0)
                if acceptance == QUERY and name is not None and qclass == IN:
                    found += 1
                    yield Question(name, qtype)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise WorkloadError(f"{path}: after message {frames}: {error}") from error
    if not found:
        raise WorkloadError(f"{path}: no queries of clients in {frames} messages")


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


def _query(frame: bytes) -> bytes:
    """The message of a client's query in a frame; empty: there is none. Raises ValueError."""
    for number, value in _fields(frame):
        if number == MESSAGE and isinstance(value, bytes):
            message = dict(_fields(value))
            octets = message.get(QUERY_MESSAGE)
            return octets if message.get(TYPE) in (AUTH_QUERY, CLIENT_QUERY) and isinstance(octets, bytes) else b""
    return b""


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
