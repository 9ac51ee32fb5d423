"""A client for DNS over HTTPS (RFC 8484) on HTTP/1.1, as small as that allows: connections are kept, each takes one question at a time."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time

from fastdns.plugins.forward.options import Options
from fastdns.plugins.forward.tls import connect, probe_request
from fastdns.plugins.forward.upstreams import Target

__all__ = ["HttpsClient"]

#: Seconds for a whole exchange, connecting included.
TIMEOUT = 2.0
PROBE_TIMEOUT = 1.0
HEAD_MAX = 65536
BODY_MAX = 65536
KEPT_MAX = 32


class Connection:
    """One connection to the server; `keep` says whether it can be used again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.opened = self.used = time.monotonic()
        self.keep = True

    async def exchange(self, request: bytes) -> bytes:
        """Sends a request, gives the response's body. Raises EOFError when the server closed before it answered, ValueError for what is no HTTP."""
        self.writer.write(request)
        try:
            line = await self.reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            raise EOFError from None
        if not line.startswith(b"HTTP/1."):
            raise ValueError("https: malformed response")
        self.keep = line.startswith(b"HTTP/1.1")
        headers = await self._headers()
        connection = headers.get(b"connection", b"").lower()
        self.keep = b"keep-alive" in connection or (self.keep and b"close" not in connection)
        if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
            return await self._chunks()
        if b"content-length" in headers:
            size = headers[b"content-length"]
            if not size.isdigit() or int(size) > BODY_MAX:
                raise ValueError("https: body too long")
            return await self.reader.readexactly(int(size))
        self.keep = False
        return await self.reader.read(BODY_MAX)

    async def _headers(self) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {}
        total = 0
        while True:
            line = await self.reader.readuntil(b"\n")
            total += len(line)
            if total > HEAD_MAX:
                raise ValueError("https: header too long")
            if not line.strip():
                return headers
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip()

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            try:
                size = int((await self.reader.readuntil(b"\n")).partition(b";")[0], 16)
            except ValueError:
                raise ValueError("https: malformed chunk") from None
            if size < 0 or len(body) + size > BODY_MAX:
                raise ValueError("https: body too long")
            if size == 0:
                await self._headers()
                return body
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)

    def close(self) -> None:
        """Ends it."""
        self.writer.close()


class HttpsClient:
    """Asks one upstream at ``https://ADDRESS:PORT/dns-query``."""

    def __init__(self, target: Target, options: Options, context: ssl.SSLContext) -> None:
        self.target = target
        self.options = options
        self.context = context
        self.kept: list[Connection] = []

    async def ask(self, request: bytes) -> bytes:
        """The reply, within two seconds. Raises OSError, EOFError, ValueError."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._ask(request)
        except TimeoutError:
            raise OSError(f'Post "https://{self.target.text}/dns-query": context deadline exceeded') from None

    async def probe(self) -> None:
        """The health check's question, by POST."""
        async with asyncio.timeout(PROBE_TIMEOUT):
            connection = await self._connect()
            try:
                _check(await connection.exchange(self._post(probe_request(self.options))))
            finally:
                connection.close()

    def close(self) -> None:
        """Closes the connections that are kept."""
        for connection in self.kept:
            connection.close()
        self.kept.clear()

    async def _ask(self, request: bytes) -> bytes:
        message = self._get(request) if self.options.doh_method == "GET" else self._post(request)
        connection = self._take()
        if connection is not None:
            try:
                return await self._exchange(connection, message)
            except EOFError:
                pass  # the server had closed it
        return await self._exchange(await self._connect(), message)

    async def _exchange(self, connection: Connection, message: bytes) -> bytes:
        done = False
        try:
            reply = _check(await connection.exchange(message))
            done = True
        except asyncio.IncompleteReadError:
            raise ValueError("unexpected EOF") from None
        except asyncio.LimitOverrunError:
            raise ValueError("https: header too long") from None
        finally:
            if done and connection.keep and len(self.kept) < (self.options.max_idle or KEPT_MAX):
                connection.used = time.monotonic()
                self.kept.append(connection)
            else:
                connection.close()
        return reply

    def _take(self) -> Connection | None:
        """The kept connection used last; those that are too old close."""
        now = time.monotonic()
        expire, max_age = self.options.expire / 1e9, self.options.max_age / 1e9
        while self.kept and (now - self.kept[0].used > expire or self.kept[0].reader.at_eof()):
            self.kept.pop(0).close()
        while self.kept:
            connection = self.kept.pop()
            if not (max_age and now - connection.opened > max_age) and not connection.reader.at_eof():
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        return Connection(*await connect(self.target, self.options, self.context, TIMEOUT))

    def _post(self, request: bytes) -> bytes:
        return self._head("POST", "") + f"Content-Type: application/dns-message\r\nContent-Length: {len(request)}\r\n\r\n".encode() + request

    def _get(self, request: bytes) -> bytes:
        return self._head("GET", "?dns=" + base64.urlsafe_b64encode(request).rstrip(b"=").decode()) + b"\r\n"

    def _head(self, method: str, query: str) -> bytes:
        host = self.target.text if self.target.port != 443 else self.target.text.rpartition(":")[0]
        return f"{method} /dns-query{query} HTTP/1.1\r\nHost: {host}\r\nAccept: application/dns-message\r\nUser-Agent: fastdns\r\n".encode()


def _check(body: bytes) -> bytes:
    """A DNS message at least by its length; its id is 0, as the request's was (RFC 8484 4.1)."""
    if len(body) < 12:
        raise ValueError("dns: overflow unpacking uint16")
    return b"\0\0" + body[2:]
