"""siit: which replies are made anew, and of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import dns.flags
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.dns64.prefix import WELL_KNOWN
from fastdns.plugins.siit import parse
from fastdns.setup import Controller
from fastdns.testing import Upstream
from tests.plugins.cache.scripted import SOA, texts
from tests.plugins.dns64.families import Families, families, types
from tests.server import Server

Serve = Callable[..., Server]
Said = tuple[str, str, list[str], list[str], list[str]]


#: 64:dead::1 and 64:dead::2.
ONE, TWO = (bytes.fromhex("0064dead") + bytes(11) + bytes((last,)) for last in (1, 2))


@pytest.mark.parametrize(
    ("text", "prefix", "mapped"),
    [
        ("siit", WELL_KNOWN, {}),
        ("siit {\n ipv6_prefix 64:dead::/96\n}", bytes.fromhex("0064dead") + bytes(8), {}),
        ("siit {\n ipv6_prefix 64:ff9b::1:2/32\n}", bytes.fromhex("0064ff9b"), {}),
        ("siit {\n ipv6_prefix 2001:db8:1:2:ff::/64\n}", bytes.fromhex("20010db800010002"), {}),
        ("siit {\n eam 10.0.0.1 64:dead::1\n}", WELL_KNOWN, {ONE: bytes((10, 0, 0, 1))}),
        ("siit {\n eam ::ffff:10.0.0.1 64:dead:0::1\n eam 0.0.0.0 64:dead::2\n}", WELL_KNOWN, {ONE: bytes((10, 0, 0, 1)), TWO: bytes(4)}),
        ("siit {\n eam 10.0.0.1 64:dead::1\n eam 10.0.0.2 64:dead::1\n}", WELL_KNOWN, {ONE: bytes((10, 0, 0, 2))}),
        ("siit {\n ipv6_prefix 64::/32\n}\nsiit {\n eam 10.0.0.1 64:dead::1\n}", bytes((0, 0x64, 0, 0)), {ONE: bytes((10, 0, 0, 1))}),
    ],
)
def test_properties(text: str, prefix: bytes, mapped: dict[bytes, bytes]) -> None:
    assert parse(Controller.of(text)) == (prefix, mapped)


@pytest.mark.parametrize("bits", [32, 40, 48, 56, 64, 96])
def test_lengths(bits: int) -> None:
    assert parse(Controller.of(f"siit {{\n ipv6_prefix 64:ff9b::/{bits}\n}}")).prefix == WELL_KNOWN[: bits // 8]


COUNT = "Wrong argument count or unexpected line ending after"
LENGTHS = "must be one of /32, /40, /48, /56, /64, /96"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("siit a", f"Testfile:1 - Error during parsing: {COUNT} 'a'"),
        ("siit {\n ipv6_prefix\n}", f"Testfile:2 - Error during parsing: {COUNT} 'ipv6_prefix'"),
        ("siit {\n all\n}", "Testfile:2 - Error during parsing: unknown property 'all'"),
        ("siit {\n ipv6_prefix foobar\n}", "invalid CIDR address: foobar"),
        ("siit {\n ipv6_prefix 64:ff9b::\n}", "invalid CIDR address: 64:ff9b::"),
        ("siit {\n ipv6_prefix 10.0.0.0/8\n}", 'Testfile:2 - Error during parsing: invalid netmask 32 IPv6 address: "10.0.0.0/8"'),
        ("siit {\n ipv6_prefix 64:ff9b::/72\n}", f'Testfile:2 - Error during parsing: invalid prefix length "64:ff9b::/72": {LENGTHS}'),
        ("siit {\n ipv6_prefix 64:ff9b::1/128\n}", f'Testfile:2 - Error during parsing: invalid prefix length "64:ff9b::1/128": {LENGTHS}'),
        ("siit {\n ipv6_prefix 64:ff9b::/0\n}", f'Testfile:2 - Error during parsing: invalid prefix length "::/0": {LENGTHS}'),
        (
            "siit {\n ipv6_prefix 2001:db8:122:344:ff00::/96\n}",
            'Testfile:2 - Error during parsing: invalid prefix "2001:db8:122:344:ff00::/96": reserved octet (byte 8) must be zero',
        ),
        ("siit {\n eam 64:dead::1 10.0.0.1\n}", 'Testfile:2 - Error during parsing: invalid IPv4 address: "64:dead::1"'),
        ("siit {\n eam 10.0.0.1 ::ffff:10.0.0.1\n}", 'Testfile:2 - Error during parsing: invalid IPv6 address: "10.0.0.1"'),
        ("siit {\n eam foobar 64:dead::1\n}", 'Testfile:2 - Error during parsing: invalid IP address: "<nil>"'),
        ("siit {\n eam 10.0.0.1 foobar\n}", 'Testfile:2 - Error during parsing: invalid IP address: "<nil>"'),
        ("siit {\n eam 10.0.0.1\n}", f"Testfile:2 - Error during parsing: {COUNT} '10.0.0.1'"),
        ("siit {\n eam 10.0.0.1 64:dead::1 extra\n}", f"Testfile:2 - Error during parsing: {COUNT} 'extra'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == message


BLOCK = """
.:{{port}} {{
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{{port2}}
    errors
    acl drop.test {{
        drop type AAAA
    }}
    {dns64}
    siit {{
        {options}
    }}
    forward . {upstream}
}}
"""


def block(upstream: Upstream, options: str = "", dns64: str = "") -> str:
    return BLOCK.format(options=options, upstream=upstream.address, dns64=dns64)


def translated(server: Server) -> float:
    return server.metric(server.ports["port2"], f'coredns_siit_requests_translated_total{{server="dns://127.0.0.1:{server.port}"}}')


@pytest.fixture
def upstream() -> Iterator[tuple[Upstream, Families]]:
    with families() as found:
        yield found


EAM = "eam 10.0.0.1 64:dead::1\n eam 10.0.0.2 64:ff9b::192.0.2.34"
NODATA: Said = ("NOERROR", "RA", [], [SOA], [])
SIX = ["a.test. 300 IN AAAA 64:ff9b::c000:221", "a.test. 300 IN AAAA 64:dead::1"]


@pytest.mark.parametrize(
    ("four", "six", "flags", "answer", "rest"),
    [
        # (rcode, flags, answer, authority, additional) of A and of AAAA
        (NODATA, ("NOERROR", "AA RA AD", SIX, [], []), "QR AA RD RA", ["a.test. 60 IN A 10.0.0.1", "a.test. 60 IN A 192.0.2.33"], []),
        (NODATA, ("NOERROR", "AD", SIX[1:], [], []), "QR RD", ["a.test. 60 IN A 10.0.0.1"], []),
        (("NOERROR", "", [], [], []), ("NOERROR", "", ["a.test. 900 IN AAAA 64:dead::1"], [], []), "QR RD", ["a.test. 600 IN A 10.0.0.1"], []),
        (("SERVFAIL", "", [], [], []), ("NOERROR", "", ["a.test. 5 IN AAAA 64:dead::1"], [], []), "QR RD", ["a.test. 5 IN A 10.0.0.1"], []),
        (NODATA, ("NOERROR", "", ["a.test. 5 IN AAAA 64:ff9b::c000:222"], [], []), "QR RD", ["a.test. 5 IN A 10.0.0.2"], []),
        # Addresses that become none are left out, be they mapped ones of IPv4, outside of the prefix, or with a reserved octet.
        (
            NODATA,
            ("NOERROR", "", ["a.test. 5 IN AAAA 2001:db8::1", "a.test. 5 IN AAAA ::ffff:192.0.2.1", *SIX], [], []),
            "QR RD",
            ["a.test. 60 IN A 10.0.0.1", "a.test. 60 IN A 192.0.2.33"],
            [],
        ),
        (
            ("NOERROR", "", ["a.test. 7 IN CNAME b.test."], [], []),
            ("NOERROR", "", ["a.test. 7 IN CNAME b.test.", "b.test. 9 IN AAAA 64:dead::1"], ["test. 3 IN NS ns.test."], ["ns.test. 4 IN AAAA 64:dead::1"]),
            "QR RD",
            ["a.test. 7 IN CNAME b.test.", "b.test. 9 IN A 10.0.0.1"],
            ["test. 3 IN NS ns.test.", "ns.test. 4 IN AAAA 64:dead::1"],
        ),
    ],
)
def test_replies_that_are_made(
    serve: Serve, upstream: tuple[Upstream, Families], four: Said, six: Said, flags: str, answer: list[str], rest: list[str]
) -> None:
    server = serve(block(upstream[0], EAM))
    upstream[1].said["a.test."], upstream[1].six.said["a.test."] = four, six
    for tcp in (False, True):
        reply = server.query("a.test.", "A", tcp=tcp)
        assert (dns.rcode.to_text(reply.rcode()), dns.flags.to_text(reply.flags)) == ("NOERROR", flags)
        assert texts(reply.answer) == sorted(answer)
        assert texts(reply.authority) + texts(reply.additional) == rest
    assert translated(server) == 2


NONE: Said = ("NOERROR", "AA", ["a.test. 5 IN AAAA 2001:db8::1"], [], [])


@pytest.mark.parametrize(
    ("four", "six", "wanted"),
    [
        # Nothing to translate: the reply to the A query.
        (NODATA, NONE, ("NOERROR", "QR RD RA", [], [SOA])),
        (NODATA, ("NOERROR", "AA", [], ["test. 9 IN SOA . . 1 1 1 1 1"], []), ("NOERROR", "QR RD RA", [], [SOA])),
        (("SERVFAIL", "RA", [], [], []), NONE, ("SERVFAIL", "QR RD RA", [], [])),
        # The AAAA query failed: its reply, but for the question.
        (NODATA, ("NXDOMAIN", "AA", [], [SOA.replace("60", "9")], []), ("NXDOMAIN", "QR AA RD", [], [SOA.replace("60", "9")])),
        (NODATA, ("SERVFAIL", "RA", [], [], []), ("SERVFAIL", "QR RD RA", [], [])),
        (NODATA, ("REFUSED", "", SIX[1:], [], []), ("REFUSED", "QR RD", SIX[1:], [])),
        # No AAAA query.
        (("NXDOMAIN", "", [], [SOA], []), None, ("NXDOMAIN", "QR RD", [], [SOA])),
        (("NOERROR", "", ["a.test. 5 IN A 192.0.2.7"], [], []), None, ("NOERROR", "QR RD", ["a.test. 5 IN A 192.0.2.7"], [])),
        (("NOERROR", "TC", [], [], []), None, ("NOERROR", "QR TC RD", [], [])),
    ],
)
def test_replies_that_are_not(
    serve: Serve, upstream: tuple[Upstream, Families], four: Said, six: Said | None, wanted: tuple[str, str, list[str], list[str]]
) -> None:
    server = serve(block(upstream[0], EAM))
    upstream[1].said["a.test."], upstream[1].six.said["a.test."] = four, six or NONE
    reply = server.query("a.test.", "A")
    assert (dns.rcode.to_text(reply.rcode()), dns.flags.to_text(reply.flags), texts(reply.answer), texts(reply.authority)) == wanted
    assert reply.question[0].to_text() == "a.test. IN A"
    assert types(upstream[0]) == ["A"] if six is None else ["A", "AAAA"]
    assert translated(server) == 0


def test_a_truncated_reply_stays_truncated(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    server = serve(block(upstream[0], EAM))
    upstream[1].said["a.test."], upstream[1].six.said["a.test."] = NODATA, ("NOERROR", "TC RA", SIX, [], [])
    reply = server.query("a.test.", "A")
    assert dns.flags.to_text(reply.flags) == "QR TC RD RA"
    assert texts(reply.answer) == ["a.test. 60 IN A 10.0.0.1", "a.test. 60 IN A 192.0.2.33"]


def test_other_queries_pass(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    server = serve(block(upstream[0], EAM))
    upstream[1].said["a.test."] = NODATA
    upstream[1].six.said["a.test."] = ("NOERROR", "", SIX[:1], [], [])
    assert server.answers("a.test.", "AAAA") == ["64:ff9b::c000:221"]
    assert server.answers("a.test.", "TXT") == []
    assert types(upstream[0]) == ["AAAA", "TXT"]
    assert server.answers("A.Test.", "A", host="::1") == ["192.0.2.33"]


@pytest.mark.parametrize(
    ("prefix", "six", "wanted"),
    [  # RFC 6052 2.4
        ("2001:db8::/32", "2001:db8:c000:221::", "192.0.2.33"),
        ("2001:db8:100::/40", "2001:db8:1c0:2:21::", "192.0.2.33"),
        ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::", "192.0.2.33"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::", "192.0.2.33"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::", "192.0.2.33"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c000:221", "192.0.2.33"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:ffc0:2:2100::", ""),
        ("2001:db8:122::/48", "2001:db8:122:c000:102:2100::", ""),
        ("2001:db8:122:344::/96", "2001:db8:122:344:0:1:c000:221", ""),
        ("::/32", "::ffff:192.0.2.33", ""),
        ("::ffff:0:0/96", "::ffff:192.0.2.33", ""),
    ],
)
def test_prefixes(serve: Serve, upstream: tuple[Upstream, Families], prefix: str, six: str, wanted: str) -> None:
    server = serve(block(upstream[0], f"ipv6_prefix {prefix}"))
    upstream[1].otherwise, upstream[1].six.otherwise = NODATA, ("NOERROR", "", [f"a.test. 300 IN AAAA {six}"], [], [])
    assert server.answers("a.test.", "A") == [wanted] * bool(wanted)


def test_a_dropped_question_for_aaaa_records(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    server = serve(block(upstream[0], EAM))
    upstream[1].otherwise = NODATA
    upstream[1].six.otherwise = ("NOERROR", "", ["x.test. 5 IN AAAA 64:dead::1"], [], [])
    assert server.answers("x.drop.test.", "A") == ["SERVFAIL"]
    server.wait_log(r"^\[ERROR\] plugin/errors: 2 x\.drop\.test\. A: siit: upstream lookup returned no response$")
    assert server.answers("x.test.", "A") == ["10.0.0.1"]


def test_a_question_for_aaaa_records_that_fails(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    """Without a reply to copy, such as where no upstream answers."""
    upstream[1].otherwise, upstream[1].six.otherwise = NODATA, None
    upstream[1].six.said["a.test."] = None
    server = serve(block(upstream[0], EAM).replace(f"forward . {upstream[0].address}", f"forward . {upstream[0].address} {{\n read_timeout 100ms\n }}"))
    reply = server.query("a.test.", "A")
    assert (dns.rcode.to_text(reply.rcode()), dns.flags.to_text(reply.flags)) == ("SERVFAIL", "QR RD")
    assert not reply.answer + reply.authority + reply.additional
    assert translated(server) == 0


def test_many_mappings_and_addresses(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    pairs = [(f"10.1.{i // 250}.{i % 250}", f"2001:db8::{i * 7919 % 65536:x}:{i:x}") for i in range(1000)]
    server = serve(block(upstream[0], "\n".join(f"eam {four} {six}" for four, six in pairs)))
    upstream[1].otherwise = NODATA
    upstream[1].six.otherwise = ("NOERROR", "", [f"a.test. 300 IN AAAA {six}" for _, six in pairs], [], [])
    reply = server.query("a.test.", "A", tcp=True)
    assert {rdata.to_text() for rdata in reply.answer[0]} == {four for four, _ in pairs}
    assert not reply.flags & dns.flags.TC


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_siit_and_dns64_do_not_ask_for_each_other_for_ever(serve: Serve, upstream: tuple[Upstream, Families], host: str) -> None:
    """A query for A records that comes of one for AAAA records of *siit* passes."""
    server = serve(block(upstream[0], EAM, "dns64 {\n allow_ipv4\n }"))
    upstream[1].otherwise = upstream[1].six.otherwise = NODATA
    assert server.answers("a.test.", "A", host=host) == []
    assert types(upstream[0]) == ["A", "AAAA", "A"]
    upstream[0].seen.clear()
    assert server.answers("a.test.", "AAAA", host=host) == []
    assert types(upstream[0]) == ["AAAA", "A", "AAAA", "A"]


def test_siit_and_dns64_with_addresses(serve: Serve, upstream: tuple[Upstream, Families]) -> None:
    server = serve(block(upstream[0], EAM, "dns64 {\n allow_ipv4\n }"))
    upstream[1].said["four.test."] = ("NOERROR", "", ["four.test. 5 IN A 192.0.2.7"], [], [])
    upstream[1].six.said["six.test."] = ("NOERROR", "", ["six.test. 5 IN AAAA 64:dead::1"], [], [])
    upstream[1].otherwise = upstream[1].six.otherwise = NODATA
    assert (server.answers("four.test.", "A"), server.answers("four.test.", "AAAA")) == (["192.0.2.7"], ["64:ff9b::c000:207"])
    assert (server.answers("six.test.", "A"), server.answers("six.test.", "AAAA")) == (["10.0.0.1"], ["64:dead::1"])
