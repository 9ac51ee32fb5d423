"""Client connections of coroutines on the control plane's loop: non-blocking sockets, with or without TLS, and the head of an HTTP/1.1 reply.

All connections of a client read into one buffer, so an idle connection has no buffer.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastdns.control.tasks import blocking, readable, sleep, writable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    Send = Callable[[bytes], Awaitable[None]]
    Receive = Callable[[int], Awaitable[bytes]]

__all__ = ["READ", "Connection", "HttpError", "Peer", "Unreachable", "parse_head"]

#: Seconds.
CONNECT_TIMEOUT = 3.0
HANDSHAKE_TIMEOUT = 10.0
SEND_TIMEOUT = 60.0

#: Octets of the buffer that all connections of a client share: a coroutine consumes what it has read before it awaits anything.
READ = 131072
#: Octets of the largest TLS record.
RECORD = 16384
#: Seconds to wait during a list, so that one read returns several objects: the server writes each object by itself.
GATHER = 0.002


class Unreachable(OSError):
    """The connection could not be made, or it broke. `refused`: the address has no listener."""

    def __init__(self, text: str, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class HttpError(ValueError):
    """The reply is not HTTP/1.1."""


@dataclass(frozen=True)
class Peer:
    """A server to connect to."""

    host: str
    port: int
    #: Prefix of error texts.
    dial: str
    #: Makes the TLS context for a connection; None: plain TCP.
    secure: Callable[[], ssl.SSLContext | None] | None = field(default=None, compare=False)
    #: Name that the certificate must have.
    name: str = ""
    #: Requests a tunnel from a proxy, whose address `host` is then. Its arguments are functions that send and receive octets. Raises OSError.
    tunnel: Callable[[Send, Receive], Awaitable[None]] | None = field(default=None, compare=False)
    #: Prefix of error texts of name resolution.
    lookup: str = "dial tcp"
    #: Distinguishes servers behind one proxy.
    key: object = None


class Connection:
    """A connection, with or without TLS."""

    def __init__(self, plain: socket.socket, buffer: bytearray) -> None:
        self.socket: socket.socket | ssl.SSLSocket = plain
        self.buffer = buffer
        self.tls = False
        self.used = time.monotonic()
        self.requests = 0
        self.peer: Peer | None = None
        self.context: ssl.SSLContext | None = None

    @classmethod
    async def connect(cls, peer: Peer, buffer: bytearray) -> Connection:
        """Connect to the first address of the host that accepts. Raises Unreachable."""
        try:
            found = await _resolve(peer.host, peer.port)
        except OSError as error:
            raise Unreachable(f"{peer.lookup}: lookup {peer.host}: {error.strerror or error}") from None
        failure: Unreachable | None = None
        for family, kind, protocol, _, where in found[:4]:
            plain = socket.socket(family, kind, protocol)
            made = cls(plain, buffer)
            made.peer = peer
            try:
                await made._open(where, peer.dial)
                if peer.tunnel is not None:
                    await made._tunnel(peer.tunnel, peer.dial)
                if peer.secure is not None:
                    await made._handshake(peer.secure, peer.name)
            except Unreachable as error:
                made.close()
                failure = error
                failure.refused &= peer.tunnel is None
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failure or Unreachable(f"{peer.lookup}: lookup {peer.host}: no such host")

    async def _open(self, where: object, dial: str) -> None:
        plain = self.socket
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Keep-alive: a peer that vanished is detected within a minute, also on a watch without events.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 40000)
        status = plain.connect_ex(where)  # type: ignore[arg-type]
        if status == errno.EINPROGRESS:
            if not await writable(plain.fileno(), CONNECT_TIMEOUT):
                raise Unreachable(f"{dial}: i/o timeout")
            status = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise Unreachable(f"{dial}: connect: {os.strerror(status).lower()}", status == errno.ECONNREFUSED)

    async def _tunnel(self, tunnel: Callable[[Send, Receive], Awaitable[None]], dial: str) -> None:
        until = time.monotonic() + HANDSHAKE_TIMEOUT

        async def receive(count: int) -> bytes:
            got = b""
            while len(got) < count:
                try:
                    piece = self.socket.recv(count - len(got))
                except BlockingIOError:
                    if not await readable(self.socket.fileno(), until - time.monotonic()):
                        raise OSError("i/o timeout") from None
                    continue
                if not piece:
                    raise OSError("EOF")
                got += piece
            return got

        try:
            await tunnel(self.send, receive)
        except OSError as error:
            raise Unreachable(f"{dial.replace(': dial tcp ', ': ')}: {error.strerror or error}") from None

    async def _handshake(self, secure: Callable[[], ssl.SSLContext | None], name: str) -> None:
        import ssl

        try:
            context = secure()
        except (OSError, ssl.SSLError) as error:
            raise Unreachable(f"tls: {error}") from None
        if context is None:
            raise Unreachable("tls: no certificates")
        self.context = context
        wrapped = context.wrap_socket(self.socket, server_hostname=name, do_handshake_on_connect=False)
        self.socket = wrapped
        self.tls = True
        until = time.monotonic() + HANDSHAKE_TIMEOUT
        while True:
            try:
                wrapped.do_handshake()
            except ssl.SSLWantReadError:
                ready = await readable(wrapped.fileno(), until - time.monotonic())
            except ssl.SSLWantWriteError:
                ready = await writable(wrapped.fileno(), until - time.monotonic())
            except (OSError, ValueError) as error:
                raise Unreachable(f"tls: {getattr(error, 'verify_message', '') or getattr(error, 'reason', '') or error}") from None
            else:
                return
            if not ready:
                raise Unreachable("net/http: TLS handshake timeout")

    async def send(self, data: bytes) -> None:
        """Send all octets. Raises Unreachable."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                ready = await writable(self.socket.fileno(), SEND_TIMEOUT)
            except OSError as error:
                if not self.tls or not _wants(error):
                    raise Unreachable(f"write: {(error.strerror or str(error)).lower()}") from None
                ready = await (writable if _wants(error) == "write" else readable)(self.socket.fileno(), SEND_TIMEOUT)
            else:
                continue
            if not ready:
                raise Unreachable("write: i/o timeout")

    async def receive(self, seconds: float | None, gather: bool = False) -> int:
        """Read into the shared buffer; returns the number of octets, 0 at the end. ``seconds``: timeout (None: no limit).

        The caller must consume the octets before it awaits anything. With ``gather`` it waits a moment before it reads when nothing is there, for
        fewer and larger reads. Raises Unreachable.
        """
        while True:
            try:
                return self._fill() if self.tls and gather else self.socket.recv_into(self.buffer)
            except BlockingIOError:
                wants = "read"
            except OSError as error:
                wants = _wants(error) if self.tls else ""
                if not wants:
                    raise Unreachable(f"read: {(error.strerror or str(error)).lower()}") from None
            if gather:
                gather = False
                await sleep(GATHER)
                continue
            ready = await (writable if wants == "write" else readable)(self.socket.fileno(), seconds)
            if not ready:
                raise Unreachable("read: i/o timeout")

    def _fill(self) -> int:
        """Read several TLS records: each is as small as the server's write."""
        view = memoryview(self.buffer)
        count = 0
        while count <= READ - RECORD:
            try:
                got = self.socket.recv_into(view[count:])
            except OSError as error:
                if not count or not _wants(error):
                    raise
                break
            if not got:
                break
            count += got
        return count

    def close(self) -> None:
        self.socket.close()


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers of a reply's head, names in lower case. Raises HttpError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not (code.isascii() and code.isdigit()):
        raise HttpError(f"malformed HTTP response {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError("malformed HTTP header")
        headers[name.strip().lower()] = value.strip()
    return int(code), headers


async def _resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    """The addresses of a host. A name is resolved on a thread of the pool. Raises OSError."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await blocking(functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))


def _wants(error: OSError) -> str:
    """The event that TLS needs before it continues: "read" or "write"; "" for any other error."""
    import ssl

    if isinstance(error, ssl.SSLWantReadError):
        return "read"
    return "write" if isinstance(error, ssl.SSLWantWriteError) else ""
