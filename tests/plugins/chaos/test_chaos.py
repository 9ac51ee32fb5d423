"""chaos answers for the server in class CH."""

from __future__ import annotations

import socket

import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import pytest

from fastdns import __version__
from fastdns.corefile import CorefileError
from fastdns.plugins.chaos import AUTHORS, parse, txt_rdata
from fastdns.setup import Controller
from tests.server import Server

COREFILE = """
.:{port} {
    bind 127.0.0.1
    chaos "Fast 1.0" alice bob@example.org alice
    hosts {
        192.0.2.1 www.example.org
    }
}
bind:{port2} server:{port2} {
    bind 127.0.0.1
    chaos
}
.:{port3} {
    bind 127.0.0.1
    whoami
}
"""


def ask(server: Server, name: str, rdtype: str = "TXT", rdclass: str = "CH", port: str = "port", tcp: bool = False) -> dns.message.Message:
    request = dns.message.make_query(name, rdtype, rdclass)
    return server.send(request, port=server.ports[port], tcp=tcp)


def texts(reply: dns.message.Message) -> list[str]:
    assert all((rrset.rdclass, rrset.rdtype, rrset.ttl) == (dns.rdataclass.CH, dns.rdatatype.TXT, 0) for rrset in reply.answer)
    return [rdata.strings[0].decode() for rrset in reply.answer for rdata in rrset]


@pytest.fixture
def server(serve):
    return serve(COREFILE)


def test_names(server) -> None:
    host = socket.gethostname()
    default = f"fastdns-{__version__}"
    for name, port, wanted in (
        ("version.bind.", "port", ["Fast 1.0"]),
        ("VERSION.Bind.", "port", ["Fast 1.0"]),
        ("version.server.", "port", ["Fast 1.0"]),
        ("hostname.bind.", "port", [host]),
        ("id.server.", "port", [host]),
        ("version.bind.", "port2", [default]),
        ("version.server.", "port2", [default]),
        ("authors.bind.", "port2", AUTHORS),
    ):
        for tcp in (False, True):
            reply = ask(server, name, port=port, tcp=tcp)
            assert texts(reply) == wanted
            assert [rrset.name.to_text() for rrset in reply.answer] == [name]
            assert dns.flags.to_text(reply.flags) == "QR RD"
            assert reply.rcode() == dns.rcode.NOERROR


def test_authors_come_in_any_order(server) -> None:
    orders = {tuple(texts(ask(server, "authors.bind."))) for _ in range(200)}
    assert orders == {("alice", "bob@example.org"), ("bob@example.org", "alice")}


@pytest.mark.parametrize(
    ("name", "rdtype", "rdclass"),
    [
        ("version.bind.", "A", "CH"),
        ("version.bind.", "ANY", "CH"),
        ("version.bind.", "TXT", "IN"),
        ("version.bind.", "TXT", "HS"),
        ("other.bind.", "TXT", "CH"),
        ("authors.server.", "TXT", "CH"),
        ("bind.", "TXT", "CH"),
        ("x.version.bind.", "TXT", "CH"),
    ],
)
def test_all_else_passes(server, name: str, rdtype: str, rdclass: str) -> None:
    assert ask(server, name, rdtype, rdclass).rcode() == dns.rcode.SERVFAIL


def test_class_in_is_served_beside(server) -> None:
    assert server.answers("www.example.org.") == ["192.0.2.1"]


def test_other_listeners_refuse_the_class(server) -> None:
    assert ask(server, "version.bind.", port="port3").rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("chaos", (f"fastdns-{__version__}", AUTHORS)),
        ("chaos v3", ("v3", AUTHORS)),
        ("chaos v3 b a b", ("v3", ["a", "b"])),
        ("chaos v3 a\nchaos v4 b", ("v3", ["a"])),
    ],
)
def test_arguments(text: str, wanted: tuple[str, list[str]]) -> None:
    assert parse(Controller.of(text)) == wanted


def test_errors() -> None:
    with pytest.raises(CorefileError, match="Testfile:2 - Error during parsing: unknown property 'foo'"):
        parse(Controller.of("chaos v3 {\n foo\n}"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", b"\0"),
        ("a b", b"\3a b"),
        (r"a\"\\\066", b'\4a"\\B'),
        ("end\\", b"\3end"),
        ("x" * 300, b"\xff" + b"x" * 255),
        (r"\255" * 300, b"\xff" + b"\xff" * 255),
    ],
)
def test_strings(text: str, wanted: bytes) -> None:
    assert txt_rdata(text) == wanted
