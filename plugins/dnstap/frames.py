"""Frame Streams: how a stream of dnstap messages begins and ends (https://farsightsec.github.io/fstrm)."""

from __future__ import annotations

import socket

__all__ = ["CONTENT_TYPE", "HandshakeError", "begin", "end"]

CONTENT_TYPE = b"protobuf:dnstap.Dnstap"

ACCEPT, START, STOP, READY, FINISH = 1, 2, 3, 4, 5
FIELD_CONTENT_TYPE = 1
#: Octets of a control frame that are read.
CONTROL_MAX = 512


class HandshakeError(OSError):
    """The other side speaks something else."""


def control(kind: int, content_type: bytes | None = None) -> bytes:
    """A control frame, its escape included."""
    fields = b"" if content_type is None else FIELD_CONTENT_TYPE.to_bytes(4, "big") + len(content_type).to_bytes(4, "big") + content_type
    return bytes(4) + (4 + len(fields)).to_bytes(4, "big") + kind.to_bytes(4, "big") + fields


def read_control(connection: socket.socket) -> tuple[int, list[bytes]]:
    """Kind and content types of the next control frame. Raises OSError."""
    head = _read(connection, 12)
    size = int.from_bytes(head[4:8], "big")
    if head[:4] != bytes(4) or not 4 <= size <= CONTROL_MAX:
        raise HandshakeError("no control frame of Frame Streams")
    rest = _read(connection, size - 4)
    types = []
    while rest:
        field, length = int.from_bytes(rest[:4], "big"), int.from_bytes(rest[4:8], "big")
        if len(rest) < 8 + length or field != FIELD_CONTENT_TYPE:
            raise HandshakeError("malformed control frame")
        types.append(rest[8 : 8 + length])
        rest = rest[8 + length :]
    return int.from_bytes(head[8:12], "big"), types


def begin(connection: socket.socket) -> None:
    """READY, ACCEPT, START: from now on data frames may be sent. Raises OSError."""
    connection.sendall(control(READY, CONTENT_TYPE))
    kind, types = read_control(connection)
    if kind != ACCEPT or (types and CONTENT_TYPE not in types):
        raise HandshakeError("content type is not accepted")
    connection.sendall(control(START, CONTENT_TYPE))


def end(connection: socket.socket, seconds: float) -> None:
    """STOP, and FINISH for so long. Raises OSError."""
    connection.settimeout(seconds)
    connection.sendall(control(STOP))
    while read_control(connection)[0] != FINISH:
        pass


def _read(connection: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size:
        part = connection.recv(size - len(octets))
        if not part:
            raise HandshakeError("EOF")
        octets += part
    return octets
