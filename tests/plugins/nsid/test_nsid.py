"""nsid identifies the server to those who ask for it, and to nobody else."""

from __future__ import annotations

import socket

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.nsid import parse
from fastdns.setup import Controller
from fastdns.testing import Upstream

NSID = dns.edns.OptionType.NSID
ASKED = dns.edns.GenericOption(NSID, b"")

COREFILE = """
a.test:{port} {
    bind 127.0.0.1
    nsid Use The Force
    cache
    hosts {
        192.0.2.1 www.a.test
    }
}
b.test:{port} {
    bind 127.0.0.1
    nsid
    whoami
}
"""


def identifiers(reply: dns.message.Message) -> list[bytes]:
    return [bytes(option.to_wire()) for option in reply.options if option.otype == NSID]


@pytest.fixture
def server(serve):
    return serve(COREFILE)


@pytest.mark.parametrize("tcp", [False, True])
def test_who_asks_is_told(server, tcp: bool) -> None:
    for _ in range(2):  # the second from the cache
        reply = server.query("www.a.test.", use_edns=0, options=[ASKED], tcp=tcp)
        assert identifiers(reply) == [b"Use The Force"]
        assert not reply.ednsflags & dns.flags.DO
        assert len(reply.answer) == 1


def test_the_default_is_the_name_of_the_host(server) -> None:
    assert identifiers(server.query("x.b.test.", use_edns=0, options=[ASKED])) == [socket.gethostname().encode()]


def test_who_does_not_ask_is_not_told(server) -> None:
    reply = server.query("www.a.test.", use_edns=0, options=[dns.edns.GenericOption(65001, b"\x00\x03\x00\x00")])
    assert (reply.options, reply.ednsflags & dns.flags.DO) == ((), 0)
    assert server.query("www.a.test.").edns == -1


def test_what_no_plugin_wrote(server) -> None:
    reply = server.query("none.a.test.", use_edns=0, options=[ASKED], want_dnssec=True)
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert identifiers(reply) == [b""]


def test_among_other_options_of_an_upstream(serve) -> None:
    """An NSID of the upstream's becomes ours where it stands; an option that was not asked for is dropped."""

    def answer(query: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(query)
        reply.use_edns(0, options=[dns.edns.GenericOption(65001, b"x"), dns.edns.GenericOption(NSID, b"them"), dns.edns.EDEOption(3)])
        return reply

    with Upstream(answer) as upstream:
        server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n    nsid us\n    forward . {upstream.address}\n}}\n")
        reply = server.query("example.org.", use_edns=0, options=[ASKED])
        assert [int(option.otype) for option in reply.options] == [3, 15]
        assert identifiers(reply) == [b"us"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("nsid", socket.gethostname().encode()),
        ("nsid hello", b"hello"),
        ('nsid a "b  c"', b"a b  c"),
        ("nsid " + "x" * 2048, b"x" * 2048),
    ],
)
def test_arguments(text: str, wanted: bytes) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nsid a\nnsid b", "this plugin can only be used once per Server Block"),
        ("nsid " + "x" * 2049, "Testfile:1 - Error during parsing: identifier longer than 2048 octets"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=message):
        parse(Controller.of(text))
