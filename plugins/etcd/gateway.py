"""etcd over the JSON gateway that its client port has (v3 API, https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/), blocking, with http.client."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

__all__ = ["EtcdError", "Gateway", "Watch"]

TIMEOUT = 5.0
#: Keys that are read at once.
PAGE = 5000
#: Keepalive of a watch's connection, which may be silent for hours: seconds before the first probe, between probes, and how many.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

Kv = tuple[bytes, bytes, int]


class EtcdError(Exception):
    """No endpoint gave an answer that will do."""


class Gateway:
    """The endpoints of one cluster. Not to be used by two threads at once, but for ``close``."""

    def __init__(self, endpoints: list[str], tls: ssl.SSLContext | None = None, user: str = "", password: str = "") -> None:
        self.endpoints = [self._endpoint(text, tls) for text in endpoints]
        self.user, self.password = user, password
        self.token = ""
        self.closed = False
        self.open: set[http.client.HTTPConnection] = set()

    @staticmethod
    def _endpoint(text: str, tls: ssl.SSLContext | None) -> tuple[str, int, ssl.SSLContext | None]:
        parts = urlsplit(text if "://" in text else f"{'https' if tls else 'http'}://{text}")
        context = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        return parts.hostname or "localhost", parts.port or 2379, context

    def close(self) -> None:
        """Ends what is under way."""
        self.closed = True
        for connection in list(self.open):
            _cut(connection)

    def authenticate(self) -> None:
        """Gets a token for the user. Raises EtcdError."""
        if self.user and self.password:
            self.token = ""
            self.token = self.call("/v3/auth/authenticate", {"name": self.user, "password": self.password}).get("token", "")

    def call(self, path: str, body: dict[str, Any], *, again: bool = True) -> dict[str, Any]:
        """One request and its answer, by the first endpoint that answers. Raises EtcdError."""
        failures = []
        for number, (host, port, context) in enumerate(list(self.endpoints)):
            try:
                with self._connection(host, port, context) as connection:
                    reply = self._post(connection, path, body)
                    data = reply.read()
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{host}:{port}: {error}")
                continue
            if number:  # the others did not answer: this one is asked first from now on
                self.endpoints = self.endpoints[number:] + self.endpoints[:number]
            if reply.status == 200:
                return dict(json.loads(data))
            message = _message(data)
            if again and self.token and ("token" in message or reply.status == 401):
                self.authenticate()
                return self.call(path, body, again=False)
            raise EtcdError(f"{host}:{port}: {message}")
        raise EtcdError("; ".join(failures) or "closed")

    def range(self, path: str) -> tuple[list[Kv], int]:
        """All keys below a path as of one revision, with value and lease; and that revision. Raises EtcdError."""
        found: list[Kv] = []
        key, end, revision = path.encode(), _end(path), 0
        while True:
            body = {"key": _coded(key), "range_end": _coded(end), "limit": PAGE, "revision": revision, "sort_order": "NONE"}
            answer = self.call("/v3/kv/range", body)
            revision = revision or int(answer["header"]["revision"])
            kvs = [_kv(kv) for kv in answer.get("kvs", ())]
            found += kvs
            if not answer.get("more") or not kvs:
                return found, revision
            key = kvs[-1][0] + b"\0"

    def time_to_live(self, lease: int) -> float:
        """Seconds that a lease has left; 0 where it has ended. Raises EtcdError."""
        return max(0.0, float(self.call("/v3/lease/timetolive", {"ID": str(lease)}).get("TTL", 0)))

    def watch(self, path: str, revision: int) -> Watch:
        """What changes below a path from a revision on. Raises EtcdError."""
        failures = []
        request = {"create_request": {"key": _coded(path.encode()), "range_end": _coded(_end(path)), "start_revision": str(revision)}}
        for host, port, context in self.endpoints:
            connection = _connect(host, port, context)
            self.open.add(connection)
            try:
                reply = self._post(connection, "/v3/watch", request)
                if reply.status != 200 or connection.sock is None:
                    raise EtcdError(_message(reply.read()))
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in KEEPALIVE:
                    connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
                connection.sock.settimeout(None)
                if self.closed:  # close() cuts what it finds: from here on, this
                    raise EtcdError("closed")
                return Watch(self, connection, reply)
            except (OSError, http.client.HTTPException, EtcdError) as error:
                failures.append(f"{host}:{port}: {error}")
                self._drop(connection)
        raise EtcdError("; ".join(failures))

    # ---- connections ----

    @contextlib.contextmanager
    def _connection(self, host: str, port: int, context: ssl.SSLContext | None) -> Iterator[http.client.HTTPConnection]:
        connection = _connect(host, port, context)
        self.open.add(connection)
        try:
            yield connection
        finally:
            self._drop(connection)

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self.open.discard(connection)
        connection.close()

    def _post(self, connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> http.client.HTTPResponse:
        if self.closed:
            raise EtcdError("closed")
        headers = {"Content-Type": "application/json"} | ({"Authorization": self.token} if self.token else {})
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse()


class Watch:
    """Events until the connection ends; then, or when the past was compacted away, EtcdError."""

    def __init__(self, gateway: Gateway, connection: http.client.HTTPConnection, reply: http.client.HTTPResponse) -> None:
        self.gateway, self.connection, self.reply = gateway, connection, reply

    def batches(self) -> Iterator[tuple[list[tuple[bool, Kv]], int]]:
        """Lists of (whether it is there, key) in the order in which they happened, and the revision behind them."""
        try:
            while True:
                line = self.reply.readline()
                if not line:
                    raise EtcdError("the watch has ended")
                message = json.loads(line)
                if "error" in message:
                    raise EtcdError(_message(line))
                result = message.get("result", {})
                if result.get("canceled"):
                    raise EtcdError(f"the watch was cancelled: {result.get('cancel_reason', 'compacted')}")
                revision = int(result.get("header", {}).get("revision", 0))
                yield [(event.get("type", "PUT") == "PUT", _kv(event["kv"])) for event in result.get("events", ())], revision
        except (OSError, http.client.HTTPException, ValueError, KeyError, AttributeError) as error:
            raise EtcdError(f"the watch has ended: {error}") from None
        finally:
            self.gateway._drop(self.connection)


def _connect(host: str, port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is not None:
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT)


def _cut(connection: http.client.HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


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
