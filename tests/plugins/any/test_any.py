"""any gives one HINFO record to queries of type ANY, and passes everything else on."""

from __future__ import annotations

import dns.flags
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.any import setup
from fastdns.setup import Controller

COREFILE = """
example.org:{port} {
    bind 127.0.0.1
    any
    hosts {
        192.0.2.1 www.example.org
    }
}
"""
SHORT = ' 8482 IN HINFO "ANY obsoleted" "See RFC 8482"'


@pytest.fixture
def server(serve):
    return serve(COREFILE)


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("name", ["www.example.org.", "None.Example.org.", "example.org."])
def test_any(server, name: str, tcp: bool) -> None:
    reply = server.query(name, "ANY", tcp=tcp, want_dnssec=True)
    assert [rrset.to_text() for rrset in reply.answer] == [name + SHORT]
    assert reply.authority == reply.additional == []
    assert reply.rcode() == dns.rcode.NOERROR
    assert dns.flags.to_text(reply.flags) == "QR RD"


def test_other_types_pass(server) -> None:
    assert server.answers("www.example.org.", "A") == ["192.0.2.1"]
    assert server.answers("www.example.org.", "AAAA") == []
    assert server.answers("www.example.org.", "HINFO") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("any x", "Wrong argument count or unexpected line ending after 'x'"),
        ("any {\n x\n}", "Unexpected token '{', expecting argument"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=f"Testfile:1 - Error during parsing: {message}"):
        setup(Controller.of(text))
