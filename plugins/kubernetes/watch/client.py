"""HTTP/1.1 to an API server (RFC 9112) on the control side's loop: GET only, bodies streamed into a decoder, connections kept for the next request."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from fastdns import COREDNS_VERSION
from fastdns.control import Signal, sleep
from fastdns.control.connection import READ, Connection, HttpError, Peer, Unreachable, parse_head
from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.stream import Stream, StreamError, api_error
from fastdns.plugins.kubernetes.watch import metrics
from fastdns.plugins.kubernetes.watch.origin import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdns.plugins.kubernetes.watch.connection import Api

#: How long an unused connection is kept.
IDLE = 20.0
#: Seconds without an octet, of a reply that is no list.
BODY_TIMEOUT = 10.0
#: Seconds that a reply's head has to come.
HEAD_TIMEOUT = 60.0
HEAD_MAX = 65536
#: Seconds without an octet after which a list is given up.
STALLED = 30.0
#: A list slower than so many octets in so many seconds is given up.
SLOW_OCTETS = 65536
SLOW_SECONDS = 60.0

USER_AGENT = f"CoreDNS/{COREDNS_VERSION} git_commit:fastdns ({sys.platform}/{os.uname().machine}/{sys.implementation.name}-{sys.version.split()[0]})"


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


class Reply:
    """A reply whose head has arrived."""

    def __init__(self, client: Client, connection: Connection, status: int, headers: dict[str, str], rest: bytes) -> None:
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
        error = api_error(self.status, self.content_type, await self.text(stream))
        error.code = self.status
        after = self.headers.get("retry-after", "")
        if not error.retry_after and after.isascii() and after.isdigit():
            error.retry_after = min(int(after), 3600)
        return error

    async def text(self, stream: Stream) -> bytes:
        """The body, of which nothing is decoded; empty where it is long or does not come whole."""
        try:
            stream.begin_raw(self.length)
            await self.body(stream, BODY_TIMEOUT, lambda: True)
            return stream.take_raw()
        except (StreamError, Unreachable):
            return b""
        finally:
            self.done()

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
        self.idle: list[Connection] = []
        self.closed = False

    def keep(self, connection: Connection) -> None:
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

    async def _connection(self) -> Connection:
        now = time.monotonic()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.used < IDLE and self._is_current(connection):
                return connection
            connection.close()
        return await Connection.connect(self._peer(), self.buffer)

    def _peer(self) -> Peer:
        address, proxy = self.api.address, self.api.proxy
        secure = self.api.context if address.tls else None
        if proxy is None:
            return Peer(address.host, address.port, f"dial tcp {address.dial}", secure, self.api.server_name())
        dial = f"proxyconnect tcp: dial tcp {proxy.address.dial}"
        tunnel = partial(proxy.tunnel, target=address)
        return Peer(proxy.address.host, proxy.address.port, dial, secure, self.api.server_name(), tunnel, "proxyconnect tcp: dial tcp", address)

    def _is_current(self, connection: Connection) -> bool:
        """Whether a new connection would go to the same address with the same certificates."""
        try:
            return connection.peer == self._peer() and (not connection.tls or connection.context is self.api.context())
        except OSError:
            return False

    async def _head(self, connection: Connection) -> Reply:
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
            try:
                status, headers = parse_head(got[:end])
            except HttpError as error:
                raise StreamError(str(error)) from None
            got = got[end + 4 :]
            if status >= 200:
                return Reply(self, connection, status, headers, got)
