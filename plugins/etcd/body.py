"""The octets of an HTTP/1.1 reply (RFC 9112), taken apart as they come."""

from __future__ import annotations

from fastdns.control.connection import HttpError, parse_head

__all__ = ["Body"]

HEAD_MAX = 65536
#: Octets of the line in front of a chunk.
LINE_MAX = 4096


class Body:
    """Reads head and body from what is fed to it. All but `take` raise HttpError."""

    def __init__(self) -> None:
        #: 0 until the head is whole.
        self.status = 0
        self.ended = False
        self._data = bytearray()
        self._body: list[bytes] = []
        self._chunked = False
        #: Octets that the body, or its chunk, still has; None: it ends with the connection.
        self._left: int | None = 0
        #: Lines that follow the body: those of the trailer section.
        self._trailer = False

    def feed(self, data: bytes) -> None:
        self._data += data
        if not self.status and not self._head():
            return
        while self._data and not self.ended:
            if self._chunked and not self._left:
                if not self._line():
                    return
                continue
            piece = bytes(self._data if self._left is None else self._data[: self._left])
            del self._data[: len(piece)]
            self._body.append(piece)
            if self._left is not None:
                self._left -= len(piece)
                self.ended = not self._left and not self._chunked

    def end(self) -> None:
        """The connection has ended."""
        if not self.status or (not self.ended and (self._chunked or self._left is not None)):
            raise HttpError("unexpected EOF")
        self.ended = True

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        taken, self._body = b"".join(self._body), []
        return taken

    def _head(self) -> bool:
        """Read the head; False: it is not whole."""
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > HEAD_MAX:
                raise HttpError("a head of more than 64 KiB")
            return False
        status, headers = parse_head(bytes(self._data[:end]))
        del self._data[: end + 4]
        if status < 200:
            return self._head()
        self.status = status
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length", "")
        if self._chunked:
            self._left = 0
        elif not length:
            self._left = None
        elif length.isascii() and length.isdigit() and len(length) < 18:
            self._left = int(length)
            self.ended = not self._left
        else:
            raise HttpError("malformed Content-Length")
        return True

    def _line(self) -> bool:
        """Read the line in front of a chunk, or one of the trailer section; False: it is not whole."""
        end = self._data.find(b"\r\n")
        if end < 0:
            if len(self._data) > LINE_MAX:
                raise HttpError("malformed chunked encoding")
            return False
        line = bytes(self._data[:end]).partition(b";")[0].strip()
        del self._data[: end + 2]
        if self._trailer:
            self.ended = not line
        elif line:  # an empty one is the end of the chunk before
            try:
                self._left = int(line, 16)
            except ValueError:
                raise HttpError("malformed chunked encoding") from None
            if self._left < 0:
                raise HttpError("malformed chunked encoding")
            self._trailer = not self._left
        return True
