"""Transports whose clients connect, beside DNS over TCP: what the Corefile may say of them, and their metric."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.telemetry.metrics import Metric

__all__ = ["STREAMS", "Stream", "doh_cells"]

DOH_RESPONSES = Metric("coredns_dns_https_responses_total", "Counter of DoH responses per server and http status code.", "counter", ("server", "status"))
#: In the order of DohStatus (engine/http/doh.pxd).
STATUSES = ("200", "400", "404", "431", "500")


class Stream(NamedTuple):
    """A transport of the workers whose clients connect, beside DNS over TCP."""

    #: Protocols of ALPN, and whether a client that names others alone is refused.
    alpn: tuple[str, ...]
    strict: bool
    #: The directive that sets its limits: a dict in ``controller.config.values[DIRECTIVE]``.
    directive: str = ""
    #: The limits that the directive does not set.
    max_connections: int = 0
    max_streams: int = 0


#: By scheme of the Corefile.
STREAMS = {
    "tls": Stream((), False),
    "https": Stream(("h2", "http/1.1"), True, "https", 200, 250),
    "grpc": Stream(("h2",), True, "grpc_server", 200, 256),
}


def doh_cells(address: str) -> int:
    """The cells of an address's DoH responses by status; see `fastdns.engine.service.Service`. MemoryError."""
    return DOH_RESPONSES.table((address, STATUSES))
