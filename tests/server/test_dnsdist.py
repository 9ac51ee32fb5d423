"""dnsdist in front of the server, which it asks over TLS and over HTTPS."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import pytest

from tests.certificates import write_certificates
from tests.programs import program, running
from tests.server import Server, free_port
from tests.waiting import REPLY, until

COREFILE = "SCHEME://.:{port} {\n bind 127.0.0.1\n tls server.pem server.key\n hosts {\n 192.0.2.1 a.test\n }\n}"
DNSDIST = """
setLocal("127.0.0.1:%d")
setACL({"127.0.0.0/8"})
newServer({address="127.0.0.1:%d", tls="openssl", validateCertificates=false, subjectName="server.test"%s}):setUp()
"""
QUERIES = 5000
WINDOW = 100


def is_answered(port: int) -> bool:
    try:
        return bool(dns.query.udp(dns.message.make_query("a.test.", "A"), "127.0.0.1", port=port, timeout=2).answer)
    except (OSError, dns.exception.Timeout):
        return False


def lost(port: int) -> int:
    """Of QUERIES, some of them at a time, those without an answer."""
    tail = dns.message.make_query("a.test.", "A", id=0).to_wire()[2:]
    waiting: set[int] = set()
    following = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        while following < QUERIES or waiting:
            while following < QUERIES and len(waiting) < WINDOW:
                sock.send(following.to_bytes(2, "big") + tail)
                waiting.add(following)
                following += 1
            if not select.select([sock], [], [], REPLY)[0]:
                break
            reply = sock.recv(512)
            if reply[7]:
                waiting.discard(int.from_bytes(reply[:2], "big"))
    return QUERIES - following + len(waiting)


@pytest.mark.parametrize(("scheme", "options"), [("tls", ""), ("https", ', dohPath="/dns-query"')])
def test_no_query_is_lost(serve: Callable[..., Server], tmp_path: Path, scheme: str, options: str) -> None:
    server = serve(COREFILE.replace("SCHEME", scheme), prepare=write_certificates)
    port = free_port()
    path = tmp_path / "dnsdist.conf"
    path.write_text(DNSDIST % (port, server.port, options))
    with running(program("dnsdist"), "--supervised", "--disable-syslog", "-C", str(path)):
        until(lambda: is_answered(port), "an answer through dnsdist")
        assert lost(port) == 0
