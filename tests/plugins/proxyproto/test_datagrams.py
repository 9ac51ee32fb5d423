"""PROXY headers over UDP, through sockets: the client's address, replies to the proxy, what is dropped and logged, and sessions."""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import pytest

from tests.proxying import LOCAL, PROXY, SIGNATURE, UDP4, UNIXGRAM, UNSPEC, binary, block, reference, text, tlv, whose
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind %s
    proxyproto%s
    prometheus 127.0.0.1:{port9}
    log . "{remote} {local} {proto} {name}"
    acl {
        block net 192.0.2.66/32
    }
    whoami
}
"""


LARGE = """
.:{port} {
    bind 127.0.0.1
    proxyproto
    template IN TXT {
        answer "{{ .Name }} 0 IN TXT TEXT"
    }
}
"""


def corefile(options: str = "", bind: str = "127.0.0.1 ::1") -> str:
    return COREFILE % (bind, f" {{\n{options}\n}}" if options else "")


@contextmanager
def proxy(server: Server, host: str = "127.0.0.1", source: str = "") -> Iterator[socket.socket]:
    """A socket that is connected to the server: it takes replies of that address and port alone."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as found:
        if source:
            found.bind((source, 0))
        found.connect((host, server.port))
        found.settimeout(LIMIT)
        yield found


def query(name: str = "a.", number: int = 1, **options: int) -> bytes:
    message = dns.message.make_query(name, "A", **options)  # type: ignore[arg-type]
    message.id = number
    return message.to_wire()


def asked(sock: socket.socket, header: bytes, name: str = "a.") -> str:
    """The client that the server saw."""
    number = random.randrange(65536)
    sock.send(header + query(name, number))
    reply = dns.message.from_wire(sock.recv(65536))
    assert reply.id == number
    return whose(reply)[0]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(corefile())


@pytest.mark.parametrize("bind", ["127.0.0.1 ::1", "0.0.0.0 ::1", "::"])
def test_the_client_is_the_headers(serve: Serve, bind: str) -> None:
    """The reply goes to the proxy, from the address that it sent to."""
    server = serve(corefile(bind=bind))
    for host in ("127.0.0.1", "::1") if bind != "::" else ("::1",):
        with proxy(server, host) as sock:
            for client in ("192.0.2.7", "2001:db8::7"):
                for tlvs in (b"", tlv(3, bytes(4)) + tlv(0xEE, bytes(200))):
                    sock.send(binary(client, udp=True, tlvs=tlvs) + query())
                    assert whose(dns.message.from_wire(sock.recv(65536))) == (client, 4321)
            assert asked(sock, b"") == host
            # A proxy's own queries, as dnsdist sends them to see whether the server is alive.
            assert asked(sock, block(LOCAL, UNSPEC, b"")) == host
            assert asked(sock, block(LOCAL, UDP4, bytes(12))) == host


def test_log_metrics_and_acl_see_it(server: Server) -> None:
    with proxy(server) as sock:
        sock.send(binary("192.0.2.66", udp=True) + query("blocked."))
        assert dns.message.from_wire(sock.recv(65536)).rcode() == dns.rcode.REFUSED
        asked(sock, binary("2001:db8::7", udp=True))
    server.wait_log(r"192\.0\.2\.66 127\.0\.0\.1 udp blocked\.")
    label = f'server="dns://127.0.0.1:{server.port}",type="A",view="",zone="."'
    for family in "12":
        name = f'coredns_dns_requests_total{{family="{family}",proto="udp",{label}}}'
        until(lambda name=name: server.metric(server.ports["port9"], name) == 1, name)  # type: ignore[misc]


DROPPED = [
    (text("192.0.2.7"), r"unsupported Proxy Protocol version 1 \(only v2 supported for UDP\)"),
    (b"PROXY UNKNOWN\r\n", r"unsupported Proxy Protocol version 1 \(only v2 supported for UDP\)"),
    (binary("192.0.2.7"), r"PROXY Protocol header is not UDP type \(transport protocol: 0x11\)"),
    (binary("::1"), r"PROXY Protocol header is not UDP type \(transport protocol: 0x21\)"),
    (block(PROXY, UNIXGRAM, bytes(216)), r"PROXY Protocol header is not UDP type \(transport protocol: 0x32\)"),
    (block(PROXY, UNSPEC, b""), r"parsing Proxy Protocol header \(packet size: \d+\): proxyproto: unsupported address family and protocol"),
    (block(0x25, UDP4, bytes(12)), r"parsing Proxy Protocol header \(packet size: \d+\): proxyproto: unsupported proxy protocol version and command"),
    (block(PROXY, UDP4, bytes(11)), r"parsing Proxy Protocol header \(packet size: \d+\): proxyproto: invalid length"),
    (block(PROXY, UDP4, b"", size=4000), r"parsing Proxy Protocol header \(packet size: \d+\): unexpected EOF"),
    (b"PROXY TCP4\r\n", r"parsing Proxy Protocol header \(packet size: \d+\): proxyproto: can't read address family or protocol"),
]


