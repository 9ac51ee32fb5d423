"""HTTP/1.1 to an API server (RFC 9112) on the control side's loop: GET only, bodies streamed into a decoder, connections kept for the next request."""

from __future__ import annotations

import errno
import functools
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdns import COREDNS_VERSION
from fastdns.control import Signal, blocking, readable, sleep, writable
from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.stream import Stream, StreamError, api_error
from fastdns.plugins.kubernetes.watch import metrics

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from fastdns.plugins.kubernetes.watch.connection import Address, Api
    from fastdns.plugins.kubernetes.watch.proxy import Proxy

#: Seconds.
CONNECT_TIMEOUT = 3.0
HANDSHAKE_TIMEOUT = 10.0
HEAD_TIMEOUT = 60.0
#: Without an octet, of a reply that is no list.
BODY_TIMEOUT = 10.0
#: How long an unused connection is kept.
IDLE = 20.0

#: Octets read at once, into one buffer for all connections of a client.
READ = 131072
#: Octets of the largest TLS record.
RECORD = 16384
HEAD_MAX = 65536

#: Seconds in which the server may get ahead while a list comes: it writes each object by itself.
GATHER = 0.002
#: Seconds without an octet after which a list is given up.
STALLED = 30.0
#: A list slower than so many octets in so many seconds is given up.
SLOW_OCTETS = 65536
SLOW_SECONDS = 60.0

USER_AGENT = f"CoreDNS/{COREDNS_VERSION} git_commit:fastdns ({sys.platform}/{os.uname().machine}/{sys.implementation.name}-{sys.version.split()[0]})"


class Unreachable(OSError):
    """No connection to the server, or it broke; `refused` when nobody listened."""

    def __init__(self, text: str, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True)
class Limits:
    """What the apiserver_* properties set: requests a second, how many at once after a pause, and how many may wait for a reply at once; 0
    takes client-go's default (5, 10, no limit)."""

    qps: float = 0.0
    burst: int = 0
    inflight: int = 0


class Limiter:
    """A token bucket in front of requests."""

    def __init__(self, limits: Limits) -> None:
        self.qps = limits.qps or 5.0
        self.burst = float(limits.burst or 10)
        self.inflight = limits.inflight
        self.tokens = self.burst
        self.seen = time.monotonic()
        self.running = 0
        self.freed = Signal()

    async def enter(self) -> float:
        """Wait for a turn; returns the seconds that the bucket took."""
        while self.inflight and self.running >= self.inflight:
            await sleep(None, self.freed)
        self.running += 1
        now = time.monotonic()
        self.tokens = min(self.burst, self.tokens + (now - self.seen) * self.qps) - 1.0
        self.seen = now
        delay = max(0.0, -self.tokens / self.qps)
        if delay:
            try:
                await sleep(delay)
            except BaseException:
                self.leave()
                raise
        return delay

    def leave(self) -> None:
        """The request has its reply's head, or none."""
        self.running -= 1
        self.freed.wake()


class Socket:
    """A connection, with or without TLS."""

    def __init__(self, plain: socket.socket, buffer: bytearray) -> None:
        self.socket: socket.socket | ssl.SSLSocket = plain
        self.buffer = buffer
        self.tls = False
        self.used = time.monotonic()
        self.requests = 0
        self.address: Address | None = None
        self.proxy: Proxy | None = None
        self.context: ssl.SSLContext | None = None

    @classmethod
    async def connect(cls, api: Api, buffer: bytearray) -> Socket:
        """Unreachable when that fails."""
        address, proxy = api.address, api.proxy
        peer, dial = (proxy.address, "proxyconnect tcp: dial tcp") if proxy else (address, "dial tcp")
        try:
            found = await _resolve(peer.host, peer.port)
        except OSError as error:
            raise Unreachable(f"{dial}: lookup {peer.host}: {error.strerror or error}") from None
        failure: Unreachable | None = None
        for family, kind, protocol, _, where in found[:4]:
            plain = socket.socket(family, kind, protocol)
            made = cls(plain, buffer)
            made.address, made.proxy = address, proxy
            try:
                await made._open(where, f"{dial} {peer.dial}")
                if proxy is not None:
                    await made._tunnel(proxy, address)
                if address.tls:
                    await made._handshake(api)
            except Unreachable as error:
                made.close()
                failure = error
                failure.refused &= proxy is None
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failure or Unreachable(f"{dial}: lookup {peer.host}: no such host")

    async def _tunnel(self, proxy: Proxy, target: Address) -> None:
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
            await proxy.tunnel(self.send, receive, target)
        except OSError as error:
            raise Unreachable(f"proxyconnect tcp: {proxy.address.dial}: {error.strerror or error}") from None

    async def _open(self, where: object, dial: str) -> None:
        plain = self.socket
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer that is gone without a word is noticed within a minute, also by a watch where nothing happens.
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

    async def _handshake(self, api: Api) -> None:
        import ssl

        try:
            context = api.context()
        except (OSError, ssl.SSLError) as error:
            raise Unreachable(f"tls: {error}") from None
        if context is None:
            raise Unreachable("tls: no certificates")
        self.context = context
        wrapped = context.wrap_socket(self.socket, server_hostname=api.server_name(), do_handshake_on_connect=False)
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
        """All of the octets. Unreachable."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                ready = await writable(self.socket.fileno(), HEAD_TIMEOUT)
            except OSError as error:
                if not self.tls or not _wants(error):
                    raise Unreachable(f"write: {(error.strerror or str(error)).lower()}") from None
                ready = await (writable if _wants(error) == "write" else readable)(self.socket.fileno(), HEAD_TIMEOUT)
            else:
                continue
            if not ready:
                raise Unreachable("write: i/o timeout")

    async def receive(self, seconds: float, gather: bool = False) -> int:
        """Octets read into the shared buffer, 0 at the end. They must be used before anything else is awaited. Unreachable.

        With ``gather`` the peer may get ahead when nothing is there, for fewer and larger reads.
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
        """Several TLS records at once, for they are as small as the server's writes."""
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


