"""filter_aaaa and filter_a: which addresses clients get, and what is asked of upstreams for them."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import httpx
import pytest
import yaml

from fastdns.testing import Upstream
from tests.certificates import client_context, write_certificates
from tests.plugins.acl.test_pods import pod
from tests.plugins.cache.scripted import texts
from tests.quic import Client
from tests.server import Server, command
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]

SOA = "test. 60 IN SOA ns.test. admin.test. 1 2 3 4 9000"
SIGNATURE = "{name} 300 IN RRSIG {type} 8 2 300 20991231235959 20200101000000 1 test. AAAA"
HINTS = "ipv4hint=192.0.2.1 ipv6hint=2001:db8::1"
RECORDS = [
    "both.test. 300 IN A 192.0.2.1",
    "both.test. 300 IN A 192.0.2.2",
    "both.test. 300 IN AAAA 2001:db8::1",
    "six.test. 300 IN AAAA 2001:db8::6",
    "four.test. 300 IN A 192.0.2.4",
    "alias.test. 300 IN CNAME both.test.",
    "alias6.test. 300 IN CNAME six.test.",
    "far.test. 300 IN CNAME alias.test.",
    "dead.test. 300 IN CNAME nowhere.test.",
    f'svc.test. 300 IN HTTPS 1 . alpn="h2,h3" {HINTS} key65400="x"',
    f"svc.test. 300 IN SVCB 2 other.test. port=8443 {HINTS}",
    f"must.test. 300 IN HTTPS 1 . mandatory=port,ipv6hint port=1 {HINTS}",
    "only.test. 300 IN HTTPS 1 . mandatory=ipv6hint ipv6hint=2001:db8::1",
    "alone.test. 300 IN HTTPS 0 svc.test.",
    "mail.test. 300 IN MX 10 both.test.",
    "mail.test. 300 IN MX 20 six.test.",
    "signed.test. 300 IN A 192.0.2.9",
    "signed.test. 300 IN AAAA 2001:db8::9",
    f"signed.test. 300 IN HTTPS 1 . {HINTS}",
    *(SIGNATURE.format(name="signed.test.", type=kind) for kind in ("A", "AAAA", "HTTPS")),
    "slow.test. 300 IN AAAA 2001:db8::8",
]


class Zone:
    """An upstream that has these records, follows aliases and adds the addresses of mail servers."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        for text in RECORDS:
            name, _, _, kind = text.split()[:4]
            kind = f"RRSIG {text.split()[4]}" if kind == "RRSIG" else kind
            self.records.setdefault((name, kind), []).append(text)
        self.names = {name for name, _ in self.records}

    def __call__(self, query: dns.message.Message) -> dns.message.Message:
        question = query.question[0]
        name, kind = question.name.to_text().lower(), dns.rdatatype.to_text(question.rdtype)
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA | dns.flags.AD
        signed = bool(query.ednsflags & dns.flags.DO)
        if name == "slow.test." and kind == "A":
            reply.set_rcode(dns.rcode.SERVFAIL)
            return reply
        while kind != "CNAME" and (name, "CNAME") in self.records:
            self.put(reply.answer, name, "CNAME", signed)
            name = self.records[name, "CNAME"][0].split()[4]
        for each in ("A", "AAAA", "HTTPS") if kind == "ANY" else (kind,):
            self.put(reply.answer, name, each, signed)
        if name not in self.names:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        if not reply.answer or reply.answer[-1].rdtype == dns.rdatatype.CNAME:
            reply.authority.append(dns.rrset.from_text(*SOA.split(None, 4)))
        elif kind == "MX":
            for host in ("both.test.", "six.test."):
                for each in ("A", "AAAA"):
                    self.put(reply.additional, host, each, signed)
        elif kind == "A":
            reply.authority.append(dns.rrset.from_text("test.", 300, "IN", "NS", "ns.test."))
            reply.additional.append(dns.rrset.from_text("ns.test.", 300, "IN", "AAAA", "2001:db8::53"))
        return reply

    def put(self, section: list[dns.rrset.RRset], name: str, kind: str, signed: bool) -> None:
        for wanted in (kind, f"RRSIG {kind}") if signed else (kind,):
            found = self.records.get((name, wanted))
            if found:
                section.append(dns.rrset.from_text_list(name, 300, "IN", wanted.partition(" ")[0], [text.split(None, 4)[4] for text in found]))


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream(Zone()) as running:
        yield running


