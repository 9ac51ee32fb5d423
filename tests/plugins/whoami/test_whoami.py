"""whoami answers with the client's address, port and transport."""

from __future__ import annotations

import socket

import dns.flags
import dns.message
import dns.query
import dns.rcode
import pytest

from fastdns.corefile.errors import CorefileError
from fastdns.plugins.whoami import setup
from fastdns.setup import Controller

COREFILE = ".:{port} {\n    bind 127.0.0.1 ::1\n    whoami\n}\n"


def additional(reply: dns.message.Message) -> list[str]:
    return [line for rrset in reply.additional for line in rrset.to_text().splitlines()]


@pytest.fixture
def server(serve):
    return serve(COREFILE)


@pytest.mark.parametrize("rdtype", ["A", "AAAA", "TXT", "ANY", "TYPE65280"])
def test_any_type_is_answered(server, rdtype: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.77", 0))
        port = sock.getsockname()[1]
        request = dns.message.make_query("Example.ORG.", rdtype)
        dns.query.send_udp(sock, request, ("127.0.0.1", server.port))
        reply, _ = dns.query.receive_udp(sock, ("127.0.0.1", server.port), 1e12)
    assert reply.rcode() == dns.rcode.NOERROR
    assert reply.flags & dns.flags.AA
    assert reply.answer == reply.authority == []
    assert additional(reply) == [
        "Example.ORG. 0 IN A 127.0.0.77",
        f"_udp.Example.ORG. 0 IN SRV 0 0 {port} .",
    ]


def test_tcp_and_ipv6(server) -> None:
    tcp = additional(server.query("example.org.", tcp=True))
    assert tcp[0] == "example.org. 0 IN A 127.0.0.1"
    assert tcp[1].startswith("_tcp.example.org. 0 IN SRV 0 0 ")
    six = additional(server.query("example.org.", "A", host="::1"))
    assert six[0] == "example.org. 0 IN AAAA ::1"


def test_the_root(server) -> None:
    lines = additional(server.query(".", "NS"))
    assert lines[0] == ". 0 IN A 127.0.0.1"
    assert lines[1].startswith("_udp. 0 IN SRV 0 0 ")


def test_a_name_without_room_for_the_label(server) -> None:
    """250 octets take the five of `_udp`; 251 do not."""
    for last, count in ((56, 2), (57, 1)):
        name = ".".join(["a" * 63] * 3 + ["b" * last]) + "."
        reply = server.query(name)
        assert sum(len(rrset) for rrset in reply.additional) == count


def test_never_passes_on(serve) -> None:
    """Whoami stands last: a query for a zone of another block is that block's."""
    server = serve("a.test:{port} {\n    bind 127.0.0.1\n    whoami\n}\n")
    assert server.query("x.a.test.").rcode() == dns.rcode.NOERROR
    assert server.query("x.b.test.").rcode() == dns.rcode.REFUSED


def test_arguments_are_refused() -> None:
    with pytest.raises(CorefileError, match=r"Wrong argument count or unexpected line ending after .example\.org."):
        setup(Controller.of("whoami example.org"))
