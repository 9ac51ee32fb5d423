"""A server of HTTP/2 that says what a test wants said, frame by frame."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIES = 1, 1, 4, 8, 0x20
#: Settings.
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4
OK = b"\x88"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(name.to_bytes(2) + value.to_bytes(4) for name, value in pairs))


def response(stream: int, body: bytes, block: bytes = OK) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body)


class Session:
    """One connection: what has come on it."""

    def __init__(self, server: Web, connection: ssl.SSLSocket) -> None:
        self.server = server
        self.connection = connection
        self.bodies: dict[int, bytes] = {}
        #: Of whole queries, without an answer yet.
        self.open: set[int] = set()
        self.answered = 0

    def serve(self) -> None:
        with self.connection.makefile("rb") as stream:
            if stream.read(len(PREFACE)) != PREFACE:
                return
            self.send(self.server.settings)
            while head := stream.read(9):
                length = int.from_bytes(head[:3])
                kind, flags, number = head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF
                payload = stream.read(length)
                self.server.frames.append((kind, flags, number, payload))
                if (kind, flags) == (PING, ACK):
                    self.send(self.server.on_ping(self))
                if kind == DATA:
                    self.bodies[number] = self.bodies.get(number, b"") + payload
                    self.send(self.server.on_part(self, number, len(payload)))
                    if flags & END_STREAM:
                        self.open.add(number)
                        self.send(b"".join(self.server.script(self, number, self.bodies.pop(number))))

    def send(self, octets: bytes) -> None:
        piece = self.server.piece or len(octets) or 1
        for at in range(0, len(octets), piece):
            self.connection.sendall(octets[at : at + piece])


#: Of a connection, a stream and its query: frames.
Script = Callable[[Session, int, bytes], Iterable[bytes]]


class Web:
    """Serves connections, a thread each.

    ``on_part`` gives the window back that octets of a query have used, ``on_ping`` answers an acknowledgement; ``piece``: octets sent at a time, 0 all.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        script: Script,
        *,
        settings: bytes = settings(),
        on_part: Callable[[Session, int, int], bytes] = lambda session, stream, octets: frame(WINDOW_UPDATE, 0, 0, octets.to_bytes(4)),
        on_ping: Callable[[Session], bytes] = lambda session: b"",
        piece: int = 0,
    ) -> None:
        self.context, self.script, self.settings, self.on_part, self.on_ping, self.piece = context, script, settings, on_part, on_ping, piece
        self.sessions: list[Session] = []
        #: All that clients have said: kind, flags, stream, payload.
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self.socket.getsockname()[1]

    def accept(self) -> None:
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain: socket.socket) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self.context.wrap_socket(plain, server_side=True) as connection:
                self.sessions.append(Session(self, connection))
                self.sessions[-1].serve()
        except OSError:
            plain.close()

    def __enter__(self) -> Self:
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
