"""unbound: answers from the root on, validated, beside those of Unbound's daemon."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from tests.differential.replies import AD as ANSWER_AD
from tests.differential.replies import ask
from tests.plugins.unbound.internet import FADING, HOSTS, TLD, ZONES, Internet, run_unbound
from tests.server import Server, command

Serve = Callable[..., Server]

SECURE = dns.flags.AD
SIGNATURES = {dns.rdatatype.RRSIG, dns.rdatatype.NSEC, dns.rdatatype.NSEC3}


@pytest.fixture(scope="module")
def resolver(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Server:
    server = Server(tmp_path_factory.mktemp("resolver"), internet.corefile(above="prometheus 127.0.0.1:{port2}"))
    with server:
        yield server


def reasons(reply: dns.message.Message) -> list[int]:
    """Codes of extended errors."""
    return [option.code for option in reply.options if isinstance(option, dns.edns.EDEOption)]


def types(reply: dns.message.Message) -> set[int]:
    return {rrset.rdtype for section in (reply.answer, reply.authority, reply.additional) for rrset in section}


# ---- answers ----


@pytest.mark.parametrize(
    ("name", "rdtype", "rcode", "secure", "answer"),
    [
        ("host1.nsec", "A", "NOERROR", True, ["192.0.2.2"]),
        ("host1.nsec3", "A", "NOERROR", True, ["192.0.2.2"]),
        ("host1.plain", "A", "NOERROR", False, ["192.0.2.2"]),
        ("nothing.nsec", "A", "NXDOMAIN", True, []),
        ("nothing.nsec3", "A", "NXDOMAIN", True, []),
        ("nothing.plain", "A", "NXDOMAIN", False, []),
        ("host1.nsec", "AAAA", "NOERROR", True, []),
        ("alias.nsec", "A", "NOERROR", True, ["192.0.2.2", f"host1.nsec.{TLD}."]),
        ("outside.plain", "A", "NOERROR", False, ["192.0.2.3", f"host2.nsec.{TLD}."]),
        ("x.wild.nsec3", "A", "NOERROR", True, ["192.0.2.2"]),
        ("host7.moved.nsec", "A", "NOERROR", True, ["192.0.2.8", f"host7.nsec.{TLD}.", f"nsec.{TLD}."]),
    ],
)
def test_answers(resolver: Server, name: str, rdtype: str, rcode: str, secure: bool, answer: list[str]) -> None:
    reply = resolver.query(f"{name}.{TLD}", rdtype, want_dnssec=True)
    assert dns.rcode.to_text(reply.rcode()) == rcode
    assert bool(reply.flags & SECURE) == secure
    assert reply.flags & dns.flags.RA
    assert not reply.flags & dns.flags.AA
    assert sorted(rdata.to_text() for rrset in reply.answer if rrset.rdtype not in SIGNATURES for rdata in rrset) == answer
    assert (dns.rdatatype.RRSIG in types(reply)) == (secure or name == "outside.plain")


@pytest.mark.parametrize(("zone", "reason"), [("expired", 7), ("future", 8), ("unsigned", 9), ("stranger", 9)])
@pytest.mark.parametrize("name", ["host1", "host2", "nothing"])
def test_bogus_data_is_for_those_who_check_it_themselves(resolver: Server, zone: str, reason: int, name: str) -> None:
    reply = resolver.query(f"{name}.{zone}.{TLD}", want_dnssec=True)
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert not reply.answer
    assert reasons(reply) == [reason]
    assert f"<{name}.{zone}.{TLD}. A IN>" in reply.options[0].to_text()
    plain = resolver.query(f"{name}.{zone}.{TLD}", use_edns=-1)
    assert plain.rcode() == dns.rcode.SERVFAIL
    assert plain.edns == -1
    request = dns.message.make_query(f"{name}.{zone}.{TLD}", "A", want_dnssec=True)
    request.flags |= dns.flags.CD
    reply = resolver.send(request)
    assert reply.rcode() == (dns.rcode.NXDOMAIN if name == "nothing" else dns.rcode.NOERROR)
    assert bool(reply.answer) == (name != "nothing")
    assert reply.flags & dns.flags.CD
    assert not reply.flags & SECURE


@pytest.mark.parametrize(
    ("do", "flags", "secure", "signed"),
    [(False, dns.flags.RD, False, False), (False, dns.flags.RD | dns.flags.AD, True, False), (True, dns.flags.RD, True, True), (True, 0, True, True)],
)
def test_who_gets_signatures_and_the_verdict(resolver: Server, do: bool, flags: int, secure: bool, signed: bool) -> None:
    for name in ("host3", "nothing"):
        request = dns.message.make_query(f"{name}.nsec3.{TLD}", "A", want_dnssec=do)
        request.flags = dns.flags.Flag(flags)
        reply = resolver.send(request)
        assert bool(reply.flags & SECURE) == secure
        assert bool(types(reply) & SIGNATURES) == signed
        assert reply.flags & dns.flags.RD == flags & dns.flags.RD
        assert bool(reply.ednsflags & dns.flags.DO) == do


@pytest.mark.parametrize("rdtype", ["RRSIG", "NSEC", "ANY"])
def test_signatures_that_are_asked_for_come_without_do(resolver: Server, rdtype: str) -> None:
    reply = resolver.query(f"host4.nsec.{TLD}", rdtype, tcp=True)
    assert dns.rdatatype.RRSIG in types(reply) or dns.rdatatype.NSEC in types(reply)


@pytest.mark.parametrize("asked", ["mixed", "MIXED", "mIxEd"])
def test_a_reply_has_the_letters_of_its_question(resolver: Server, asked: str) -> None:
    reply = resolver.query(f"{asked}.plain.{TLD}")
    assert reply.question[0].name.to_text() == f"{asked}.plain.{TLD}."
    assert reply.answer[0].name.to_text() == f"{asked}.plain.{TLD}."


@pytest.mark.parametrize("label", ["a.b", "a\\.b", 'quo"te', "semi;colon", "\\000\\255", "sp ace", "at@sign", "back\\\\slash", "*"])
def test_labels_of_any_octets(resolver: Server, label: str) -> None:
    reply = resolver.query(f"{label}.nsec.{TLD}".replace(" ", "\\032"))
    assert reply.rcode() == dns.rcode.NXDOMAIN
    assert resolver.query(f"{label}.wild.nsec.{TLD}".replace(" ", "\\032")).answer[0][0].to_text() == "192.0.2.2"


@pytest.mark.parametrize(("rdtype", "rcode"), [("AXFR", "REFUSED"), ("IXFR", "REFUSED"), ("MAILB", "FORMERR"), ("TYPE200", "FORMERR"), ("TKEY", "FORMERR")])
def test_types_that_no_zone_has(resolver: Server, rdtype: str, rcode: str) -> None:
    request = dns.message.make_query(f"nsec.{TLD}", rdtype)
    assert dns.rcode.to_text(resolver.send(request, tcp=True).rcode()) == rcode


def test_a_large_reply_is_cut_over_udp_and_whole_over_tcp(resolver: Server) -> None:
    assert resolver.query(f"large.plain.{TLD}", "TXT", payload=1232).flags & dns.flags.TC
    assert len(resolver.query(f"large.plain.{TLD}", "TXT", tcp=True).answer[0][0].strings) == 15


# ---- as the daemon has it ----


def test_a_thousand_names_as_the_daemon_answers_them(internet: Internet, resolver: Server, tmp_path: Path) -> None:
    source = random.Random(11)
    kinds = ("A", "A", "A", "TXT", "MX", "AAAA", "DS", "NS", "SOA", "DNSKEY", "CNAME")
    hosts = [f"host{number}" for number in range(HOSTS)]
    names = [*hosts, "alias", "outside", "x.wild", "y.x.wild", "host1.moved", "large", "nothing", "a.b.c", "host1.x", "@"]
    zones = [*sorted(ZONES), *("nsec", "nsec3", "plain") * 3]
    wanted = set()
    while len(wanted) < 1000:
        wanted.add((source.choice(names), source.choice(zones), source.choice(kinds), source.random() < 0.5, source.random() < 0.3))
    messages = []
    for name, zone, kind, do, ad in sorted(wanted):
        request = dns.message.make_query(f"{name}.{zone}.{TLD}".removeprefix("@."), kind, want_dnssec=do, payload=4096)
        request.flags |= dns.flags.AD if ad else 0
        request.id = 0
        messages.append(request.to_wire())
    found = 0
    with run_unbound(tmp_path / "unbound", internet) as port:
        for start in range(0, len(messages), 50):
            few = messages[start : start + 50]
            theirs, ours = ask([port, resolver.port], few)
            for message, their, our in zip(few, theirs, ours, strict=True):
                said = f"{dns.message.from_wire(message).question[0]}\n unbound {their.flags:04x} {their}\n ours    {our.flags:04x} {our}"
                assert our.rcode == their.rcode, said
                assert our.flags & ANSWER_AD == their.flags & ANSWER_AD, said
                for section in ("answer", "authority"):
                    pairs = [
                        {(key, data) for key, records in getattr(reply, section).items() for _, data in records if key[1] != dns.rdatatype.NS}
                        for reply in (their, our)
                    ]
                    assert pairs[0] == pairs[1], said
                found += bool(our.answer)
    assert found > 200


# ---- which queries ----


def test_zones_exceptions_and_the_next_plugin(serve: Serve, internet: Internet) -> None:
    lines = "".join(f'        option {name} "{value}"\n' for name, value in internet.options())
    server = serve(
        f".:{{port}} {{\n    unbound nsec.{TLD} plain.{TLD} {{\n{lines}        except host2.nsec.{TLD} host1.plain.{TLD}\n    }}\n}}\n"
        f"{TLD}:{{port2}} {{\n    unbound {{\n{lines}    }}\n    whoami\n}}\n"
    )
    assert server.answers(f"host1.nsec.{TLD}") == ["192.0.2.2"]
    for name in (f"host2.nsec.{TLD}", f"x.host1.plain.{TLD}", f"host1.nsec3.{TLD}"):
        assert server.answers(name) == ["SERVFAIL"]  # there is no next plugin
    assert server.query(f"host1.nsec3.{TLD}", port=server.ports["port2"]).answer == []  # whoami, which stands before it
    tasks = [path.read_text() for path in Path(f"/proc/{server.pid}/task").glob("*/comm")]
    assert tasks.count("unbound\n") == 1  # both blocks say the same, and share a context


# ---- options of libunbound ----


def test_options_have_effect(serve: Serve, internet: Internet) -> None:
    """Data of one's own, a policy zone (of which libunbound applies what is not about the question's own name), denials from NSEC records that are cached."""

    def prepare(folder: Path) -> None:
        (folder / "policy.zone").write_text(
            f"$ORIGIN policy.\n@ 300 SOA ns. admin. 1 3600 600 86400 300\n@ 300 NS ns.\nhost1.plain.{TLD} 300 CNAME .\nns.nsec3.{TLD}.rpz-nsdname 300 CNAME .\n"
        )
        (folder / "unbound.conf").write_text(
            f'server:\n    module-config: "respip validator iterator"\n    local-data: "here.plain.{TLD}. 60 A 203.0.113.2"\n'
            f'    local-zone: "host2.plain.{TLD}." always_nxdomain\nrpz:\n    name: policy.\n    zonefile: "{folder}/policy.zone"\n'
        )

    lines = "".join(f'        option {name} "{value}"\n' for name, value in internet.options(("aggressive-nsec", "yes")))
    server = serve(f".:{{port}} {{\n    unbound {{\n        config {{dir}}/unbound.conf\n{lines}    }}\n}}\n", prepare=prepare)
    assert server.answers(f"here.plain.{TLD}") == ["203.0.113.2"]
    assert server.answers(f"host2.plain.{TLD}") == ["NXDOMAIN"]
    assert server.answers(f"alias.plain.{TLD}") == ["NXDOMAIN"]
    assert server.answers(f"host3.nsec3.{TLD}") == ["NXDOMAIN"]
    assert server.answers(f"host7.plain.{TLD}") == ["192.0.2.8"]
    assert server.answers(f"nothing.nsec.{TLD}") == ["NXDOMAIN"]
    before = internet.queries("leaves")
    assert [server.answers(f"nothing{letter}.nsec.{TLD}") for letter in "abcdef"] == [["NXDOMAIN"]] * 6
    assert internet.queries("leaves") == before


def test_names_of_the_question_are_cut_down_to_what_each_server_needs(serve: Serve, internet: Internet) -> None:
    server = serve(internet.corefile(("qname-minimisation-strict", "yes")))
    assert server.answers(f"host1.plain.{TLD}") == ["192.0.2.2"]


def test_what_has_expired_is_served_while_its_servers_are_away(serve: Serve, internet: Internet) -> None:
    server = serve(internet.corefile(("serve-expired", "yes"), ("serve-expired-client-timeout", "200")))
    with internet.run_fading():
        assert server.answers(f"short.{FADING}.{TLD}") == ["192.0.2.3"]
    time.sleep(2.5)
    assert server.answers(f"short.{FADING}.{TLD}") == ["192.0.2.3"]


# ---- what operators see ----


def test_metrics(resolver: Server) -> None:
    port = resolver.ports["port2"]
    server = f'server="dns://127.0.0.1:{resolver.port}"'

    def values() -> list[float]:
        return [
            resolver.metric(port, f'coredns_unbound_response_rcode_count_total{{rcode="NOERROR",{server}}}'),
            resolver.metric(port, f'coredns_unbound_response_rcode_count_total{{rcode="SERVFAIL",{server}}}'),
            resolver.metric(port, f"coredns_unbound_request_duration_seconds_count{{{server}}}"),
            resolver.metric(port, f'fastdns_unbound_validations_total{{result="secure",{server}}}'),
            resolver.metric(port, f'fastdns_unbound_validations_total{{result="insecure",{server}}}'),
            resolver.metric(port, f'fastdns_unbound_validations_total{{result="bogus",{server}}}'),
        ]

    before = values()
    for zone in ("nsec", "plain", "expired"):
        resolver.query(f"host9.{zone}.{TLD}")
    assert [now - then for then, now in zip(before, values(), strict=True)] == [2, 1, 3, 1, 1, 1]


def test_explain_says_what_validation_found(resolver: Server) -> None:
    for zone, note in (("nsec", "secure"), ("plain", "insecure"), ("expired", "signature expired")):
        done = subprocess.run([*command(), "explain", "-conf", str(resolver.corefile), f"host8.{zone}.{TLD}", "A"], capture_output=True, text=True, check=False)
        assert re.search(rf"unbound.*{note}", done.stdout), done.stdout + done.stderr
