"""A collector of dnstap as tests need it: Frame Streams and protobuf read by hand."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT, until

CONTENT_TYPE = b"protobuf:dnstap.Dnstap"
TYPES = {5: "CLIENT_QUERY", 6: "CLIENT_RESPONSE", 7: "FORWARDER_QUERY", 8: "FORWARDER_RESPONSE"}
OUTER = {1: "identity", 2: "version", 3: "extra", 14: "message", 15: "type"}
INNER = {
    1: "type",
    2: "family",
    3: "protocol",
    4: "query_address",
    5: "response_address",
    6: "query_port",
    7: "response_port",
    8: "query_sec",
    9: "query_nsec",
    10: "query",
    12: "response_sec",
    13: "response_nsec",
    14: "response",
}


def varint(octets: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (octets[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not octets[at - 1] & 0x80:
            return value, at


def fields(octets: bytes, names: dict[int, str]) -> dict[str, Any]:
    """A protobuf message; each field at most once, and only known ones."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(octets):
        tag, at = varint(octets, at)
        name = names[tag >> 3]
        assert name not in found
        if tag & 7 == 0:
            found[name], at = varint(octets, at)
        elif tag & 7 == 5:
            found[name], at = struct.unpack_from("<I", octets, at)[0], at + 4
        else:
            assert tag & 7 == 2
            size, at = varint(octets, at)
            found[name], at = octets[at : at + size], at + size
    assert at == len(octets)
    return found


class Message(dict[str, Any]):
    """The fields of `Message`, by name, and those of `Dnstap` around it."""

    def __init__(self, frame: bytes) -> None:
        outer = fields(frame, OUTER)
        assert outer.pop("type") == 1
        super().__init__(fields(outer.pop("message"), INNER))
        self.outer = outer

    @property
    def kind(self) -> str:
        return TYPES[self["type"]]


def control(kind: int, content_type: bytes = b"") -> bytes:
    body = struct.pack(">I", kind) + (struct.pack(">II", 1, len(content_type)) + content_type if content_type else b"")
    return struct.pack(">II", 0, len(body)) + body


class Stream:
    """One connection: the handshake is done, and frames are read in a thread."""

    def __init__(self, connection: socket.socket, read: bool = True) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        #: STOP came, and was answered.
        self.stopped = threading.Event()
        #: The connection has ended.
        self.ended = threading.Event()
        connection.settimeout(LIMIT)
        assert self.control() == (4, CONTENT_TYPE)
        connection.sendall(control(1, CONTENT_TYPE))
        assert self.control() == (2, CONTENT_TYPE)
        if read:
            threading.Thread(target=self.run, daemon=True).start()

    def exactly(self, size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            part = self.connection.recv(size - len(octets))
            if not part:
                raise EOFError
            octets += part
        return octets

    def control(self, escaped: bool = False) -> tuple[int, bytes]:
        if not escaped:
            assert self.exactly(4) == bytes(4)
        body = self.exactly(struct.unpack(">I", self.exactly(4))[0])
        return struct.unpack(">I", body[:4])[0], body[12:]

    def run(self) -> None:
        try:
            while True:
                size = struct.unpack(">I", self.exactly(4))[0]
                if size:
                    self.frames.append(self.exactly(size))
                    continue
                assert self.control(escaped=True) == (3, b"")
                self.connection.sendall(control(5))
                self.stopped.set()
        except (EOFError, OSError):
            self.ended.set()

    @property
    def messages(self) -> list[Message]:
        return [Message(frame) for frame in list(self.frames)]

    def wait(self, count: int) -> list[Message]:
        """At least so many messages."""
        until(lambda: len(self.frames) >= count, f"{count} messages; there are {len(self.frames)}")
        return self.messages

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Receiver:
    """Listens on a unix socket (a path), or on a TCP port of 127.0.0.1."""

    def __init__(self, place: Path | int, context: ssl.SSLContext | None = None, read: bool = True) -> None:
        self.context = context
        self.read = read
        self.streams: list[Stream] = []
        if isinstance(place, Path):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.bind(str(place))
            self.socket.listen(8)
        else:
            self.socket = socket.create_server(("127.0.0.1", place))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            try:
                if self.context is not None:
                    connection = self.context.wrap_socket(connection, server_side=True)
                self.streams.append(Stream(connection, self.read))
            except (OSError, EOFError):
                connection.close()

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def stream(self, number: int = 0) -> Stream:
        until(lambda: len(self.streams) > number, f"connection {number}")
        return self.streams[number]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for stream in self.streams:
            stream.close()


@contextlib.contextmanager
def receiver(place: Path | int = 0, context: ssl.SSLContext | None = None, read: bool = True) -> Iterator[Receiver]:
    made = Receiver(place, context, read)
    try:
        yield made
    finally:
        made.close()
