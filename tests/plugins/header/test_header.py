"""header: flags that are set and cleared, on the way down and up."""

from __future__ import annotations

from collections.abc import Callable

import dns.flags
import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.header import Rules, parse
from fastdns.setup import Controller
from tests.plugins.cache.scripted import running
from tests.server import Server

AA, RA, RD = 0x0400, 0x0080, 0x0100


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("header {\n response set ra AA\n}", (Rules(), Rules(set=RA | AA))),
        ("header {\n Query Clear RD\n response set rd\n}", (Rules(clear=RD), Rules(set=RD))),
        ("header {\n response set aa\n response clear aa ra\n}", (Rules(), Rules(clear=AA | RA))),
        ("header {\n response clear aa\n response set aa\n}", (Rules(), Rules(set=AA))),
        ("header\nheader {\n query set aa\n}\nheader {\n nonsense\n}", (Rules(set=AA), Rules())),
    ],
)
def test_rules(text: str, wanted: tuple[Rules, Rules]) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("header", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'header'"),
        ("header {\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '}'"),
        ("header {\n reply set aa\n}", "setting up rule: invalid selector=reply should be query or response"),
        ("header {\n query\n}", "setting up rule: no flag action provided"),
        ("header {\n query set\n}", "setting up rule: invalid length for flags, at least one should be provided"),
        ("header {\n query unset aa\n}", "setting up rule: unknown flag action=unset, should be set or clear"),
        ("header {\n query set aa TC\n}", "setting up rule: unknown/unsupported flag=tc"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == message


def flags(reply: dns.message.Message) -> str:
    return dns.flags.to_text(reply.flags)


@pytest.mark.parametrize(
    ("rules", "asked", "wanted", "seen"),
    [
        ("response set aa", "RD", "QR AA RD RA", "RD"),
        ("response clear ra rd", "RD CD", "QR", "RD CD"),
        ("query clear rd", "RD", "QR RA", ""),
        ("query set rd", "", "QR RD RA", "RD"),
        ("query set aa ra", "", "QR RA", "AA RA"),
        ("query clear rd\n response set rd", "CD", "QR RD RA", "CD"),
    ],
)
def test_flags(serve: Callable[..., Server], rules: str, asked: str, wanted: str, seen: str) -> None:
    with running(serve, f"header {{\n {rules}\n }}") as (server, upstream, _):
        request = dns.message.make_query("a.test.", "A")
        request.flags = dns.flags.from_text(asked)
        assert flags(server.send(request)) == wanted
        arrived = next(query for query in upstream.seen if query.question[0].name.to_text() == "a.test.")
        assert dns.flags.to_text(arrived.flags) == seen


def test_only_what_comes_from_below(serve: Callable[..., Server]) -> None:
    server = serve("a.test:{port} {\n acl {\n block type TXT\n }\n header {\n response set ra\n }\n hosts {\n 192.0.2.1 a.test\n }\n}")
    assert flags(server.query("a.test.")) == "QR AA RD RA"
    assert flags(server.query("a.test.", flags=dns.flags.CD)) == "QR AA RA CD"
    assert flags(server.query("a.test.", "TXT")) == "QR RD"
    assert flags(server.query("nosuch.a.test.")) == "QR RD", "a failure, for which the server writes a message"
