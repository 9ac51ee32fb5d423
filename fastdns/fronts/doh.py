"""DNS over HTTPS (RFC 8484): its front end. The versions of HTTP are in `http1` and `http2`, what is asked and answered in `request`."""

from __future__ import annotations

import asyncio
import ssl

from fastdns.fronts import queries
from fastdns.fronts.http1 import Http1
from fastdns.fronts.http2 import Http2
from fastdns.fronts.http_connection import HttpConnection, HttpStreamFront
from fastdns.telemetry.metrics import Metric

__all__ = ["DohFront"]


class DohFront(HttpStreamFront):
    """Queries over HTTP/2 or HTTP/1.1; without a certificate HTTP/1.1 in clear text."""

    transport = queries.HTTPS
    title = "DoH"
    responses = Metric("coredns_dns_https_responses_total", "Counter of DoH responses per server and http status code.", "counter", ("server", "status"))
    alpn = ("h2", "http/1.1")
    directive = "https"
    defaults = {"max_connections": 200}  # noqa: RUF012

    def connection(self) -> DohConnection:
        return DohConnection(self)


class DohConnection(HttpConnection):
    """A client's connection, in the version of HTTP that its handshake has named."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.http = Http2(self) if tls is not None and tls.selected_alpn_protocol() == "h2" else Http1(self)