@pytest.mark.parametrize(("header", "reason"), DROPPED)
def test_dropped_with_a_warning(server: Server, header: bytes, reason: str) -> None:
    with proxy(server) as sock:
        sock.send(header + query("dropped."))
        place = re.escape(f"127.0.0.1:{sock.getsockname()[1]}")
        server.wait_log(rf"^\[WARNING\] dropping invalid Proxy Protocol packet from {place}: {reason}$")
        assert asked(sock, b"") == "127.0.0.1"
    assert "dropped." not in server.log()


def test_warnings_have_brackets_around_ipv6_and_a_limit(server: Server) -> None:
    with proxy(server, "::1") as sock:
        for _ in range(1000):
            sock.send(text("192.0.2.7"))
        place = re.escape(f"[::1]:{sock.getsockname()[1]}")
        server.wait_log(rf"^\[WARNING\] dropping invalid Proxy Protocol packet from {place}: ")
        assert asked(sock, b"") == "::1"
    assert server.log().count("[WARNING] dropping") <= 500


@pytest.mark.parametrize(
    ("options", "client"),
    [
        ("default use", "192.0.2.7"),
        ("default ignore", "127.0.0.1"),
        ("allow 127.0.0.0/8\n default reject", "192.0.2.7"),
        ("allow 192.0.2.0/24", "127.0.0.1"),
    ],
)
def test_rules(serve: Serve, options: str, client: str) -> None:
    server = serve(corefile(options))
    with proxy(server) as sock:
        assert asked(sock, binary("192.0.2.7", udp=True)) == client
        assert asked(sock, b"") == "127.0.0.1"
        sock.send(block(PROXY, UDP4, b"") + query("dropped."))  # malformed: dropped under each of these
        server.wait_log(r"\[WARNING\] dropping .*: proxyproto: invalid length$")


def test_reject(serve: Serve) -> None:
    server = serve(corefile("allow 127.0.0.2/32\n default reject"))
    with proxy(server) as sock:
        sock.send(binary("192.0.2.7", udp=True) + query("dropped."))
        server.wait_log(r"\[WARNING\] dropping .*: connection rejected by Proxy Protocol connection policy$")
        assert asked(sock, b"") == "127.0.0.1"
    with proxy(server, source="127.0.0.2") as sock:
        assert asked(sock, binary("192.0.2.7", udp=True)) == "192.0.2.7"


def test_skip(serve: Serve) -> None:
    """Headers are not looked for. What begins with one is no DNS message, and is answered as other such octets are."""
    server = serve(corefile("default skip"))
    with proxy(server) as sock:
        sock.send(binary("192.0.2.7", udp=True) + query())
        assert dns.message.from_wire(sock.recv(65536), ignore_trailing=True).rcode() == dns.rcode.NOTIMP  # opcode 1, as the signature's fourth octet says
        assert asked(sock, b"") == "127.0.0.1"
    assert "[WARNING]" not in server.log()


def test_replies_that_never_reach_a_plugin_go_to_the_proxy_too(server: Server) -> None:
    with proxy(server) as sock:
        message = bytearray(query(number=7))
        message[5] = 2  # two questions
        sock.send(binary("192.0.2.7", udp=True) + message)
        assert dns.message.from_wire(sock.recv(65536), ignore_trailing=True).rcode() == dns.rcode.FORMERR


def test_a_reply_that_is_larger_than_others(serve: Serve) -> None:
    server = serve(LARGE.replace("TEXT", " ".join(["x" * 250] * 24)))
    with proxy(server) as sock:
        request = dns.message.make_query("a.", "TXT", use_edns=0, payload=8000)
        sock.send(binary("192.0.2.7", udp=True) + request.to_wire())
        octets = sock.recv(65536)
        assert len(octets) > 6000
        assert dns.message.from_wire(octets).id == request.id


def test_a_header_alone_is_not_answered(server: Server) -> None:
    with proxy(server) as sock:
        sock.send(binary("192.0.2.7", udp=True))
        sock.send(binary("192.0.2.7", udp=True) + b"\0\1")
        assert asked(sock, b"") == "127.0.0.1"
    assert "[WARNING]" not in server.log()


