"""Transports whose clients connect, beside DNS over TCP: what the Corefile may say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.engine.quic.listener import QuicListener
    from fastdns.tls.credentials import Credentials

__all__ = ["QUIC", "STREAMS", "QuicRenewal", "QuicSettings", "Stream", "doh_cells"]

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
    "tls": Stream(("dot",), False),
    "https": Stream(("h2", "http/1.1"), True, "https", 200, 250),
    "grpc": Stream(("h2",), True, "grpc_server", 200, 256),
}

#: Transports over QUIC, and what the server says at its start of one without `tls`.
QUIC = {"quic": "ListenPacket: quic: tls.Config not set", "https3": "DoH3 requires TLS, no TLS config found"}


class QuicSettings(NamedTuple):
    """What a configuration says of a QUIC address. It is replaced whole by a reload."""

    #: The label of metrics and errors, such as ``quic://:853``.
    address: str
    tls: Credentials | None
    #: Seconds.
    idle_timeout: float
    limits: Mapping[str, int]


class QuicRenewal:
    """Renews what a QUIC address has made of its certificate's files."""

    def __init__(self, listener: QuicListener, settings: QuicSettings) -> None:
        self.listener = listener
        self.settings = settings

    def renew(self) -> None:
        """Read the files again, for connections from now on. OSError, ValueError: everything stays."""
        self.listener.offer(self.settings)


def doh_cells(address: str) -> int:
    """The cells of an address's DoH responses by status; see `fastdns.engine.service.Service`. MemoryError."""
    return DOH_RESPONSES.table((address, STATUSES))
