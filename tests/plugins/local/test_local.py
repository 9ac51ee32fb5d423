"""local: names that are answered here, and those that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import dns.flags
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.local import parse
from fastdns.setup import Controller
from tests.server import Server

SOA = "localhost. root.localhost. 1 0 0 0 604800"


@pytest.mark.parametrize(
    ("text", "wanted"), [("local", True), ("local {\n}", True), ("local {\n localhost_prefix off\n}", False), ("local {\n localhost_prefix on\n}", True)]
)
def test_properties(text: str, wanted: bool) -> None:
    assert parse(Controller.of(text)) is wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("local a", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'a'"),
        ("local {\n localhost_prefix\n}", "Wrong argument count or unexpected line ending after 'localhost_prefix'"),
        ("local {\n localhost_prefix yes\n}", "Testfile:2 - Error during parsing: localhost_prefix expects 'on' or 'off', got \"yes\""),
        ("local {\n prefix off\n}", "Testfile:2 - Error during parsing: unknown property 'prefix'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value).endswith(message)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    corefile = "example.net localhost in-addr.arpa .:{port2} {\n local\n whoami\n}\n.:{port} {\n prometheus 127.0.0.1:{port3}\n debug\n local\n whoami\n}\n"
    corefile += ".:{port4} {\n local {\n localhost_prefix off\n }\n whoami\n}\n"
    with Server(tmp_path_factory.mktemp("local"), corefile) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "rdtype", "rcode", "answer", "authority"),
    [
        ("localHOst.", "A", "NOERROR", ["localHOst. 604800 IN A 127.0.0.1"], []),
        ("localhost.", "AAAA", "NOERROR", ["localhost. 604800 IN AAAA ::1"], []),
        ("localhost.", "SOA", "NOERROR", [f"localhost. 604800 IN SOA {SOA}"], []),
        ("localhost.", "NS", "NOERROR", ["localhost. 604800 IN NS localhost."], []),
        ("localhost.", "MX", "NOERROR", [], [f"localhost. 604800 IN SOA {SOA}"]),
        ("a.b.LocalHost.", "A", "NOERROR", ["a.b.LocalHost. 604800 IN A 127.0.0.1"], []),
        ("localhost.example.net.", "AAAA", "NOERROR", ["localhost.example.net. 604800 IN AAAA ::1"], []),
        ("localhost.example.net.", "TXT", "NOERROR", [], [f"localhost.example.net. 604800 IN SOA {SOA}"]),
        ("localhost.127.in-addr.arpa.", "NS", "NOERROR", [], [f"localhost.127.in-addr.arpa. 604800 IN SOA {SOA}"]),
        ("127.in-addr.arpa.", "A", "NOERROR", [], [f"127.in-addr.arpa. 604800 IN SOA {SOA}"]),
        ("127.in-addr.arpa.", "AAAA", "NOERROR", [], [f"127.in-addr.arpa. 604800 IN SOA {SOA}"]),
        ("0.IN-addr.arpa.", "NS", "NOERROR", ["0.IN-addr.arpa. 604800 IN NS localhost."], []),
        ("1.0.0.127.in-addr.ARPA.", "PTR", "NOERROR", ["1.0.0.127.in-addr.ARPA. 604800 IN PTR localhost."], []),
        ("1.0.0.127.in-addr.ARPA.", "SOA", "NOERROR", [], [f"127.in-addr.ARPA. 604800 IN SOA {SOA}"]),
        ("2.0.0.127.in-addr.arpa.", "PTR", "NXDOMAIN", [], [f"127.in-addr.arpa. 604800 IN SOA {SOA}"]),
        ("1.255.in-addr.arpa.", "A", "NXDOMAIN", [], [f"255.in-addr.arpa. 604800 IN SOA {SOA}"]),
    ],
)
def test_answers(server: Server, name: str, rdtype: str, rcode: str, answer: list[str], authority: list[str]) -> None:
    reply = server.query(name, rdtype)
    assert dns.rcode.to_text(reply.rcode()) == rcode
    assert [rrset.to_text() for rrset in reply.answer] == answer
    assert [rrset.to_text() for rrset in reply.authority] == authority
    assert not reply.flags & (dns.flags.AA | dns.flags.RA)


@pytest.mark.parametrize("name", ["example.net.", "localhosts.", "mylocalhost.", "localhost1.example.net.", "a.localhost.example.net.", "1.in-addr.arpa.", "."])
def test_other_names_pass(server: Server, name: str) -> None:
    assert server.query(name).additional, "whoami"


def test_without_the_prefix(server: Server) -> None:
    port = server.ports["port4"]
    assert server.query("localhost.example.net.", port=port).additional, "whoami"
    assert server.answers("a.localhost.", port=port) == ["127.0.0.1"]


def test_what_is_intercepted_is_counted_and_logged(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n prometheus 127.0.0.1:{port2}\n debug\n local\n whoami\n}")
    for name in ("Localhost.example.net.", "x.localhost.", "localhost.", "127.in-addr.arpa."):
        server.query(name)
    server.wait_log(r'^\[DEBUG\] plugin/local: Intercepting localhost query for "localhost\.example\.net\." A, from 127\.0\.0\.1$')
    assert server.metric(server.ports["port2"], "coredns_local_localhost_requests_total") == 2
