"""acl: which policy decides, and what the client gets."""

from __future__ import annotations

from collections.abc import Callable

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.corefile.address import network_of
from fastdns.plugins.acl.rules import EVERYWHERE, Policy, Rule, parse
from fastdns.setup import Controller
from tests.server import Server

ZONE = ("example.org.",)
TEN = (bytes([10, 0, 0, 0]), 8)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("acl", [Rule(ZONE)]),
        ("acl a.org b.org {\n}", [Rule(("a.org.", "b.org."))]),
        ("acl {\n block\n}", [Rule(ZONE, (Policy("block"),))]),
        ("acl {\n ALLOW Type A Net 10.0.0.0/8\n}", [Rule(ZONE, (Policy("allow", (1,), (TEN,)),))]),
        ("acl {\n filter net 10.1.2.3/8 type MX A type AAAA\n}", [Rule(ZONE, (Policy("filter", (1, 15, 28), ((bytes([10, 1, 2, 3]), 8),)),))]),
        ("acl {\n drop type A * B\n}", [Rule(ZONE, (Policy("drop"),))]),
        ("acl {\n drop net 10.0.0.0/8 * 1.2.3.4.5\n}", [Rule(ZONE, (Policy("drop", (), EVERYWHERE),))]),
        ("acl {\n drop net 192.0.2.1 ::1\n}", [Rule(ZONE, (Policy("drop", (), ((bytes([192, 0, 2, 1]), 32), (bytes(15) + b"\1", 128))),))]),
        ("acl {\n block\n}\nacl a.org {\n allow\n}", [Rule(ZONE, (Policy("block"),)), Rule(("a.org.",), (Policy("allow"),))]),
    ],
)
def test_rules(text: str, wanted: list[Rule]) -> None:
    rules = parse(Controller.of(text, ["example.org"]))
    assert [Rule(rule.zones, tuple(policy._replace(place=None) for policy in rule.policies)) for rule in rules] == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("deny", """unexpected token "deny"; expect 'allow', 'block', 'filter' or 'drop', or 'nxdomain'"""),
        ("block a", """unexpected token "a"; expect 'type | net', or 'client | namespace | label | target'"""),
        ("block type", 'no token specified in "type" section'),
        ("block TYPE A NET", 'no token specified in "net" section'),
        ("block type a", 'unexpected token "a"; expect legal QTYPE'),
        ("block type TYPE65", 'unexpected token "TYPE65"; expect legal QTYPE'),
        ("block net 10.0.0.0/33", 'illegal CIDR notation "10.0.0.0/33"'),
        ("block net 10", 'illegal CIDR notation "10/32"'),
        ("block net fe80::1%eth0", 'illegal CIDR notation "fe80::1%eth0/128"'),
        ("block net 127.0.0.1-127.0.0.2", 'illegal CIDR notation "127.0.0.1-127.0.0.2/32"'),
        ("block target", 'no token specified in "target" section'),
        ("block client", 'no token specified in "client" section'),
        ("block client Pod", "unexpected token \"Pod\"; expect 'pod', 'node' or 'unknown'"),
        ("block target " + "x" * 64, f'"{"x" * 64}" is longer than 63 octets'),
        ("audit", "no action after 'audit'; expect 'block', 'filter', 'drop' or 'nxdomain'"),
        ("audit allow", "unexpected token \"allow\"; expect 'block', 'filter', 'drop' or 'nxdomain'"),
        ("audit audit block", "unexpected token \"audit\"; expect 'block', 'filter', 'drop' or 'nxdomain'"),
    ],
)
def test_errors(line: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(f"acl {{\n {line}\n}}"))
    assert str(caught.value) == f"Testfile:2 - Error during parsing: {message}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("::/0", (bytes(16), 0)), ("10/8", None), ("1.2.3.4/-1", None), ("1.2.3.4/a", None), ("1.2.3.4", None), ("\0/8", None)],
)
def test_networks(text: str, wanted: tuple[bytes, int] | None) -> None:
    assert network_of(text) == wanted


COREFILE = """
a.test:{port} {{
    bind 127.0.0.1 ::1
    acl {{
        allow net 127.0.0.2
        block type A MX net 127.0.0.0/29
        filter type TXT
        block type AAAA net 127.0.1.0/24
        allow type AAAA net 127.0.0.0/16
        drop net 127.0.0.16/28
        block net ::1
    }}
    whoami
}}
b.test:{port} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    acl sub.b.test {{
        block net 127.0.0.1
    }}
    acl b.test deep.sub.b.test {{
        filter type TXT
        allow type MX
        drop type SRV
    }}
    acl {{
        block type MX AAAA
    }}
    whoami
}}
c.test:{port} {{
    bind 127.0.0.1
    acl
    acl {{
    }}
    whoami
}}
""".replace("{{", "{").replace("}}", "}")

