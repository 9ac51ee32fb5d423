"""etcd over the JSON gateway that its client port has (v3 API, https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/): coroutines."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

from fastdns.control.connection import READ, Connection, HttpError, Peer
from fastdns.plugins.etcd.body import Body

__all__ = ["EtcdAwayError", "EtcdError", "Gateway"]

TIMEOUT = 5.0
#: Seconds for a call, and for a list of all its pages, in whatever pieces the replies come.
CALL_SECONDS = 60.0
LIST_SECONDS = 300.0
#: Octets of a reply, of a message of a watch, and of all values of a list.
REPLY_MAX = 128 << 20
LIST_MAX = 512 << 20
#: Keys that are read at once.
PAGE = 5000

Kv = tuple[bytes, bytes, int]


class EtcdError(Exception):
    """No endpoint gave an answer that will do."""


class EtcdAwayError(EtcdError):
    """No endpoint can be reached."""


class Gateway:
    """The endpoints of one cluster. All coroutines on one event loop."""

    def __init__(self, endpoints: list[str], tls: ssl.SSLContext | None = None, user: str = "", password: str = "") -> None:
        self.endpoints = [self._endpoint(text, tls) for text in endpoints]
        self.user, self.password = user, password
        self.token = ""
        self.buffer = bytearray(READ)

    @staticmethod
    def _endpoint(text: str, tls: ssl.SSLContext | None) -> Peer:
        parts = urlsplit(text if "://" in text else f"{'https' if tls else 'http'}://{text}")
        host = parts.hostname or "localhost"
        if parts.scheme != "https":
            return Peer(host, parts.port or 2379, "dial tcp")
        context = tls or ssl.create_default_context()
        return Peer(host, parts.port or 2379, "dial tcp", lambda: context, host)

    async def authenticate(self) -> None:
        """Gets a token for the user. Raises EtcdError."""
        if self.user and self.password:
            self.token = ""
            self.token = (await self.call("/v3/auth/authenticate", {"name": self.user, "password": self.password})).get("token", "")

    async def call(self, path: str, body: dict[str, Any], *, again: bool = True) -> dict[str, Any]:
        """One request and its answer, by the first endpoint that answers. Raises EtcdError, and EtcdAwayError where none answers."""
        failures = []
        for peer in list(self.endpoints):
            try:
                with _Reply(self, peer) as reply:
                    async with _within(CALL_SECONDS):
                        await reply.ask(path, body)
                        data = await reply.whole()
                answer = dict(json.loads(data)) if reply.status == 200 else {}
            except (OSError, ValueError) as error:
                failures.append(f"{peer.host}:{peer.port}: {error}")
                continue
            if failures:  # the others did not answer: this one is asked first from now on
                self._prefer(peer)
            if reply.status == 200:
                return answer
            message = _message(data)
            if again and self.token and ("token" in message or reply.status == 401):
                await self.authenticate()
                return await self.call(path, body, again=False)
            raise EtcdError(f"{peer.host}:{peer.port}: {message}")
        raise EtcdAwayError("; ".join(failures))

    def _prefer(self, peer: Peer) -> None:
        at = self.endpoints.index(peer)
        self.endpoints = self.endpoints[at:] + self.endpoints[:at]

    async def range(self, path: str) -> tuple[list[Kv], int]:
        """All keys below a path as of one revision, with value and lease; and that revision. Raises EtcdError."""
        try:
            async with _within(LIST_SECONDS):
                return await self._pages(path)
        except TimeoutError as error:
            raise EtcdError(f"the list of {path}: {error}") from None

    async def _pages(self, path: str) -> tuple[list[Kv], int]:
        found: list[Kv] = []
        octets = 0
        key, end, revision = path.encode(), _end(path), 0
        while True:
            body = {"key": _coded(key), "range_end": _coded(end), "limit": PAGE, "revision": revision, "sort_order": "NONE"}
            answer = await self.call("/v3/kv/range", body)
            revision = revision or int(answer["header"]["revision"])
            kvs = [_kv(kv) for kv in answer.get("kvs", ())]
            found += kvs
            octets += sum(len(name) + len(value) for name, value, _ in kvs)
            if octets > LIST_MAX:
                raise EtcdError(f"the list of {path} has more than {LIST_MAX} octets")
            if not answer.get("more") or not kvs:
                return found, revision
            key = kvs[-1][0] + b"\0"

    async def time_to_live(self, lease: int) -> float:
        """Seconds that a lease has left; 0 where it has ended. Raises EtcdError."""
        return max(0.0, float((await self.call("/v3/lease/timetolive", {"ID": str(lease)})).get("TTL", 0)))

    async def watch(self, path: str, revision: int, take: Callable[[list[tuple[bool, Kv]]], Awaitable[object]]) -> NoReturn:
        """Yield what changes below a path from a revision on: lists of (whether it is there, key) in the order in which they happened.

        Raises EtcdError when the connection ends, or the past was compacted away; and what ``take`` raises.
        """
        failures = []
        request = {"create_request": {"key": _coded(path.encode()), "range_end": _coded(_end(path)), "start_revision": str(revision)}}
        for peer in self.endpoints:
            with _Reply(self, peer) as reply:
                try:
                    async with _within(CALL_SECONDS):
                        await reply.ask("/v3/watch", request)
                        if reply.status != 200:
                            raise EtcdError(_message(await reply.whole()))
                except (OSError, HttpError, EtcdError) as error:
                    failures.append(f"{peer.host}:{peer.port}: {error}")
                    continue
                while True:
                    events = await _next_events(reply)
                    if events:
                        await take(events)
        raise EtcdError("; ".join(failures))


@asynccontextmanager
async def _within(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError, with a text, if the body takes longer."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"it took longer than {seconds:g} s") from None
        raise error


async def _next_events(reply: _Reply) -> list[tuple[bool, Kv]]:
    """Of the next message of a watch. Raises EtcdError when the connection has ended."""
    try:
        line = await reply.line()
        if not line:
            raise EtcdError("the watch has ended")
        return _events(line)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise EtcdError(f"the watch has ended: {error}") from None


def _events(line: bytes) -> list[tuple[bool, Kv]]:
    """Of one message of a watch. Raises EtcdError when it says that the watch ends, and ValueError, KeyError and AttributeError for what is no message."""
    message = json.loads(line)
    if "error" in message:
        raise EtcdError(_message(line))
    result = message.get("result", {})
    if result.get("canceled"):
        raise EtcdError(f"the watch was cancelled: {result.get('cancel_reason', 'compacted')}")
    return [(event.get("type", "PUT") == "PUT", _kv(event["kv"])) for event in result.get("events", ())]


class _Reply:
    """A request on a connection of its own, and the reply; closed at the end of ``with``."""

    def __init__(self, gateway: Gateway, peer: Peer) -> None:
        self.gateway, self.peer = gateway, peer
        self.connection: Connection | None = None
        self.status = 0
        self.body = Body()
        self.lines: deque[bytes] = deque()
        #: Of a line that has not ended.
        self.part: list[bytes] = []
        #: Octets that have come since the last line, or since the request.
        self.octets = 0

    def __enter__(self) -> _Reply:
        return self

    def __exit__(self, *_: object) -> None:
        if self.connection is not None:
            self.connection.close()

    async def ask(self, path: str, body: dict[str, Any]) -> None:
        """Connect, send the request, and wait for the head of the reply. Raises Unreachable and HttpError."""
        gateway, peer = self.gateway, self.peer
        self.connection = await Connection.connect(peer, gateway.buffer)
        text = json.dumps(body).encode()
        host = f"[{peer.host}]" if ":" in peer.host else peer.host
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {host}:{peer.port}",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            f"Content-Length: {len(text)}",
        ]
        if gateway.token:
            lines.append(f"Authorization: {gateway.token}")
        await self.connection.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + text)
        while not self.body.status:
            await self._receive(TIMEOUT)
        self.status = self.body.status

    async def whole(self) -> bytes:
        """The body. Raises Unreachable and HttpError."""
        while not self.body.ended:
            await self._receive(TIMEOUT)
        return self.body.take()

    async def line(self) -> bytes:
        """The next line of a body that comes over hours, b"" at its end. Raises Unreachable and HttpError."""
        while not self.lines:
            first, *others = self.body.take().split(b"\n")
            self.part.append(first)
            if others:
                self.octets = len(others[-1])
                self.lines += [b"".join(self.part), *others[:-1]]
                self.part = others[-1:]
            elif self.body.ended:
                return b""
            else:
                await self._receive(None)
        return self.lines.popleft()

    async def _receive(self, seconds: float | None) -> None:
        """What comes next, of head or body; ``seconds`` may pass without an octet."""
        connection = self.connection
        count = await connection.receive(seconds) if connection is not None else 0
        self.octets += count
        if self.octets > REPLY_MAX:
            raise HttpError(f"a reply of more than {REPLY_MAX} octets")
        if count:
            self.body.feed(bytes(memoryview(self.gateway.buffer)[:count]))
        else:
            self.body.end()


def _kv(kv: dict[str, Any]) -> Kv:
    return base64.b64decode(kv["key"]), base64.b64decode(kv.get("value", "")), int(kv.get("lease", 0))


def _coded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _end(path: str) -> bytes:
    """What follows everything that begins with the path, which ends with a slash."""
    octets = path.encode()
    return octets[:-1] + bytes([octets[-1] + 1])


def _message(data: bytes) -> str:
    """The text of an error."""
    try:
        found = json.loads(data)
        error = found.get("error", found)
        return str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        return data[:100].decode("utf-8", "replace").strip()
