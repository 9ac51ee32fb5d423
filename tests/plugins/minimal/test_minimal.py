"""minimal drops what a positive answer can do without, and touches nothing else."""

from __future__ import annotations

import dns.edns
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.minimal import setup
from fastdns.setup import Controller
from fastdns.testing import Upstream

SOA = "example.org. 60 IN SOA ns.example.org. admin.example.org. 1 2 3 4 5"
NS = "example.org. 60 IN NS ns.example.org."
GLUE = "ns.example.org. 60 IN A 192.0.2.53"

#: First label: rcode, answer, authority, additional
REPLIES = {
    "positive": (0, ["positive.example.org. 60 IN A 192.0.2.1", "positive.example.org. 60 IN A 192.0.2.2"], [NS], [GLUE]),
    "nodata": (0, [], [SOA], [GLUE]),
    "nothing": (0, [], [], [GLUE]),
    "nxdomain": (3, [], [SOA], [GLUE]),
    "delegation": (0, [], [NS], [GLUE]),
    "servfail": (2, [], [NS], [GLUE]),
    "refused": (5, [], [NS], [GLUE]),
    "answered-nxdomain": (3, ["answered-nxdomain.example.org. 60 IN CNAME x.example.net."], [SOA], []),
}


def answer(query: dns.message.Message) -> dns.message.Message:
    reply = dns.message.make_response(query)
    rcode, *sections = REPLIES[query.question[0].name.labels[0].decode()]
    reply.set_rcode(dns.rcode.Rcode(rcode))
    for section, texts in zip((reply.answer, reply.authority, reply.additional), sections, strict=True):
        section += [dns.rrset.from_text(*text.split(None, 4)) for text in texts]
    if query.edns >= 0:
        reply.use_edns(0, options=[dns.edns.EDEOption(3)])
    return reply


def texts(section: list[dns.rrset.RRset]) -> list[str]:
    return sorted(line for rrset in section for line in rrset.to_text().splitlines())


@pytest.fixture(scope="module")
def upstream():
    with Upstream(answer) as upstream:
        yield upstream


@pytest.mark.parametrize("label", REPLIES)
def test_replies(serve, upstream, label: str) -> None:
    server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n    minimal\n    forward . {upstream.address}\n}}\n")
    reply = server.query(f"{label}.example.org.", use_edns=0)
    small = label in ("positive", "nothing")
    rcode, answers, authority, additional = REPLIES[label]
    assert reply.rcode() == rcode
    assert texts(reply.answer) == answers
    assert texts(reply.authority) == ([] if small else authority)
    assert texts(reply.additional) == ([] if small else additional)
    assert [int(option.otype) for option in reply.options] == ([] if small else [15])


def test_what_nobody_wrote_stays_a_failure(serve) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    errors\n    minimal\n    hosts {\n        192.0.2.1 a.test\n    }\n}\n")
    assert server.query("b.test.").rcode() == dns.rcode.SERVFAIL
    assert server.answers("a.test.") == ["192.0.2.1"]


def test_a_notify_is_told(serve) -> None:
    """Nothing that can be made smaller: it is sent as it is, with CoreDNS's line in the log."""
    server = serve(".:{port} {\n    bind 127.0.0.1\n    errors\n    minimal\n    whoami\n}\n")
    request = dns.message.make_query("Example.org.", "SOA")
    request.set_opcode(dns.opcode.NOTIFY)
    assert len(server.send(request).additional) == 2
    server.wait_log(r'plugin/errors: 0 example.org. SOA: plugin/minimal: unhandled response type "META" for "Example.org."')


def test_errors() -> None:
    with pytest.raises(CorefileError, match="Wrong argument count or unexpected line ending after 'x'"):
        setup(Controller.of("minimal x"))
