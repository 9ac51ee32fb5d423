"""DNS over HTTPS (RFC 8484): what a request asks, and what its reply looks like. The versions of HTTP are in `http1` and `http2`."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fastdns import _front
from fastdns._doh import max_age
from fastdns._metrics import Metric
from fastdns.log import Log
from fastdns.server.fronts.http1 import Http1
from fastdns.server.fronts.http2 import Http2
from fastdns.server.fronts.response import ENCODED_MAX, HEAD_TOO_LARGE, INVALID, NO_RESPONSE, NOT_FOUND, Response
from fastdns.server.fronts.stream import Connection, StreamFront

__all__ = ["DohConnection", "DohFront", "request_message"]

log = Log()

PATH = "/dns-query"
MEDIA_TYPE = "application/dns-message"
MESSAGE_MAX = 65535
ENCODED = re.compile(r"[A-Za-z0-9_-]*")

RESPONSES = Metric("coredns_dns_https_responses_total", "Counter of DoH responses per server and http status code.", "counter", ("server", "status"))


def request_message(method: str, target: str, body: bytes | None) -> bytes:
    """The DNS message of a request for `PATH`; ``body`` None: it was too large. Raises ValueError."""
    if method == "POST":
        if body is None:
            raise ValueError("http: request body too large")
        return body[:MESSAGE_MAX]
    if method != "GET":
        raise ValueError(f"method not allowed: {method}")
    try:
        values = parse_qs(urlsplit(target).query, keep_blank_values=True, max_num_fields=100).get("dns", [])
    except ValueError:
        raise ValueError("too many query parameters") from None
    if not values:
        raise ValueError("no 'dns' query parameter found")
    if len(values) != 1:
        raise ValueError("multiple 'dns' query values found")
    text = values[0]
    if len(text) > ENCODED_MAX:
        raise ValueError("dns query too large")
    text = text.replace("\r", "").replace("\n", "")
    if not ENCODED.fullmatch(text) or len(text) % 4 == 1:
        raise ValueError("illegal base64 data")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:MESSAGE_MAX]


def is_for_us(target: str) -> bool:
    try:
        return unquote(urlsplit(target).path) == PATH
    except ValueError:
        return False


class DohFront(StreamFront):
    """Queries over HTTP/2 or HTTP/1.1; without a certificate HTTP/1.1 in clear text."""

    transport = _front.HTTPS
    alpn = ("h2", "http/1.1")
    directive = "https"
    defaults = {"max_connections": 200}  # noqa: RUF012

    def connection(self) -> DohConnection:
        return DohConnection(self)

    def answer(
        self, client: tuple[Any, ...], local: tuple[Any, ...], method: str, target: str, body: bytes | None, respond: Callable[[Response], None]
    ) -> asyncio.Future[bytes | None] | None:
        """What a request gets goes to ``respond``, at once or later; then the future is returned, to be cancelled when the client goes."""

        def count(response: Response) -> None:
            RESPONSES.add((self.settings.address, str(response.status)))
            respond(response)

        if not is_for_us(target):
            count(NOT_FOUND)
            return None
        try:
            message = request_message(method, target, body)
        except ValueError as reason:
            log.debug(f"DoH request could not be parsed: {reason}")
            count(INVALID)
            return None
        future = self.gate.ask(message, client, local)

        def done(replied: asyncio.Future[bytes | None]) -> None:
            if not replied.cancelled():
                count(_response(replied))

        future.add_done_callback(done)
        return future

    def refuse_head(self) -> Response:
        """For a head that is too large."""
        RESPONSES.add((self.settings.address, str(HEAD_TOO_LARGE.status)))
        return HEAD_TOO_LARGE


def _response(replied: asyncio.Future[bytes | None]) -> Response:
    if (failure := replied.exception()) is not None:
        log.debug(f"DoH request could not be parsed: {failure}")
        return INVALID
    reply = replied.result()
    if reply is None:
        return NO_RESPONSE
    return Response(
        200, (("content-type", MEDIA_TYPE), ("cache-control", f"max-age={max_age(reply)}"), ("content-length", str(len(reply)))), reply
    )


class DohConnection(Connection):
    """A client's connection: what its version of HTTP reads and writes, and the time that it may take."""

    front: DohFront

    def __init__(self, front: DohFront) -> None:
        super().__init__(front)
        self.began = front.loop.time()
        self.blocked = False
        self.closing = False
        self.ended = False
        #: A request has been answered.
        self.asked = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.http: Http1 | Http2 = Http2(self) if tls is not None and tls.selected_alpn_protocol() == "h2" else Http1(self)

    def data_received(self, data: bytes) -> None:
        if not self.closing:
            self.http.receive(data)

    def eof_received(self) -> bool:
        self.ended = True
        self.http.finish()
        return self.transport.get_extra_info("ssl_object") is None  # what was asked is answered first

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self.wait(None)
        self.http.lose()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self.blocked = True
        self.transport.pause_reading()
        self.wait(self.front.settings.write_timeout)

    def resume_writing(self) -> None:
        self.blocked = False
        self.wait(self.front.settings.idle_timeout)
        if not self.closing:
            self.transport.resume_reading()
            self.http.go_on()

    def finish(self) -> None:
        self.http.finish()

    def close(self) -> None:
        """What was written leaves first, for as long as that may take."""
        if not self.closing:
            self.closing = True
            self.transport.close()
            self.wait(self.front.settings.write_timeout)

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def wait(self, seconds: float | None) -> None:
        """So long the client may take for what comes next, counted from now; None: for ever."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self.front.loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.blocked or self.closing:
            self.transport.abort()
        else:
            self.http.time_is_up()
