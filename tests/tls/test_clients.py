"""Certificates of clients: the same on every transport (CoreDNS's and Go's five modes)."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from contextlib import closing

import dns.message
import dns.rcode
import grpc
import pytest

from tests.certificates import client_context, write_certificates
from tests.grpc_client import Client
from tests.server import Server
from tests.tls.client import ask
from tests.waiting import REPLY

COREFILE = "SCHEME://.:{port} {\n tls server.pem server.key ca.pem {\n client_auth MODE\n }\n whoami\n}"

#: A client without a certificate, with one that nobody but itself has signed, with one of the CA: which of them is served.
SERVED = {
    "nocert": {"", "stranger", "client"},
    "request": {"", "stranger", "client"},
    "require": {"stranger", "client"},
    "verify_if_given": {"", "client"},
    "require_and_verify": {"client"},
}


def over_tls(server: Server, certificate: str) -> bool:
    return ask(server, certificate=certificate).rcode() == dns.rcode.NOERROR


def over_https(server: Server, certificate: str, alpn: str = "http/1.1") -> bool:
    context = client_context(server.folder, certificate, (alpn,))
    with closing(http.client.HTTPSConnection("127.0.0.1", server.port, timeout=REPLY, context=context)) as connection:
        connection.request("POST", "/dns-query", dns.message.make_query("a.test.", "A").to_wire(), {"content-type": "application/dns-message"})
        return connection.getresponse().status == 200


def over_grpc(server: Server, certificate: str) -> bool:
    pair = [(server.folder / f"{certificate}{suffix}").read_bytes() for suffix in (".key", ".pem")] if certificate else [None, None]
    credentials = grpc.ssl_channel_credentials((server.folder / "ca.pem").read_bytes(), *pair)
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "server.test")]
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, options) as channel:
        try:
            Client(channel).query("a.test.")
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return False
        return True


#: By scheme: whether a query gets its answer. What the end of a connection raises is False. QUIC's are in tests/server/test_doq.py.
TRANSPORTS: dict[str, Callable[[Server, str], bool]] = {"tls": over_tls, "https": over_https, "grpc": over_grpc}


@pytest.mark.parametrize("scheme", TRANSPORTS)
@pytest.mark.parametrize("mode", SERVED)
def test_who_is_served(serve: Callable[..., Server], scheme: str, mode: str) -> None:
    server = serve(COREFILE.replace("SCHEME", scheme).replace("MODE", mode), prepare=write_certificates)

    def is_served(certificate: str) -> bool:
        try:
            return TRANSPORTS[scheme](server, certificate)
        except (EOFError, OSError, http.client.HTTPException):
            return False

    assert {certificate for certificate in ("", "stranger", "client") if is_served(certificate)} == SERVED[mode]


@pytest.mark.parametrize("mode", ["verify_if_given", "require_and_verify"])
def test_the_system_s_authorities(serve: Callable[..., Server], mode: str) -> None:
    """Without a CA file those of the machine, which SSL_CERT_FILE names here."""
    corefile = "tls://.:{port} {\n tls server.pem server.key {\n client_auth " + mode + "\n }\n whoami\n}"
    server = serve(corefile, prepare=write_certificates, env={"SSL_CERT_FILE": "ca.pem"})
    assert over_tls(server, "client")
    with pytest.raises((EOFError, OSError)):
        over_tls(server, "stranger")
