"""dns64: which replies are made anew, and of what."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator

import dns.edns
import dns.flags
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.dns64 import Settings, parse
from fastdns.setup import Controller
from tests.plugins.cache.scripted import SOA, texts
from tests.plugins.dns64.families import Families, families
from tests.server import Server

PREFIX = bytes.fromhex("0064ff9b0000000000000000")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dns64", Settings(PREFIX)),
        ("dns64 2001:db8::/32", Settings(bytes.fromhex("20010db8"))),
        ("dns64 {\n prefix 2001:db8:1:2:3:4::/64\n}", Settings(bytes.fromhex("20010db800010002"))),
        ("dns64 {\n translate_all\n allow_ipv4\n}", Settings(PREFIX, True, True)),
        ("dns64 2001:db8::/32 {\n allow_ipv4\n}", Settings(bytes.fromhex("20010db8"))),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dns64 a b", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'b'"),
        ("dns64 {\n prefix\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'prefix'"),
        ("dns64 {\n all\n}", "Testfile:2 - Error during parsing: unknown property 'all'"),
        ("dns64 64:ff9b::", "invalid CIDR address: 64:ff9b::"),
        ("dns64 10.0.0.0/8", 'Testfile:1 - Error during parsing: invalid netmask 32 IPv6 address: "10.0.0.0/8"'),
        ("dns64 64:ff9b::/33", 'Testfile:1 - Error during parsing: invalid prefix length "64:ff9b::/33"'),
        ("dns64 64:ff9b::/24", 'Testfile:1 - Error during parsing: invalid prefix length "64:ff00::/24"'),
        ("dns64 64:ff9b::/104", 'Testfile:1 - Error during parsing: invalid prefix length "64:ff9b::/104"'),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == message


BLOCK = """
{zone}:{{port}} {{
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{{port2}}
    acl drop.test {{
        drop type A
    }}
    dns64 {prefix} {{
        {options}
    }}
    forward . {upstream}
}}
"""

FOUR = ["a.test. 300 IN A 192.0.2.33", "a.test. 300 IN A 192.0.2.34"]


@pytest.fixture
def upstream() -> Iterator[tuple[str, Families]]:
    with families() as (running, script):
        yield running.address, script


def block(address: str, options: str = "allow_ipv4", zone: str = ".") -> str:
    return BLOCK.format(zone=zone, prefix="", options=options, upstream=address)


@pytest.mark.parametrize(
    ("six", "four", "answer", "rest"),
    [
        # (rcode, answer, authority) of AAAA; (rcode, answer, authority, additional) of A
        (("NOERROR", [], [SOA]), ("NOERROR", FOUR, [], []), ["a.test. 60 IN AAAA 64:ff9b::c000:221", "a.test. 60 IN AAAA 64:ff9b::c000:222"], []),
        (("NOERROR", [], []), ("NOERROR", ["a.test. 900 IN A 192.0.2.33"], [], []), ["a.test. 600 IN AAAA 64:ff9b::c000:221"], []),
        (("SERVFAIL", [], []), ("NOERROR", ["a.test. 5 IN A 192.0.2.33"], [], []), ["a.test. 5 IN AAAA 64:ff9b::c000:221"], []),
        (
            ("NOERROR", ["a.test. 7 IN CNAME b.test."], []),
            ("NOERROR", ["a.test. 7 IN CNAME b.test.", "b.test. 9 IN A 192.0.2.33"], ["test. 3 IN NS ns.test."], ["ns.test. 4 IN A 192.0.2.1"]),
            ["a.test. 7 IN CNAME b.test.", "b.test. 9 IN AAAA 64:ff9b::c000:221"],
            ["test. 3 IN NS ns.test.", "ns.test. 4 IN A 192.0.2.1"],
        ),
        (("NOERROR", [], [SOA]), ("NOERROR", [], [SOA], []), [], [SOA]),
        (("NOERROR", [], [SOA]), ("NXDOMAIN", [], [SOA], []), [], [SOA]),
        (("NOERROR", [], [SOA]), ("SERVFAIL", [], [], []), [], []),
    ],
)
def test_replies_that_are_made(
    serve: Callable[..., Server],
    upstream: tuple[str, Families],
    six: tuple[str, list[str], list[str]],
    four: tuple[str, list[str], list[str], list[str]],
    answer: list[str],
    rest: list[str],
) -> None:
    address, script = upstream
    script.six.say("a.test.", six[1], six[2], rcode=six[0], flags="AA RA AD")
    script.say("a.test.", *four[1:], rcode=four[0], flags="AA RA AD")
    server = serve(block(address))
    for tcp in (False, True):
        reply = server.query("a.test.", "AAAA", tcp=tcp)
        assert dns.flags.to_text(reply.flags) == "QR RD"
        assert reply.rcode() == 0
        assert sorted(texts(reply.answer)) == sorted(answer)
        assert texts(reply.authority) + texts(reply.additional) == rest
    metric = f'coredns_dns64_requests_translated_total{{server="dns://127.0.0.1:{server.port}"}}'
    assert server.metric(server.ports["port2"], metric) == 2


def test_replies_that_stay(serve: Callable[..., Server], upstream: tuple[str, Families]) -> None:
    address, script = upstream
    script.six.say("a.test.", ["a.test. 5 IN AAAA 2001:db8::1"])
    script.six.say("none.test.", [], [SOA], rcode="NXDOMAIN")
    script.six.say("four.test.", [], [SOA])
    server = serve(block(address))
    assert server.answers("a.test.", "AAAA") == ["2001:db8::1"]
    assert server.answers("none.test.", "AAAA") == ["NXDOMAIN"]
    assert server.answers("a.test.", "A") == ["192.0.2.1"]
    assert server.answers("four.test.", "AAAA") == ["64:ff9b::c000:201"]
    metric = f'coredns_dns64_requests_translated_total{{server="dns://127.0.0.1:{server.port}"}}'
    assert server.metric(server.ports["port2"], metric) == 1


def test_families_and_options(serve: Callable[..., Server], upstream: tuple[str, Families]) -> None:
    address, script = upstream
    script.six.say("a.test.", ["a.test. 5 IN AAAA 2001:db8::1"])
    script.six.otherwise = ("NOERROR", "", [], [SOA], [])
    server = serve(block(address, "") + block(address, "translate_all", "a.test").replace("bind 127.0.0.1", "bind"))
    assert server.answers("b.test.", "AAAA") == []
    assert server.answers("b.test.", "AAAA", host="::1") == ["64:ff9b::c000:201"]
    assert server.answers("a.test.", "AAAA", host="::1") == ["64:ff9b::c000:201"]
    assert server.answers("a.test.", "AAAA") == ["2001:db8::1"]


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [  # RFC 6052 2.4
        ("2001:db8::/32", "2001:db8:c000:221::"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::/72", "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221"),
    ],
)
def test_prefixes(serve: Callable[..., Server], upstream: tuple[str, Families], prefix: str, wanted: str) -> None:
    address, script = upstream
    script.six.otherwise = ("NOERROR", "", [], [SOA], [])
    script.say("a.test.", ["a.test. 300 IN A 192.0.2.33"])
    server = serve(block(address, f"prefix {prefix}\n allow_ipv4"))
    (got,) = server.answers("a.test.", "AAAA")
    assert ipaddress.ip_address(got) == ipaddress.ip_address(wanted)


def test_a_dropped_question_for_a_records(serve: Callable[..., Server], upstream: tuple[str, Families]) -> None:
    address, script = upstream
    script.six.otherwise = ("NOERROR", "", [], [SOA], [])
    server = serve(block(address))
    assert server.answers("x.drop.test.", "AAAA") == ["SERVFAIL"]
    assert server.answers("x.test.", "AAAA") == ["64:ff9b::c000:201"]


def test_many_addresses(serve: Callable[..., Server], upstream: tuple[str, Families]) -> None:
    address, script = upstream
    script.six.otherwise = ("NOERROR", "", [], [SOA], [])
    script.say("a.test.", [f"a.test. 300 IN A 10.0.{i // 250}.{i % 250}" for i in range(1000)])
    server = serve(block(address))
    reply = server.query("a.test.", "AAAA", tcp=True)
    assert len(reply.answer[0]) == 1000
    assert not reply.flags & dns.flags.TC
    assert server.query("a.test.", "AAAA").flags & dns.flags.TC


def test_a_reply_that_outgrows_its_first_memory(serve: Callable[..., Server], upstream: tuple[str, Families]) -> None:
    """Where a record's place changes while its address is made: each record has its own type and address all the same."""
    address, script = upstream
    script.six.otherwise = ("NOERROR", "", [], [], [])
    server = serve(block(address))
    for size in range(0, 960, 16):
        name = f"a{size}.test."
        text = " ".join(["x" * 240] * (size // 240) + ["x" * (size % 240)])
        script.say(name, [f"{name} 300 IN A 192.0.2.{last}" for last in range(8)], [], [f"{name} 300 IN TXT {text or 'x'}"])
        reply = server.query(name, "AAAA", tcp=True)
        assert texts(reply.answer) == sorted(f"{name} 300 IN AAAA 64:ff9b::c000:20{last}" for last in range(8))


def test_options_of_rewrite_outlast_the_question_for_a_records(serve: Callable[..., Server]) -> None:
    """They are not in the packet, which is copied for the wait."""
    server = serve(
        """.:{port} {
    bind 127.0.0.1
    recorder 1MiB {
        slow 1ns
    }
    dns64 {
        allow_ipv4
    }
    rewrite continue edns0 local set 0xffee abcd
    template IN A . {
        answer "{{ .Name }} 5 IN A 192.0.2.33"
    }
    template IN AAAA .
}
"""
    )
    for options in ({}, {"use_edns": 0}, {"use_edns": 0, "payload": 4096, "options": [dns.edns.GenericOption(65001, b"x" * 200)]}):
        for _ in range(20):
            assert texts(server.query("a.test.", "AAAA", **options).answer) == ["a.test. 5 IN AAAA 64:ff9b::c000:221"]