async def _resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    """The addresses of a host; only a name takes a thread to ask for. OSError."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await blocking(functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))


def _wants(error: OSError) -> str:
    """Whether TLS must read or write before it goes on."""
    import ssl

    if isinstance(error, ssl.SSLWantReadError):
        return "read"
    return "write" if isinstance(error, ssl.SSLWantWriteError) else ""


class Reply:
    """A reply whose head has arrived."""

    def __init__(self, client: Client, connection: Socket, status: int, headers: dict[str, str], rest: bytes) -> None:
        self.client = client
        self.connection = connection
        self.status = status
        self.headers = headers
        self.rest = rest
        self.kept = False

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def length(self) -> int:
        """Octets of the body; -1 for chunked, -2 for one that ends with the connection. StreamError."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return -1
        text = self.headers.get("content-length", "")
        if not text:
            return -2
        if not (text.isascii() and text.isdigit() and len(text) < 18):
            raise StreamError("malformed Content-Length")
        return int(text)

    async def body(self, stream: Stream, seconds: float, paced: Callable[[], bool], progress: Callable[[], None] | None = None) -> bool:
        """Feed the body to a decoder until it is over; `seconds` may pass without an octet. True when it came whole.

        While ``paced()``, a body that stalls or drips is given up; ``progress`` is called behind each piece. The connection is kept for the
        next request or closed. Raises what the decoder raises, and Unreachable.
        """
        try:
            if await self._feed(stream, seconds, paced, progress):
                self.kept = True
                self.client.keep(self.connection)
        finally:
            self.done()
        return stream.end()

    async def _feed(self, stream: Stream, seconds: float, paced: Callable[[], bool], progress: Callable[[], None] | None) -> bool:
        """Read to the end; True when the connection can be used again."""
        ended = stream.feed(self.rest, len(self.rest))
        self.rest = b""
        if progress is not None:
            progress()
        begun, octets, run = time.monotonic(), 0, 0
        while not ended:
            list_goes_on = paced()
            count = await self.connection.receive(min(seconds, STALLED) if list_goes_on else seconds, list_goes_on)
            if not count:
                return False
            ended = stream.feed(self.connection.buffer, count)
            if progress is not None:
                progress()
            octets += count
            run += count
            if run > 16 * READ:  # other watches have their turn
                run = 0
                await sleep(0)
            if time.monotonic() - begun > SLOW_SECONDS:
                if octets < SLOW_OCTETS and paced():
                    raise StreamError(f"a list of {octets} octets in {SLOW_SECONDS:.0f} s")
                begun, octets = time.monotonic(), 0
        return self.headers.get("connection", "").lower() != "close"

    async def failure(self, stream: Stream) -> Exception:
        """The ApiError of a reply with an error status."""
        try:
            stream.begin_raw(self.length)
            await self.body(stream, BODY_TIMEOUT, lambda: True)
            body = stream.take_raw()
        except (StreamError, Unreachable):
            body = b""
        finally:
            self.done()
        error = api_error(self.status, self.content_type, body)
        error.code = self.status
        after = self.headers.get("retry-after", "")
        if not error.retry_after and after.isascii() and after.isdigit():
            error.retry_after = min(int(after), 3600)
        return error

    def done(self) -> None:
        """Close the connection if it is not kept. Again does no harm."""
        if not self.kept:
            self.connection.close()