BLOCK = """
.:{{port}} {{
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{{port2}}
    {rules}
    {more}
    forward . {upstream}
}}
"""


def corefile(upstream: Upstream, rules: str, more: str = "") -> str:
    return BLOCK.format(rules=rules, more=more, upstream=upstream.address)


@pytest.fixture(scope="module")
def server(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For clients with IPv4 addresses alone. Without a cache, so that every question is seen."""
    with Server(tmp_path_factory.mktemp("filter"), corefile(upstream, "filter_aaaa {\n family 4\n }")) as running:
        yield running


def asked(upstream: Upstream, since: int) -> list[str]:
    """The types of the questions that came; a datagram that *forward* repeats is the same question."""
    found = {query.id: dns.rdatatype.to_text(query.question[0].rdtype) for query in upstream.seen[since:]}
    return list(found.values())


def said(reply: dns.message.Message) -> tuple[str, list[str], list[str], list[str]]:
    return dns.rcode.to_text(reply.rcode()), texts(reply.answer), texts(reply.authority), texts(reply.additional)


ALIAS = "alias.test. 300 IN CNAME both.test."


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize(
    ("name", "wanted", "questions"),
    [
        ("both.test.", ("NOERROR", [], [], []), ["A"]),
        ("alias.test.", ("NOERROR", [ALIAS], [], []), ["A"]),
        ("far.test.", ("NOERROR", [ALIAS, "far.test. 300 IN CNAME alias.test."], [], []), ["A"]),
        ("four.test.", ("NOERROR", [], [], []), ["A"]),
        # Without an address of the other family it is given.
        ("six.test.", ("NOERROR", ["six.test. 300 IN AAAA 2001:db8::6"], [], []), ["A", "AAAA"]),
        ("alias6.test.", ("NOERROR", ["alias6.test. 300 IN CNAME six.test.", "six.test. 300 IN AAAA 2001:db8::6"], [], []), ["A", "AAAA"]),
        ("slow.test.", ("NOERROR", ["slow.test. 300 IN AAAA 2001:db8::8"], [], []), ["A", "AAAA"]),
        # What is denied is denied with the SOA.
        ("mail.test.", ("NOERROR", [], [SOA], []), ["A", "AAAA"]),
        ("none.test.", ("NXDOMAIN", [], [SOA], []), ["A"]),
        ("dead.test.", ("NXDOMAIN", ["dead.test. 300 IN CNAME nowhere.test."], [SOA], []), ["A"]),
    ],
)
def test_questions(server: Server, upstream: Upstream, name: str, wanted: tuple[str, list[str], list[str], list[str]], questions: list[str], tcp: bool) -> None:
    since = len(upstream.seen)
    reply = server.query(name, "AAAA", tcp=tcp)
    assert said(reply) == wanted
    assert asked(upstream, since) == questions
    assert dns.flags.to_text(reply.flags & dns.flags.RA) == "RA"
    assert bool(reply.flags & dns.flags.AD) == (wanted[0] == "NXDOMAIN" or "AAAA" in questions)
    assert reply.question[0].name.to_text() == name


def test_clients_of_another_family_get_everything(server: Server, upstream: Upstream) -> None:
    since = len(upstream.seen)
    assert server.answers("both.test.", "AAAA", host="::1") == ["2001:db8::1"]
    assert "ipv6hint" in server.answers("svc.test.", "HTTPS", host="::1")[0]
    assert asked(upstream, since) == ["AAAA", "HTTPS"]


def test_other_questions_of_the_family_s_clients(server: Server) -> None:
    assert server.answers("both.test.", "A") == ["192.0.2.1", "192.0.2.2"]
    assert server.query("both.test.", "A").flags & dns.flags.AD
    # In a reply with both the addresses of hosts that have both go.
    reply = server.query("mail.test.", "MX")
    assert texts(reply.answer) == ["mail.test. 300 IN MX 10 both.test.", "mail.test. 300 IN MX 20 six.test."]
    assert texts(reply.additional) == ["both.test. 300 IN A 192.0.2.1", "both.test. 300 IN A 192.0.2.2", "six.test. 300 IN AAAA 2001:db8::6"]
    assert not reply.flags & dns.flags.AD
    reply = server.query("signed.test.", "ANY")
    assert texts(reply.answer) == ["signed.test. 300 IN A 192.0.2.9", 'signed.test. 300 IN HTTPS 1 . ipv4hint="192.0.2.1"']


@pytest.mark.parametrize(
    ("name", "rdtype", "wanted"),
    [
        ("svc.test.", "HTTPS", '1 . alpn="h2,h3" ipv4hint="192.0.2.1" key65400="x"'),
        ("svc.test.", "SVCB", '2 other.test. port="8443" ipv4hint="192.0.2.1"'),
        # Keys that must be there (RFC 9460 8).
        ("must.test.", "HTTPS", '1 . mandatory="port" port="1" ipv4hint="192.0.2.1"'),
        ("only.test.", "HTTPS", "1 ."),
        ("alone.test.", "HTTPS", "0 svc.test."),
    ],
)
def test_hints(server: Server, name: str, rdtype: str, wanted: str) -> None:
    reply = server.query(name, rdtype)
    assert [rdata.to_text() for rdata in reply.answer[0]] == [wanted]
    assert bool(reply.flags & dns.flags.AD) == (name == "alone.test.")


def without_hint(rdata: bytes) -> bytes:
    """The same without ipv6hint, and unchanged where it is malformed."""
    at = 2
    while at < len(rdata) and rdata[at]:
        at += 1 + rdata[at]
    at += 1
    made, found = rdata[:at], at > len(rdata)
    if found:
        return rdata
    while at < len(rdata):
        key, size = struct.unpack_from("!HH", rdata, at) if len(rdata) - at >= 4 else (0, len(rdata))
        value = rdata[at + 4 : at + 4 + size]
        if len(value) < size or len(rdata) - at < 4:
            return rdata
        at += 4 + size
        if key == 6:
            found = True
        elif key == 0:
            kept = b"".join(value[i : i + 2] for i in range(0, size - size % 2, 2) if value[i : i + 2] != b"\0\6")
            made += struct.pack("!HH", 0, len(kept)) + kept if kept else b""
        else:
            made += rdata[at - 4 - size : at]
    return made if found else rdata


def test_parameters_of_any_octets(serve: Serve) -> None:
    """Of records that upstreams should not send, too: what is malformed stays as it is."""
    choice = random.Random(9)
    sent: dict[str, bytes] = {}
    for number in range(400):
        target = choice.choice((b"\0", b"\1a\4test\0"))
        keys = [(key, choice.randbytes(choice.choice((0, 2, 4, 16)))) for key in sorted(choice.sample(range(9), choice.randrange(5)))]
        keys = [(key, b"".join(struct.pack("!H", choice.choice((1, 4, 6))) for _ in range(choice.randrange(4))) if key == 0 else value) for key, value in keys]
        rdata = bytearray(struct.pack("!H", number % 3) + target + b"".join(struct.pack("!HH", key, len(value)) + value for key, value in keys))
        if number % 2:
            rdata[choice.randrange(2, len(rdata))] = choice.randrange(256)
        sent[f"n{number}.test."] = bytes(rdata)[: choice.randrange(2, len(rdata) + 1) if number % 5 == 0 else None]

    def answer(query: dns.message.Message) -> bytes:
        rdata = sent[query.question[0].name.to_text()]
        head = struct.pack("!HHHHHH", query.id, 0x8180, 1, 1, 0, 0)
        return head + query.question[0].name.to_wire() + b"\0\x40\0\1\xc0\x0c\0\x40\0\1\0\0\1\0" + struct.pack("!H", len(rdata)) + rdata

    with Upstream(answer) as upstream:
        server = serve(corefile(upstream, "filter_aaaa"))
        changed = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(REPLY)
            client.connect(("127.0.0.1", server.port))
            for name, rdata in sent.items():
                query = dns.message.make_query(name, "SVCB").to_wire()
                client.send(query)
                reply = client.recv(512)
                if reply[3] & 15:  # forward has not taken it
                    continue
                wanted = without_hint(rdata)
                assert reply[len(query) :] == reply[len(query) : len(query) + 10] + struct.pack("!H", len(wanted)) + wanted, (rdata, wanted)
                changed += wanted != rdata
        assert changed > 50


@pytest.mark.parametrize("break_dnssec", [False, True])
def test_clients_that_validate(serve: Serve, upstream: Upstream, break_dnssec: bool) -> None:
    rules = "filter_aaaa {\n break_dnssec\n }" if break_dnssec else "filter_aaaa"
    server = serve(corefile(upstream, rules))
    signed = server.query("signed.test.", "AAAA", want_dnssec=True)
    hints = server.query("signed.test.", "HTTPS", want_dnssec=True)
    if break_dnssec:
        assert said(signed) == ("NOERROR", [], [], [])
        assert texts(hints.answer) == ['signed.test. 300 IN HTTPS 1 . ipv4hint="192.0.2.1"']
    else:
        for reply, kind in ((signed, "AAAA"), (hints, "HTTPS")):
            assert [dns.rdatatype.to_text(rrset.rdtype) for rrset in reply.answer] == [kind, "RRSIG"]
            assert "ipv6hint" in reply.answer[0].to_text() or kind == "AAAA"
    assert bool(signed.flags & hints.flags & dns.flags.AD) != break_dnssec
    # What is not signed is withheld, and asked for first to see that.
    since = len(upstream.seen)
    assert said(server.query("alias.test.", "AAAA", want_dnssec=True)) == ("NOERROR", [ALIAS], [], [])
    assert asked(upstream, since) == (["A"] if break_dnssec else ["AAAA", "A"])
    assert server.answers("six.test.", "AAAA", want_dnssec=True) == ["2001:db8::6"]
    assert said(server.query("none.test.", "AAAA", want_dnssec=True)) == ("NXDOMAIN", [], [SOA], [])
    assert server.answers("svc.test.", "HTTPS", want_dnssec=True) == ['1 . alpn="h2,h3" ipv4hint="192.0.2.1" key65400="x"']
    # Signed names for who does not validate.
    assert said(server.query("signed.test.", "AAAA")) == ("NOERROR", [], [], [])


@pytest.mark.parametrize("want_dnssec", [False, True])
def test_always(serve: Serve, upstream: Upstream, want_dnssec: bool) -> None:
    server = serve(corefile(upstream, "filter_aaaa {\n always\n }"))
    ask = {"want_dnssec": want_dnssec}
    assert said(server.query("both.test.", "AAAA", **ask)) == ("NOERROR", [], [], [])
    six = said(server.query("six.test.", "AAAA", **ask))
    assert six == ("NOERROR", [], [] if want_dnssec else [SOA], [])
    assert said(server.query("none.test.", "AAAA", **ask)) == ("NXDOMAIN", [], [SOA], [])
    mail = server.query("mail.test.", "MX", **ask)
    assert texts(mail.additional) == ["both.test. 300 IN A 192.0.2.1", "both.test. 300 IN A 192.0.2.2"]
    if not want_dnssec:
        assert said(server.query("slow.test.", "AAAA")) == ("SERVFAIL", [], [], [])


def test_always_without_a_look_up(serve: Serve, upstream: Upstream) -> None:
    server = serve(corefile(upstream, "filter_aaaa {\n always no_lookup\n except six.test\n }"))
    since = len(upstream.seen)
    for name in ("both.test.", "alias.test.", "none.test."):
        reply = server.query(name, "AAAA")
        assert said(reply) == ("NOERROR", [], [], [])
        assert reply.flags & dns.flags.AA
    assert asked(upstream, since) == []
    assert server.answers("six.test.", "AAAA") == ["2001:db8::6"]
    # Who validates sees for itself.
    assert said(server.query("none.test.", "AAAA", want_dnssec=True)) == ("NXDOMAIN", [], [SOA], [])
    assert said(server.query("both.test.", "AAAA", want_dnssec=True)) == ("NOERROR", [], [], [])


def test_filter_a(serve: Serve, upstream: Upstream) -> None:
    server = serve(corefile(upstream, "filter_a {\n family 6\n }"))
    since = len(upstream.seen)
    assert said(server.query("both.test.", "A", host="::1")) == ("NOERROR", [], [], [])
    assert asked(upstream, since) == ["AAAA"]
    assert server.answers("four.test.", "A", host="::1") == ["192.0.2.4"]
    assert server.answers("svc.test.", "SVCB", host="::1") == ['2 other.test. port="8443" ipv6hint="2001:db8::1"']
    assert server.answers("both.test.", "A") == ["192.0.2.1", "192.0.2.2"]


def test_with_dns64_clients_get_addresses_behind_the_gateway_alone(serve: Serve, upstream: Upstream) -> None:
    server = serve(corefile(upstream, "filter_a {\n family 6\n }", "dns64"))
    assert server.answers("four.test.", "AAAA", host="::1") == ["64:ff9b::c000:204"]
    assert said(server.query("four.test.", "A", host="::1")) == ("NOERROR", [], [], [])
    assert server.answers("four.test.", "A") == ["192.0.2.4"]


def test_zones_and_networks(serve: Serve, upstream: Upstream) -> None:
    rules = "filter_aaaa both.test signed.test {\n except signed.test\n net 127.0.0.8/29\n }\n filter_aaaa signed.test {\n net 127.0.0.200 ::1\n }"
    server = serve(corefile(upstream, rules))
    for name, client, wanted in (
        ("both.test.", "127.0.0.9", []),
        ("both.test.", "127.0.0.17", ["2001:db8::1"]),
        ("both.test.", "127.0.0.200", ["2001:db8::1"]),
        ("signed.test.", "127.0.0.9", ["2001:db8::9"]),
        ("signed.test.", "127.0.0.200", []),
        ("BOTH.test.", "127.0.0.9", []),
    ):
        assert server.answers(name, "AAAA", source=client) == wanted, (name, client)
    assert server.answers("signed.test.", "AAAA", host="::1") == []


@pytest.mark.parametrize("filtered", ["z.test", "."])
def test_aliases_into_another_block(serve: Serve, upstream: Upstream, filtered: str) -> None:
    """The block of the question filters its reply, and the block of the target what it adds to this."""
    zone = "$ORIGIN z.test.\n@ 60 SOA ns h 1 2 3 4 60\n@ 60 NS ns\nalias 60 CNAME both.test.\nalias6 60 CNAME six.test.\n"
    blocks = {"z.test": "file db z.test", ".": f"forward . {upstream.address}"}
    corefile = "".join(f"{name}:{{port}} {{\n {'filter_aaaa' * (name == filtered)}\n {lines}\n}}\n" for name, lines in blocks.items())
    server = serve(corefile, prepare=lambda folder: (folder / "db").write_text(zone))
    assert texts(server.query("alias.z.test.", "AAAA").answer) == ["alias.z.test. 60 IN CNAME both.test."]
    assert texts(server.query("alias6.z.test.", "AAAA").answer) == ["alias6.z.test. 60 IN CNAME six.test.", "six.test. 300 IN AAAA 2001:db8::6"]
    assert server.answers("alias.z.test.", "A") == ["192.0.2.1", "192.0.2.2", "both.test."]


# ---- caches ----


def test_a_cache_serves_both_kinds_of_clients(serve: Serve, upstream: Upstream) -> None:
    server = serve(corefile(upstream, "filter_aaaa {\n family 4\n }", "cache"))
    for _ in range(2):
        assert server.answers("both.test.", "AAAA") == []
        assert server.answers("both.test.", "AAAA", host="::1") == ["2001:db8::1"]
        assert server.answers("svc.test.", "SVCB") == ['2 other.test. port="8443" ipv4hint="192.0.2.1"']
        assert server.answers("svc.test.", "SVCB", host="::1") == ['2 other.test. port="8443" ipv4hint="192.0.2.1" ipv6hint="2001:db8::1"']


@pytest.mark.parametrize(
    ("rules", "at_once", "most", "withheld"),
    [
        ("", False, {"A": 50, "AAAA": 50}, 0),
        ("filter_aaaa", False, {"A": 50}, 50),
        # Two workers may ask for A at the same time.
        ("filter_aaaa", True, {"A": 100}, 50),
        ("filter_aaaa {\n always no_lookup\n }", True, {"A": 50}, 50),
    ],
)
def test_pairs_of_questions(serve: Serve, rules: str, at_once: bool, most: dict[str, int], withheld: int) -> None:
    """What a stub resolver sends for each name: A and AAAA, from one socket; glibc and musl send both at once."""
    names = [f"host{number}.test." for number in range(50)]
    zone = Zone()
    for name in names:
        zone.records[name, "A"] = [f"{name} 300 IN A 192.0.2.1"]
        zone.records[name, "AAAA"] = [f"{name} 300 IN AAAA 2001:db8::1"]
    zone.names.update(names)
    with Upstream(zone) as upstream:
        server = serve(corefile(upstream, rules, "cache"))
        for name in names:
            four, six = pair(server, name, at_once)
            assert texts(four.answer) == [f"{name} 300 IN A 192.0.2.1"]
            assert texts(six.answer) == ([] if rules else [f"{name} 300 IN AAAA 2001:db8::1"])
            assert (six.rcode(), bool(six.flags & (dns.flags.AA | dns.flags.RA))) == (dns.rcode.NOERROR, True)
        found = asked(upstream, 0)
        counts = {kind: found.count(kind) for kind in set(found)}
        assert counts.keys() == most.keys()
        assert all(counts[kind] <= most[kind] for kind in most)
        sample = f'fastdns_filter_questions_total{{server="dns://127.0.0.1:{server.port}",type="AAAA",view=""}}'
        assert server.metric(server.ports["port2"], sample) == withheld


def pair(server: Server, name: str, at_once: bool) -> list[dns.message.Message]:
    replies = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(REPLY)
        client.connect(("127.0.0.1", server.port))
        for number, rdtype in enumerate(("A", "AAAA")):
            client.send(dns.message.make_query(name, rdtype, id=number).to_wire())
            if not at_once:
                replies.append(dns.message.from_wire(client.recv(512)))
        while len(replies) < 2:
            replies.append(dns.message.from_wire(client.recv(512)))
    return sorted(replies, key=lambda reply: reply.id)


# ---- clusters ----

A, B, NOBODY = "127.0.0.10", "127.0.0.11", "127.0.0.99"
CLUSTER = """
.:{{port}} {{
    bind 127.0.0.1
    filter_aaaa {{
        namespace shop lab other
        namespace {more}
        {option}
    }}
    kubernetes cluster.local {{
        manifests {{dir}}/objects.yaml
        pods verified
    }}
    forward . {upstream}
}}
"""


def prepare(folder: Path) -> None:
    addresses = ["10.96.0.1", "fd00::1"]
    service = {"type": "ClusterIP", "clusterIP": addresses[0], "clusterIPs": addresses, "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}
    objects = [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("shop", "lab")),
        pod("shop/web", A),
        pod("labs/web", B),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"}, "spec": service},
    ]
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))


@pytest.mark.parametrize("option", ["", "always no_lookup"])
def test_namespaces(serve: Serve, upstream: Upstream, option: str) -> None:
    more = " ".join(f"team-{number}" for number in range(100))
    server = serve(CLUSTER.format(upstream=upstream.address, more=more, option=option), prepare=prepare)
    until(lambda: server.answers("both.test.", "AAAA", source=A) == [])
    assert server.answers("both.test.", "AAAA", source=B) == ["2001:db8::1"]
    assert server.answers("both.test.", "AAAA", source=NOBODY) == ["2001:db8::1"]
    # In zones of the cluster the SOA is known.
    reply = server.query("db.shop.svc.cluster.local.", "AAAA", source=A)
    assert said(reply)[:2] == ("NOERROR", [])
    assert [rrset.rdtype for rrset in reply.authority] == [dns.rdatatype.SOA]
    assert reply.flags & dns.flags.AA
    assert server.answers("db.shop.svc.cluster.local.", "AAAA", source=B) == ["fd00::1"]
    assert server.answers("db.shop.svc.cluster.local.", "A", source=A) == ["10.96.0.1"]
    reply = server.query("no.shop.svc.cluster.local.", "AAAA", source=A)
    assert (reply.rcode(), [rrset.rdtype for rrset in reply.authority]) == (dns.rcode.NXDOMAIN, [dns.rdatatype.SOA])
    # Names of a search path are denied as without the filter, also with no_lookup.
    assert server.query("both.test.shop.svc.cluster.local.", "AAAA", source=A).rcode() == dns.rcode.NXDOMAIN


# ---- every transport ----

TRANSPORTS = """
tls://.:{{port}} {{
    {body}
}}
https://.:{{port2}} {{
    {body}
}}
quic://.:{{port3}} {{
    {body}
}}
"""


def test_encrypted_transports(serve: Serve, upstream: Upstream) -> None:
    body = f"bind 127.0.0.1\n tls server.pem server.key\n filter_aaaa {{\n family 4\n }}\n cache\n forward . {upstream.address}"
    server = serve(TRANSPORTS.format(body=body), prepare=write_certificates)
    context = client_context(server.folder)

    def ask(transport: str, name: str, rdtype: str) -> dns.message.Message:
        query = dns.message.make_query(name, rdtype, id=0)
        if transport == "tls":
            return dns.query.tls(query, "127.0.0.1", port=server.port, timeout=REPLY, ssl_context=context, server_hostname="server.test")
        if transport == "quic":
            with Client(server.ports["port3"]) as client:
                answer: dns.message.Message = client.ask(query.to_wire())
                return answer
        with httpx.Client(verify=context, base_url=f"https://127.0.0.1:{server.ports['port2']}", timeout=REPLY) as client:
            reply = client.post("/dns-query", content=query.to_wire())
            assert reply.headers["cache-control"].startswith("private, ")
            return dns.message.from_wire(reply.content)

    for transport in ("tls", "https", "quic"):
        assert said(ask(transport, "alias.test.", "AAAA")) == ("NOERROR", [ALIAS], [], [])
        assert [rdata.to_text() for rdata in ask(transport, "svc.test.", "SVCB").answer[0]] == ['2 other.test. port="8443" ipv4hint="192.0.2.1"']


# ---- what operators see ----


def test_metrics(serve: Serve, upstream: Upstream) -> None:
    server = serve(corefile(upstream, "filter_aaaa", "cache"))
    for name, rdtype, dnssec in (("both.test.", "AAAA", False), ("none.test.", "AAAA", False), ("six.test.", "AAAA", False), ("mail.test.", "MX", False)):
        server.query(name, rdtype, want_dnssec=dnssec)
    server.query("both.test.", "AAAA", want_dnssec=True)
    server.query("svc.test.", "HTTPS")
    labels = f'{{server="dns://127.0.0.1:{server.port}",type="AAAA",view=""}}'
    metrics = server.ports["port2"]
    assert server.metric(metrics, f"fastdns_filter_questions_total{labels}") == 2
    assert server.metric(metrics, f"fastdns_filter_records_total{labels}") == 2
    assert server.metric(metrics, f"fastdns_filter_hints_total{labels}") == 1


def test_explain(tmp_path: Path, upstream: Upstream) -> None:
    path = tmp_path / "Corefile"
    path.write_text(corefile(upstream, "filter_aaaa").replace("{port}", "1053").replace("{port2}", "0"))
    for name, rdtype, wanted in (
        ("both.test", "AAAA", "withheld"),
        ("svc.test", "HTTPS", "removed: 0 records, 1 hints"),
        ("mail.test", "MX", "removed: 1 records, 0 hints"),
        ("six.test", "AAAA", ""),
    ):
        words = ["explain", "-json", name, rdtype, "-conf", str(path)]
        done = subprocess.run([*command(), *words], capture_output=True, text=True, timeout=LIMIT)
        steps = [step for step in json.loads(done.stdout)["steps"] if step["handler"] == "filter_aaaa"]
        assert steps[-1].get("note", "") == wanted, (name, done.stdout)
