"""Proxies that nobody here wrote in front of the server: haproxy over TCP, dnsdist over UDP and TCP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import grpc
import pytest

from tests.grpc_client import client
from tests.programs import program, running
from tests.proxying import whose
from tests.server import Server, free_port
from tests.waiting import until

COREFILE = """
.:{port} {
    bind 127.0.0.1
    proxyproto {
        allow 127.0.0.9/32
    }
    whoami
}
"""

HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend in
    bind 127.0.0.1:%d
    default_backend out
backend out
    source 127.0.0.9
    server one 127.0.0.1:%d %s check inter 100ms
"""

DNSDIST = """
setLocal("127.0.0.1:%d")
setACL({"127.0.0.0/8"})
newServer({address="127.0.0.1:%d", source="127.0.0.9", useProxyProtocol=true, checkInterval=1, mustResolve=true, checkName="health.", maxCheckFailures=1})
"""


def client_at(port: int, source: str, tcp: bool) -> str:
    """The client that the server saw; "" without a reply."""
    ask = dns.query.tcp if tcp else dns.query.udp
    try:
        return whose(ask(dns.message.make_query("a.", "A"), "127.0.0.1", port=port, source=source, timeout=2))[0]
    except (OSError, EOFError, dns.exception.Timeout):
        return ""


@pytest.mark.parametrize("version", ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"])
def test_haproxy(serve: Callable[..., Server], tmp_path: Path, version: str) -> None:
    server = serve(COREFILE)
    port = free_port()
    path = tmp_path / "haproxy.cfg"
    path.write_text(HAPROXY % (port, server.port, version))
    with running(program("haproxy"), "-f", str(path)):
        until(lambda: client_at(port, "127.0.0.5", True) == "127.0.0.5", "an answer through haproxy")
        for last in range(10, 30):
            assert client_at(port, f"127.0.0.{last}", True) == f"127.0.0.{last}"


def test_grpc_through_haproxy(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(COREFILE.replace(".:{port}", "grpc://.:{port}"))
    port = free_port()
    path = tmp_path / "haproxy.cfg"
    path.write_text(HAPROXY % (port, server.port, "send-proxy-v2"))

    def seen() -> str:
        """The client that the server saw; "" without a reply."""
        try:
            with client(port) as caller:
                return whose(caller.query("a."))[0]
        except grpc.RpcError:
            return ""

    with running(program("haproxy"), "-f", str(path)):
        # haproxy connects from 127.0.0.9.
        until(lambda: seen() == "127.0.0.1", "an answer through haproxy")


def test_dnsdist(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Its health checks have the command LOCAL: unless they are answered it sends no query."""
    server = serve(COREFILE)
    port = free_port()
    path = tmp_path / "dnsdist.conf"
    path.write_text(DNSDIST % (port, server.port))
    with running(program("dnsdist"), "--supervised", "--disable-syslog", "-C", str(path)):
        until(lambda: client_at(port, "127.0.0.5", False) == "127.0.0.5", "an answer through dnsdist")
        for last in range(10, 30):
            # One that counts the server as dead for a moment is asked again.
            until(lambda last=last: client_at(port, f"127.0.0.{last}", last % 2 == 0) == f"127.0.0.{last}", "an answer through dnsdist")  # type: ignore[misc]