class Client:
    """Requests to one API server."""

    def __init__(self, api: Api, limits: Limits, buffer: bytearray | None = None) -> None:
        self.api = api
        self.limiter = Limiter(limits)
        self.buffer = buffer if buffer is not None else bytearray(READ)
        self.idle: list[Socket] = []
        self.closed = False

    def keep(self, connection: Socket) -> None:
        """A connection whose reply was read whole waits for the next request."""
        connection.used = time.monotonic()
        if self.closed:
            connection.close()
        else:
            self.idle.append(connection)

    def close(self) -> None:
        """Close what is idle, and keep nothing any more."""
        self.closed = True
        while self.idle:
            self.idle.pop().close()

    async def get(self, path: str, accept: str, limited: bool = True) -> Reply:
        """Ask, and wait for the head of the reply. Unreachable, StreamError."""
        host = metrics.label(self.api.address.netloc)
        waited = await self.limiter.enter() if limited else 0.0
        metrics.limiter_duration.observe(("GET", host), waited)
        begun = time.monotonic()
        try:
            await self.api.prepare()
            reply = await self._ask(path, accept)
        except BaseException as error:
            if isinstance(error, Exception):
                metrics.requests.add(("<error>", "GET", host))
            raise
        finally:
            if limited:
                self.limiter.leave()
        metrics.request_duration.observe(("GET", host), time.monotonic() - begun)
        metrics.requests.add((str(reply.status), "GET", host))
        return reply

    async def _ask(self, path: str, accept: str) -> Reply:
        address = self.api.address
        authorization = self.api.authorization()
        lines = [
            f"GET {address.prefix}{path} HTTP/1.1",
            f"Host: {address.netloc}",
            f"User-Agent: {USER_AGENT}",
            f"Accept: {accept}",
        ]
        if authorization:
            lines.append(f"Authorization: {authorization}")
        return await self._send(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))

    async def exchange(self, method: str, target: str, headers: list[str], body: bytes = b"") -> tuple[int, bytes]:
        """One request outside of limits and metrics: status and whole body of its reply. Unreachable, StreamError."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.api.address.netloc}", f"User-Agent: {USER_AGENT}", *headers, f"Content-Length: {len(body)}"]
        reply = await self._send("\r\n".join([*lines, "", ""]).encode() + body)
        stream = Stream(Sink(), 0)
        stream.begin_raw(reply.length)
        if not await reply.body(stream, BODY_TIMEOUT, lambda: True):
            raise StreamError("the reply is cut short")
        return reply.status, stream.take_raw()

    async def _send(self, request: bytes) -> Reply:
        """Unreachable, StreamError."""
        while True:
            connection = await self._connection()
            try:
                await connection.send(request)
                connection.requests += 1
                return await self._head(connection)
            except Unreachable:
                connection.close()
                if connection.requests <= 1:
                    raise
                # The server had closed a connection that we kept; another one may do.
            except BaseException:
                connection.close()
                raise

    async def _connection(self) -> Socket:
        now = time.monotonic()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.used < IDLE and self._is_current(connection):
                return connection
            connection.close()
        return await Socket.connect(self.api, self.buffer)

    def _is_current(self, connection: Socket) -> bool:
        """Whether a new connection would go to the same address with the same certificates."""
        try:
            return (connection.address, connection.proxy) == (self.api.address, self.api.proxy) and (
                not connection.tls or connection.context is self.api.context()
            )
        except OSError:
            return False

    async def _head(self, connection: Socket) -> Reply:
        """Read until the head is whole; what came behind it is kept for the body."""
        got = b""
        until = time.monotonic() + HEAD_TIMEOUT
        while True:
            count = await connection.receive(max(0.0, until - time.monotonic()))
            if not count:
                raise Unreachable("EOF")
            got += memoryview(self.buffer)[:count]
            end = got.find(b"\r\n\r\n")
            if end < 0:
                if len(got) > HEAD_MAX:
                    raise StreamError("a head of more than 64 KiB")
                continue
            status, headers = parse_head(got[:end])
            got = got[end + 4 :]
            if status >= 200:
                return Reply(self, connection, status, headers, got)


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, names in lower case. StreamError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or len(code) != 3 or not (code.isascii() and code.isdigit()):
        raise StreamError(f"malformed HTTP response {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise StreamError("malformed HTTP header")
        headers[name.strip().lower()] = value.strip()
    return int(code), headers
