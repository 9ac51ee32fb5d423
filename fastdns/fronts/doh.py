"""DNS over HTTPS (RFC 8484): its connections. The versions of HTTP are in `http1` and `http2`, what is asked and answered in `request`."""

from __future__ import annotations

import asyncio
import ssl

from fastdns.fronts import queries
from fastdns.fronts.http1 import Http1
from fastdns.fronts.http2 import Http2
from fastdns.fronts.request import HttpFront
from fastdns.fronts.stream import Connection, StreamFront
from fastdns.telemetry.metrics import Metric

__all__ = ["DohConnection", "DohFront"]


class DohFront(HttpFront, StreamFront):
    """Queries over HTTP/2 or HTTP/1.1; without a certificate HTTP/1.1 in clear text."""

    transport = queries.HTTPS
    title = "DoH"
    responses = Metric("coredns_dns_https_responses_total", "Counter of DoH responses per server and http status code.", "counter", ("server", "status"))
    alpn = ("h2", "http/1.1")
    directive = "https"
    defaults = {"max_connections": 200}  # noqa: RUF012

    def connection(self) -> DohConnection:
        return DohConnection(self)


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
