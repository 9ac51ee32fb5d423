"""Certificates of clients: the same on every transport (CoreDNS's and Go's five modes)."""

from __future__ import annotations

from collections.abc import Callable

import dns.rcode
import pytest

from tests.certificates import write_certificates
from tests.server import Server
from tests.tls.client import ask

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


#: By scheme: whether a query gets its answer. What the end of a connection raises is False.
TRANSPORTS: dict[str, Callable[[Server, str], bool]] = {"tls": over_tls}


@pytest.mark.parametrize("scheme", TRANSPORTS)
@pytest.mark.parametrize("mode", SERVED)
def test_who_is_served(serve: Callable[..., Server], scheme: str, mode: str) -> None:
    server = serve(COREFILE.replace("SCHEME", scheme).replace("MODE", mode), prepare=write_certificates)

    def is_served(certificate: str) -> bool:
        try:
            return TRANSPORTS[scheme](server, certificate)
        except (EOFError, OSError):
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
