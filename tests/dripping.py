"""An HTTP server that sends its replies an octet at a time, or without end."""

from __future__ import annotations

import socket
import threading
import time

__all__ = ["Dripping"]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#: By path: how a reply begins, and what it goes on with for ever.
REPLIES = {
    b"/head": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    b"/body": (HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
    b"/chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    b"/endless": (HEAD + b"Content-Length: 1000000000\r\n\r\n", b" " * 65536),
}
#: Seconds between two small pieces.
PAUSE = 0.02


class Dripping:
    """Answers as the path of a request says, or as one path always."""

    def __init__(self, path: bytes = b"") -> None:
        self.path = path
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        #: Connections that clients have closed while they were answered.
        self.closed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                while request := connection.recv(65536):
                    self._reply(connection, self.path or request.split()[1])
            except OSError:
                self.closed += 1

    def _reply(self, connection: socket.socket, path: bytes) -> None:
        if path == b"/good":
            connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n[]")
            return
        if path == b"/throttled":
            connection.sendall(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 50\r\nContent-Length: 0\r\n\r\n")
            return
        begin, piece = REPLIES[path]
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            if len(piece) < 100:
                time.sleep(PAUSE)