def test_random_datagrams(server: Server) -> None:
    """Each query behind a header that a reference takes is answered, with its client; of all others nothing is heard."""
    rng = random.Random(7)
    seeds = [binary("192.0.2.7", udp=True), binary("2001:db8::7", udp=True, tlvs=tlv(1, b"x")), block(LOCAL, UNSPEC, b""), text("192.0.2.7"), SIGNATURE]
    with proxy(server) as sock:
        for number in range(1, 2000):
            header = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(3)):
                header[rng.randrange(len(header))] = rng.randrange(256)
            octets = bytes(header) + query(number=number)
            sock.send(octets)
            status, size, ends = reference(octets)
            udp = octets[12:13] == bytes((LOCAL,)) or octets[13:14] in (b"\x12", b"\x22")
            if status == "present" and octets[:1] == b"\r" and udp and octets[size:] == query(number=number):
                while (reply := dns.message.from_wire(sock.recv(65536), ignore_trailing=True)).id != number:
                    pass
                address = whose(reply)[0]
                packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
                assert packed == (ends[0][0] if ends else bytes((127, 0, 0, 1)))
        sock.settimeout(0.0)
        while True:
            try:
                sock.recv(65536)
            except BlockingIOError:
                break
        sock.settimeout(LIMIT)
        assert asked(sock, b"") == "127.0.0.1"


# ---- sessions ----


def test_sessions(serve: Serve) -> None:
    """A header alone says who the client of what follows is; a header with a query changes it. Each port of the proxy has a session of its own."""
    server = serve(corefile("allow 127.0.0.1/32\n udp_session_tracking 60s"))
    with proxy(server) as first, proxy(server) as second:
        assert asked(first, b"") == "127.0.0.1"
        first.send(binary("192.0.2.7", udp=True))
        second.send(binary("2001:db8::7", udp=True))
        for _ in range(20):
            assert (asked(first, b""), asked(second, b"")) == ("192.0.2.7", "2001:db8::7")
        assert asked(first, binary("192.0.2.8", udp=True)) == "192.0.2.8"
        assert asked(first, b"") == "192.0.2.8"
        assert asked(first, block(LOCAL, UNSPEC, b"")) == "127.0.0.1"
        assert asked(first, b"") == "192.0.2.8"
        with proxy(server) as third:
            assert asked(third, b"") == "127.0.0.1"


def test_sessions_are_for_who_is_allowed(serve: Serve) -> None:
    server = serve(corefile("allow 127.0.0.2/32\n udp_session_tracking 60s"))
    with proxy(server, source="127.0.0.3") as sock:
        sock.send(binary("192.0.2.7", udp=True))
        assert asked(sock, b"") == "127.0.0.3"


def test_a_session_ends(serve: Serve) -> None:
    """One second after its last use."""
    server = serve(corefile("udp_session_tracking 1s"))
    with proxy(server) as sock:
        used = begun = time.monotonic()
        sock.send(binary("192.0.2.7", udp=True))
        while time.monotonic() - begun < 2.5:
            before, found = used, asked(sock, b"")
            used = time.monotonic()
            if found != "192.0.2.7":
                assert used - before > 1  # this machine had no time for us
                sock.send(binary("192.0.2.7", udp=True))
            time.sleep(0.05)
        time.sleep(1.1)
        assert asked(sock, b"") == "127.0.0.1"


def test_what_follows_a_header_at_once(serve: Serve) -> None:
    """The datagrams of a client stay in order, although workers share its address."""
    server = serve(corefile("udp_session_tracking 60s"), "-workers", "2")
    with proxy(server) as sock:
        for last in range(1, 250):
            sock.send(binary(f"198.51.100.{last}", udp=True))
            sock.send(query(number=last))
        assert [whose(dns.message.from_wire(sock.recv(65536)))[0] for _ in range(1, 250)] == [f"198.51.100.{last}" for last in range(1, 250)]


def test_sessions_are_bounded(serve: Serve) -> None:
    server = serve(corefile("udp_session_tracking 60s 2"))
    with proxy(server) as first, proxy(server) as second, proxy(server) as third:
        for sock in (first, second, third):
            assert asked(sock, binary("192.0.2.7", udp=True)) == "192.0.2.7"
        assert [asked(sock, b"") for sock in (first, second, third)] == ["127.0.0.1", "192.0.2.7", "192.0.2.7"]


def test_sessions_outlast_a_reload(serve: Serve) -> None:
    """Unless their number changes."""
    server = serve(corefile("udp_session_tracking 60s"))
    with proxy(server) as sock:
        assert asked(sock, binary("192.0.2.7", udp=True)) == "192.0.2.7"
        server.reload(corefile("udp_session_tracking 50s\n default use"))
        assert asked(sock, b"") == "192.0.2.7"
        server.reload(corefile("udp_session_tracking 50s 100"))
        assert asked(sock, b"") == "127.0.0.1"


def test_a_reload_counts_from_the_next_datagram_on(server: Server) -> None:
    with proxy(server) as sock:
        assert asked(sock, binary("192.0.2.7", udp=True)) == "192.0.2.7"
        server.reload(corefile("default ignore"))
        assert asked(sock, binary("192.0.2.7", udp=True)) == "127.0.0.1"
