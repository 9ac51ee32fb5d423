"""Answers that templates write, through sockets."""

from __future__ import annotations

import dns.edns
import dns.flags
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.template import parse
from fastdns.setup import Controller
from tests.server import Server

COREFILE = r"""
.:{port} {
    bind 127.0.0.1
    metadata
    errors
    prometheus 127.0.0.1:{port2}
    template IN A ip.test {
        match ^ip-(?P<a>\d+)-(?P<b>\d+)[.]
        answer "{{ .Name }} 60 IN A 192.0.{{ .Group.a }}.{{ index .Match 2 }}"
        additional "x.{{ .Zone }} TXT \"{{ .Remote }} {{ .Type }} {{ .Class }} {{ .Group.nope }}\""
        authority "ip.test. 7 NS ns.ip.test"
        fallthrough
    }
    template IN A ip.test {
        match ^two[.]
        answer "{{ .Name }} A 192.0.2.2"
    }
    template IN TXT go.test {
        answer "{{ .Name }} 1 TXT \"TEXT\""
    }
    template ANY ANY any.test {
        answer "{{ .Name }} 5 {{ .Class }} TXT \"{{ .Type }}|{{ .Question.Name }}|{{ .Question.Qtype }}|{{ .Message.RecursionDesired }}\""
    }
    template IN A var.test {
        match "^n(?P<n>[0-9]+)[.]"
        var num int(group('n'))
        var text group(1) + '!'
        expr num > 1
        answer "{{ .Name }} 1 IN TXT \"{{ .Var.num }} {{ .Var.text }} {{ .Var.none }}\""
        fallthrough
    }
    template IN ANY nx.test {
        rcode NXDOMAIN
        authority "nx.test. 60 SOA ns.nx.test. admin.nx.test. (1 60 60 60 60)"
        ederror 21 "not here"
    }
    template IN A refused.test {
        rcode REFUSED
        answer "{{ .Name }} A 192.0.2.1"
    }
    template IN A servfail.test {
        rcode SERVFAIL
    }
    template IN A badrr.test {
        answer "{{ .Name }} IN A not-an-ip"
    }
    template IN A badtext.test {
        answer "{{ .Name }} IN A {{ index .Match 2 }}"
    }
    template IN A empty.test {
        answer "{{ if eq .Type \"MX\" }}{{ .Name }} A 192.0.2.1{{ end }}"
    }
    template IN A alias.test {
        match ^loop[.]
        answer "{{ .Name }} 60 CNAME loop.alias.test"
    }
    template IN ANY chain.test {
        answer "{{ .Name }} 60 CNAME two.ip.test"
        answer "{{ .Name }} 60 TXT last"
    }
    template IN TXT steal.test {
        match ^(?P<x>.*?)[.]steal
        answer "{{ .Group.x }} /etc/hostname"
    }
    whoami
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    # {port} is filled in by the server; what else stands in braces is the templates' own
    with Server(tmp_path_factory.mktemp("template"), COREFILE) as running:
        yield running


def lines(section) -> list[str]:
    return [line for rrset in section for line in rrset.to_text().splitlines()]


ANSWERS = [
    (
        "IP-2-10.ip.test. A",
        0,
        ["ip-2-10.ip.test. 60 IN A 192.0.2.10"],
        ["ip.test. 7 IN NS ns.ip.test."],
        ['x.ip.test. 3600 IN TXT "127.0.0.1 A IN <no value>"'],
    ),
    ("two.ip.test. A", 0, ["two.ip.test. 3600 IN A 192.0.2.2"], [], []),
    ("three.ip.test. A", 2, [], [], []),
    ("x.any.test. MX", 0, ['x.any.test. 5 IN TXT "MX|x.any.test.|15|true"'], [], []),
    ("X.any.test. ANY", 0, ['x.any.test. 5 IN TXT "ANY|X.any.test.|255|true"'], [], []),
    ("n2.var.test. A", 0, ['n2.var.test. 1 IN TXT "2 2! <no value>"'], [], []),
    ("x.nx.test. MX", 3, [], ["nx.test. 60 IN SOA ns.nx.test. admin.nx.test. 1 60 60 60 60"], []),
    ("x.refused.test. A", 5, ["x.refused.test. 3600 IN A 192.0.2.1"], [], []),
    ("x.servfail.test. A", 2, [], [], []),
    ("x.badrr.test. A", 2, [], [], []),
    ("x.badtext.test. A", 2, [], [], []),
    ("x.empty.test. A", 0, [], [], []),
    ("a.chain.test. TXT", 0, ["a.chain.test. 60 IN CNAME two.ip.test.", 'a.chain.test. 60 IN TXT "last"'], [], []),
    ("a.chain.test. A", 0, ["a.chain.test. 60 IN CNAME two.ip.test.", "two.ip.test. 3600 IN A 192.0.2.2", 'a.chain.test. 60 IN TXT "last"'], [], []),
    ("$include.steal.test. TXT", 2, [], [], []),
]


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize(("question", "rcode", "answer", "authority", "additional"), ANSWERS, ids=[case[0] for case in ANSWERS])
def test_answers(server, question: str, rcode: int, answer: list[str], authority: list[str], additional: list[str], tcp: bool) -> None:
    name, kind = question.split()
    reply = server.query(name, kind, tcp=tcp)
    assert reply.rcode() == rcode
    assert (lines(reply.answer), lines(reply.authority), lines(reply.additional)) == (answer, authority, additional)
    assert bool(reply.flags & dns.flags.AA) == (rcode != 2)


def test_what_no_template_wants_passes(server) -> None:
    assert len(server.query("n1.var.test.", "A").additional) == 2
    assert len(server.query("elsewhere.test.", "A").additional) == 2


def test_an_alias_of_itself_ends(server) -> None:
    reply = server.query("loop.alias.test.", "A", tcp=True)
    assert reply.rcode() == dns.rcode.NOERROR
    assert lines(reply.answer)[0] == "loop.alias.test. 60 IN CNAME loop.alias.test."


def test_extended_errors(server) -> None:
    assert server.query("x.nx.test.", "A").edns == -1
    reply = server.query("x.nx.test.", "A", use_edns=0, payload=1400)
    assert (reply.payload, reply.ednsflags & dns.flags.DO) == (1400, 0)
    (option,) = reply.options
    assert (int(option.code), option.text) == (21, "not here")
    assert isinstance(option, dns.edns.EDEOption)


def test_errors_and_metrics_tell_what_failed(server) -> None:
    server.query("x.badrr.test.", "A")
    server.query("x.badtext.test.", "A")
    server.wait_log(r'plugin/errors: 2 x\.badrr\.test\. A: dns: .*"not-an-ip" at line: 1:\d+')
    server.wait_log(
        r'plugin/errors: 2 x\.badtext\.test\. A: template: answer:1:\d+: executing "answer" at <index \.Match 2>: error calling index: index out of range: 2'
    )
    server.query("two.ip.test.", "A")
    page = server.get(int(server.ports["port2"]), "/metrics")
    place = f'server="dns://127.0.0.1:{server.port}",view=""'
    for metric, zone in (("rr_failures", "badrr.test."), ("template_failures", "badtext.test."), ("matches", "ip.test.")):
        found = [line for line in page.splitlines() if line.startswith(f"coredns_template_{metric}_total{{") and f'zone="{zone}"' in line]
        assert found, metric
        assert 'class="IN"' in found[0]
        assert 'type="A"' in found[0]
    assert place.split(",", maxsplit=1)[0] in page


BAD = [
    ("template", "Wrong argument count or unexpected line ending after 'template'"),
    ("template XX ANY", "invalid query class XX"),
    ("template ANY XX", "invalid RR class XX"),
    ("template IN A {\n match (\n}", "could not parse regex: (, error parsing regexp: missing closing ): `(`"),
    ("template IN A {\n match\n}", "Wrong argument count or unexpected line ending after 'match'"),
    ("template IN A {\n match " + "a" * 10001 + "\n}", "regex pattern too long: 10001 > 10000"),
    ("template IN A {\n answer {{ foo }}\n}", "could not compile template: }}, template: answer:1: unclosed action"),
    ('template IN A {\n answer "{{ foo }}"\n}', 'could not compile template: {{ foo }}, template: answer:1: function "foo" not defined'),
    ('template IN A {\n additional "{{ end }}"\n}', "could not compile template: {{ end }}, template: additional:1: unexpected {{end}}"),
    ("template IN A {\n rcode FOO\n}", "unknown rcode FOO"),
    ("template IN A {\n ederror x\n}", "error parsing extended DNS error code x"),
    ("template IN A {\n ederror 1 a b\n}", "Wrong argument count"),
    ("template IN A {\n var x\n}", "Wrong argument count"),
    ("template IN A {\n var 1x 2\n}", 'invalid variable name "1x"'),
    ("template IN A {\n var name 2\n}", 'variable name "name" is reserved'),
    ("template IN A {\n var len 2\n}", 'variable name "len" is reserved'),
    ("template IN A {\n var x 2\n var x 3\n}", 'variable name "x" is reserved'),
    ("template IN A {\n var x y + 1\n var y 1\n}", "could not compile expression: x, unknown name y (1:1)"),
    ("template IN A {\n var a 1\n expr a + 'x'\n}", "could not compile expression: invalid operation: + (mismatched types int and string) (1:3)"),
    ("template IN A {\n foo\n}", "Wrong argument count or unexpected line ending after 'foo'"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text[:60].replace("\n", " ") for text, _ in BAD])
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert message in str(caught.value)
