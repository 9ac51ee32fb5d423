"""Lists over HTTP: conditional requests, with bounds for time and size whatever the server does."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import http.client
import socket
import ssl
import threading
import time
import zlib
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

__all__ = ["SIZE_MOST", "Body", "FetchError", "Packer", "fetch", "shown"]

#: Octets of a list as it is read.
SIZE_MOST = 128 << 20
#: Seconds to connect, and without an octet of the reply.
STEP_SECONDS = 10.0
#: Seconds for a list in all.
WHOLE_SECONDS = 300.0
REDIRECTS = 5
MOVED = (301, 302, 303, 307, 308)
PIECE = 1 << 16


class FetchError(Exception):
    """There is no list. ``str()`` is the text for the log."""


class Body(NamedTuple):
    """A list as it is kept."""

    #: In gzip's format.
    packed: bytes
    #: Of the text.
    digest: bytes
    #: What a server calls this version.
    etag: str = ""
    modified: str = ""


class Packer:
    """Makes a `Body` of octets as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._pieces: list[bytes] = []
        self._pack = zlib.compressobj(4, zlib.DEFLATED, 31)

    def add(self, octets: bytes) -> None:
        """Raises FetchError for what is too large."""
        self.size += len(octets)
        if self.size > SIZE_MOST:
            raise FetchError(f"the list has more than {SIZE_MOST >> 20} MiB")
        self._digest.update(octets)
        self._pieces.append(self._pack.compress(octets))

    def body(self, etag: str = "", modified: str = "") -> Body:
        return Body(b"".join([*self._pieces, self._pack.flush()]), self._digest.digest(), etag, modified)


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch(url: str, etag: str = "", modified: str = "") -> Body | None:
    """The list at a URL; None: the server says that it is the version with this ETag or time. Raises FetchError."""
    until = time.monotonic() + WHOLE_SECONDS
    origin = urlsplit(url).netloc
    for _ in range(REDIRECTS + 1):
        parts = urlsplit(url)
        connection = _connection(parts)
        try:
            with _Deadline(connection, until) as deadline:
                connection.connect()
                deadline.socket = connection.sock
                connection.request("GET", _target(parts), headers=_fields(parts if parts.netloc == origin else None, etag, modified))
                reply = connection.getresponse()
                if reply.status == 304 and (etag or modified):
                    return None
                if reply.status == 200:
                    body = _read(reply)
                    if time.monotonic() >= until:  # a body without a length ends as the connection does
                        raise FetchError("cannot be fetched within the time for it")
                    return body
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            late = " within the time for it" if time.monotonic() >= until else ""
            raise FetchError(f"cannot be fetched{late}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if reply.status not in MOVED:
            raise FetchError(f"HTTP status {reply.status} {reply.reason}".rstrip())
        former, url = url, urljoin(url, reply.headers.get("Location", ""))
        if urlsplit(url).scheme not in ("http", "https") or (former.startswith("https:") and not url.startswith("https:")):
            raise FetchError(f"moved to {shown(url)}, which is not followed")
    raise FetchError(f"moved more than {REDIRECTS} times")


@functools.cache
def _context() -> ssl.SSLContext:
    """Made when it is first needed: the authorities that a system trusts take a megabyte."""
    return ssl.create_default_context()


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise FetchError(str(error)) from error
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=STEP_SECONDS, context=_context())
    return http.client.HTTPConnection(host, port, timeout=STEP_SECONDS)


def _target(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return f"{path}?{parts.query}" if parts.query else path


def _fields(parts: SplitResult | None, etag: str, modified: str) -> dict[str, str]:
    """Fields of a request; ``parts`` are those of a URL whose user and password may be sent."""
    fields = {"User-Agent": "fastdns", "Accept-Encoding": "gzip"}
    if etag:
        fields["If-None-Match"] = etag
    if modified:
        fields["If-Modified-Since"] = modified
    if parts is not None and parts.username is not None:
        word = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        fields["Authorization"] = "Basic " + base64.b64encode(word.encode()).decode()
    return fields


def _read(reply: http.client.HTTPResponse) -> Body:
    """Raises FetchError, and what reading raises."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise FetchError(f"encoding {encoding} is not known")
    packer = Packer()
    unpack = zlib.decompressobj(31) if encoding != "identity" else None
    while piece := reply.read(PIECE):
        while unpack is not None and piece:  # a small piece may become a large one
            packer.add(unpack.decompress(piece, PIECE))
            piece = unpack.unconsumed_tail
        packer.add(piece)
    if reply.length or (unpack is not None and not unpack.eof):
        raise FetchError("the list is cut short")
    return packer.body(reply.headers.get("ETag", ""), reply.headers.get("Last-Modified", ""))


class _Deadline:
    """Ends a connection when its time is over: a server that sends an octet now and then would keep it for ever."""

    def __init__(self, connection: http.client.HTTPConnection, until: float) -> None:
        self.connection = connection
        #: The connection's own reference goes when the reply is the last one.
        self.socket: socket.socket | None = None
        self.timer = threading.Timer(max(0.0, until - time.monotonic()), self._end)
        self.timer.daemon = True

    def _end(self) -> None:
        found = self.socket or self.connection.sock
        if found is not None:
            with contextlib.suppress(OSError):  # it has ended
                socket.socket.shutdown(found, socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self.timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.timer.cancel()