PASSES, BLOCKED, FILTERED = "NOERROR aa", "REFUSED", "NOERROR"
#: Of clients with EDNS.
ERRORS = {BLOCKED: "REFUSED 1400 15", FILTERED: "NOERROR 1400 17"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:  # type: ignore[misc]
    with Server(tmp_path_factory.mktemp("acl"), COREFILE) as running:
        yield running


def outcome(reply: dns.message.Message) -> str:
    """Code, then size of the OPT and code of its error if there is an OPT, or `aa`."""
    assert not reply.answer
    assert not reply.authority
    code = dns.rcode.to_text(reply.rcode())
    if reply.flags & dns.flags.AA:
        assert reply.additional
        return f"{code} aa"
    assert not reply.additional
    if reply.edns < 0:
        return code
    (option,) = reply.options
    assert isinstance(option, dns.edns.EDEOption)
    assert option.text is None
    return f"{code} {reply.payload} {int(option.code)}"


@pytest.mark.parametrize(
    ("name", "rdtype", "source", "wanted"),
    [
        ("www.a.test.", "A", "127.0.0.1", BLOCKED),
        ("www.a.test.", "A", "127.0.0.2", PASSES),
        ("a.test.", "MX", "127.0.0.7", BLOCKED),
        ("a.test.", "A", "127.0.0.8", PASSES),
        ("a.test.", "TXT", "127.9.9.9", FILTERED),
        ("a.test.", "TXT", "127.0.0.2", PASSES),
        ("a.test.", "AAAA", "127.0.1.1", BLOCKED),
        ("a.test.", "AAAA", "127.0.0.17", PASSES),
        ("www.b.test.", "A", "127.0.0.1", PASSES),
        ("SUB.b.test.", "A", "127.0.0.1", BLOCKED),
        ("x.sub.b.test.", "A", "127.0.0.9", PASSES),
        ("x.sub.b.test.", "MX", "127.0.0.9", PASSES),
        ("x.sub.b.test.", "AAAA", "127.0.0.9", BLOCKED),
        ("x.deep.sub.b.test.", "TXT", "127.0.0.9", FILTERED),
        ("x.deep.sub.b.test.", "TXT", "127.0.0.1", BLOCKED),
        ("www.c.test.", "A", "127.0.0.1", PASSES),
    ],
)
@pytest.mark.parametrize("tcp", [False, True])
def test_decisions(server: Server, name: str, rdtype: str, source: str, wanted: str, tcp: bool) -> None:
    assert outcome(server.query(name, rdtype, source=source, tcp=tcp)) == wanted
    for do in (False, True):
        reply = server.query(name, rdtype, source=source, tcp=tcp, use_edns=0, payload=1400, want_dnssec=do)
        assert outcome(reply) == ERRORS.get(wanted, wanted)
        assert bool(reply.ednsflags & dns.flags.DO) == do


def test_ipv6(server: Server) -> None:
    assert outcome(server.query("a.test.", "A", host="::1")) == BLOCKED
    assert outcome(server.query("a.test.", "TXT", host="::1")) == FILTERED


def test_dropped_queries_have_no_reply(server: Server) -> None:
    with pytest.raises(dns.exception.Timeout):
        server.query("a.test.", "A", source="127.0.0.16", timeout=0.5)
    assert outcome(server.query("a.test.", "TXT", source="127.0.0.16")) == FILTERED


def test_metrics(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    metrics = server.ports["port2"]
    server.query("b.test.", "TXT")
    server.query("x.deep.sub.b.test.", "TXT", source="127.0.0.2")
    server.query("sub.b.test.", "A")
    server.query("b.test.", "A")
    server.query("b.test.", "MX")
    with pytest.raises(dns.exception.Timeout):
        server.query("b.test.", "SRV", timeout=0.5)
    where = f'server="dns://127.0.0.1:{server.port}"'
    for name, zone, wanted in (
        ("filtered", "b.test.", 1),
        ("filtered", "deep.sub.b.test.", 1),
        ("blocked", "sub.b.test.", 1),
        ("blocked", "b.test.", 0),
        ("dropped", "b.test.", 1),
    ):
        assert server.metric(metrics, f'coredns_acl_{name}_requests_total{{{where},view="",zone="{zone}"}}') == wanted, (name, zone)
    assert server.metric(metrics, f'coredns_acl_allowed_requests_total{{{where},view=""}}') == 2


def test_what_is_cached_is_protected(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n acl {\n block net 127.0.0.9\n }\n cache\n hosts {\n 192.0.2.1 a.test\n }\n}")
    assert server.answers("a.test.") == ["192.0.2.1"]
    assert server.answers("a.test.") == ["192.0.2.1"]
    assert outcome(server.query("a.test.", source="127.0.0.9")) == BLOCKED


def test_many_networks(serve: Callable[..., Server]) -> None:
    networks = " ".join(f"10.{i // 256}.{i % 256}.0/24" for i in range(20000))
    server = serve(f".:{{port}} {{\n acl {{\n block net {networks} 127.0.0.5\n }}\n whoami\n}}")
    assert outcome(server.query("a.test.", source="127.0.0.5")) == BLOCKED
    assert outcome(server.query("a.test.", source="127.0.0.6")) == PASSES
