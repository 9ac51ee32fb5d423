"""erratic: what it answers, and how it goes wrong."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.error
from collections.abc import Callable

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.erratic import Settings, parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("erratic", Settings()),
        ("erratic {\n drop 0\n}", Settings(drop=0)),
        ("erratic {\n drop\n}", Settings()),
        ("erratic {\n delay\n}", Settings(0, 2, 0, 100 * MS)),
        ("erratic {\n delay 1 50ms\n drop 3\n}", Settings(3, 1, 0, 50 * MS)),
        ("erratic {\n truncate\n drop\n}", Settings(0, 0, 2)),
        ("erratic {\n truncate 0\n}", Settings(2, 0, 0)),
        ("erratic {\n truncate 4\n large\n}", Settings(0, 0, 4, 0, True)),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("drop -1", 'illegal amount value given "-1"'),
        ("drop x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("drop 4294967296", 'strconv.ParseInt: parsing "4294967296": value out of range'),
        ("delay 1 x", 'time: invalid duration "x"'),
        ("delay 1 1s 2", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '2'"),
        ("truncate 1 2", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '2'"),
        ("flaky", "Testfile:2 - Error during parsing: unknown property 'flaky'"),
    ],
)
def test_errors(line: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(f"erratic {{\n {line}\n}}"))
    assert str(caught.value) == message


def test_records(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n erratic {\n drop 0\n }\n}\nlarge.test:{port} {\n erratic {\n drop 0\n large\n }\n}")
    assert server.answers("X.test.") == ["192.0.2.53"]
    assert server.query("X.test.").answer[0].name.to_text() == "X.test."
    assert server.answers("x.test.", "AAAA") == ["2001:db8::53"]
    assert server.query("x.test.").flags & dns.flags.AA
    assert server.answers("x.test.", "MX") == ["SERVFAIL"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:  # dnspython makes one of thirty equal records
        client.settimeout(REPLY)
        client.sendto(dns.message.make_query("large.test.", "A").to_wire(), ("127.0.0.1", server.port))
        reply = client.recv(4096)
    assert int.from_bytes(reply[6:8], "big") == 30


def test_drops(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n erratic {\n drop 3\n }\n}")
    for number in range(6):
        if number % 3 == 0:
            with pytest.raises(dns.exception.Timeout):
                server.query("a.test.", timeout=0.5)
        else:
            assert server.answers("a.test.") == ["192.0.2.53"]


def test_truncation(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n erratic {\n truncate 2\n }\n}")
    assert [bool(server.query("a.test.").flags & dns.flags.TC) for _ in range(8)] == [True, True, False, False] * 2


@pytest.mark.parametrize(("name", "rcode"), [("A", "NOERROR"), ("MX", "SERVFAIL")])
def test_delays(serve: Callable[..., Server], name: str, rcode: str) -> None:
    server = serve(".:{port} {\n erratic {\n delay 2 600ms\n }\n}")
    start = time.monotonic()
    for late in (True, False, True):
        before = time.monotonic()
        assert dns.rcode.to_text(server.query("a.test.", name).rcode()) == rcode
        assert not late or time.monotonic() - before > 0.55
    assert time.monotonic() - start > 1.1


def test_delayed_queries_do_not_outlive_their_limit(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n cancel 300ms\n erratic {\n delay 1 1h\n }\n}")
    assert server.answers("a.test.") == ["SERVFAIL"]
    assert server.stop() == 0


def test_readiness(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n ready 127.0.0.1:{port2} {\n monitor continuously\n }\n erratic {\n drop 0\n }\n}")
    for count in range(7):
        with contextlib.ExitStack() as stack:
            if not 3 <= count < 5:
                stack.enter_context(pytest.raises(urllib.error.HTTPError, match="503"))
            assert server.get(server.ports["port2"], "/ready") == "OK"
        server.query("a.test.")


def test_search_path(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n autopath @erratic\n erratic {\n drop 0\n }\n}")
    reply = server.query("www.a.example.org.")
    assert [rrset.name.to_text() for rrset in reply.answer] == ["www.a.example.org."]
