"""PROXY headers before the datagrams of QUIC, through sockets: DNS over QUIC and over HTTP/3."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import dns.message
import dns.rcode
import pytest

from tests.certificates import write_certificates
from tests.proxying import LOCAL, UNSPEC, binary, block, text, tlv, whose
from tests.quic import Client, WebClient, query
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

COREFILE = """
%s://.:{port} {
    bind 127.0.0.1 ::1
    tls server.pem server.key
    proxyproto%s
    prometheus 127.0.0.1:{port9}
    log . "{remote} {proto} {name}"
    acl {
        block net 192.0.2.66/32
    }
    whoami
}
"""

QUESTION = query("a.")
SCHEMES = pytest.mark.parametrize("scheme", ["quic", "https3"])
#: Handshakes that are under way before clients have to show their addresses.
RETRY_ABOVE = 32


def started(serve: Serve, scheme: str = "quic", options: str = "", *args: str) -> Server:
    return serve(COREFILE % (scheme, f" {{\n{options}\n}}" if options else ""), *args, prepare=write_certificates)


def connect(server: Server, scheme: str, header: bytes, host: str = "127.0.0.1") -> Client:
    return Client(server.port, header=header, host=host) if scheme == "quic" else WebClient(server.port, header=header, host=host)


def asked(client: Client) -> tuple[str, int]:
    """The client that the server saw."""
    if isinstance(client, WebClient):
        response = client.fetch(body=QUESTION)
        assert response.status == 200
        return whose(dns.message.from_wire(response.body))
    return whose(client.ask(QUESTION))


def udp(source: str, port: int = 4321, tlvs: bytes = b"") -> bytes:
    return binary(source, port=port, udp=True, tlvs=tlvs)


@SCHEMES
@pytest.mark.parametrize(
    ("host", "header", "client"),
    [
        ("127.0.0.1", b"", "127.0.0.1"),
        ("127.0.0.1", udp("192.0.2.7"), "192.0.2.7"),
        ("127.0.0.1", udp("2001:db8::7"), "2001:db8::7"),
        ("127.0.0.1", udp("::ffff:192.0.2.7"), "192.0.2.7"),
        ("127.0.0.1", udp("192.0.2.7", tlvs=tlv(4, bytes(300))), "192.0.2.7"),
        ("127.0.0.1", block(LOCAL, UNSPEC, b""), "127.0.0.1"),
        ("::1", udp("192.0.2.7"), "192.0.2.7"),
        ("::1", udp("2001:db8::7"), "2001:db8::7"),
    ],
)
def test_the_client_is_the_headers(serve: Serve, scheme: str, host: str, header: bytes, client: str) -> None:
    server = started(serve, scheme)
    with connect(server, scheme, header, host) as connection:
        for _ in range(3):
            assert asked(connection)[0] == client


@SCHEMES
def test_log_metrics_and_acl_see_it(serve: Serve, scheme: str) -> None:
    server = started(serve, scheme)
    with connect(server, scheme, udp("2001:db8::7")) as client:
        asked(client)
    with connect(server, scheme, udp("192.0.2.66")) as client:
        if isinstance(client, WebClient):
            assert dns.message.from_wire(client.fetch(body=QUESTION).body).rcode() == dns.rcode.REFUSED
        else:
            assert client.ask(QUESTION).rcode() == dns.rcode.REFUSED
    server.wait_log(r"^\[INFO\] \[2001:db8::7\] udp a\.$")
    server.wait_log(r"^\[INFO\] 192\.0\.2\.66 udp a\.$")
    page = server.get(int(server.ports["port9"]), "/metrics")
    assert f'coredns_dns_requests_total{{family="2",proto="udp",server="{scheme}://127.0.0.1:{server.port}",type="A",view="",zone="."}} 1\n' in page


@pytest.mark.parametrize("count", [1, 4])
def test_many_clients_behind_one_proxy(serve: Serve, count: int) -> None:
    """With headers of several lengths, on any number of workers: the kernel looks behind the header for the id of a connection."""
    server = started(serve, "quic", "", "-workers", str(count))
    with ExitStack() as stack:
        clients = [
            (f"192.0.2.{number}", stack.enter_context(connect(server, "quic", udp(f"192.0.2.{number}", tlvs=tlv(4, bytes(number * 7))))))
            for number in range(1, 25)
        ]
        for _ in range(4):
            streams = [(address, client, client.begin(QUESTION)) for address, client in clients]
            assert all(whose(client.reply(stream))[0] == address for address, client, stream in streams)


@pytest.mark.parametrize(
    ("options", "with_header", "without"),
    [
        ("allow 127.0.0.1/32", "192.0.2.7", "127.0.0.1"),
        ("allow 192.0.2.1/32", "127.0.0.1", "127.0.0.1"),
        ("default ignore", "127.0.0.1", "127.0.0.1"),
        ("allow 192.0.2.1/32\ndefault reject", "", "127.0.0.1"),
        ("default skip", "", "127.0.0.1"),
    ],
)
def test_rules(serve: Serve, options: str, with_header: str, without: str) -> None:
    """Forged headers do not count: only those of `allow` do."""
    server = started(serve, "quic", options)
    with connect(server, "quic", b"") as client:
        assert asked(client)[0] == without
        # A datagram with a header in between: the connection goes on, and its client is who it was, but where the header counts.
        client.header = udp("192.0.2.7")
        if with_header:
            until(lambda: asked(client)[0] == with_header)
    if with_header:
        with connect(server, "quic", udp("192.0.2.7")) as client:
            assert asked(client)[0] == with_header
        return
    silent = Client(server.port, header=udp("192.0.2.7"), wait=False)
    silent.push()
    with pytest.raises(AssertionError, match="nothing came"):
        silent.pump(lambda: silent.handshake is not None, 1)
    silent.socket.close()


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (text("192.0.2.7"), r"unsupported Proxy Protocol version 1 \(only v2 supported for UDP\)"),
        (binary("192.0.2.7"), r"PROXY Protocol header is not UDP type \(transport protocol: 0x11\)"),
        (block(0x21, 0x12, bytes(11)), r"parsing Proxy Protocol header \(packet size: \d+\): proxyproto: invalid length"),
    ],
)
def test_dropped_with_a_warning(serve: Serve, header: bytes, reason: str) -> None:
    server = started(serve)
    client = Client(server.port, header=header, wait=False)
    client.push()
    server.wait_log(r"^\[WARNING\] dropping invalid Proxy Protocol packet from 127\.0\.0\.1:\d+: " + reason)
    client.header = b""
    client.pump(lambda: client.handshake is not None)
    with client:
        assert asked(client)[0] == "127.0.0.1"


@SCHEMES
def test_a_client_moves_behind_its_proxy(serve: Serve, scheme: str) -> None:
    """Its address counts once it has answered from there: until then anybody could claim it."""
    server = started(serve, scheme)
    with connect(server, scheme, udp("192.0.2.7")) as client:
        assert asked(client) == ("192.0.2.7", 4321)
        client.header = udp("192.0.2.8", 99)
        until(lambda: asked(client) == ("192.0.2.8", 99))


def test_the_proxy_changes_its_port(serve: Serve) -> None:
    """Replies go where the last datagram of the client came from; the client is the same."""
    server = started(serve)
    with connect(server, "quic", udp("192.0.2.7")) as client:
        for _ in range(12):
            assert asked(client) == ("192.0.2.7", 4321)
            client.move()
        assert asked(client) == ("192.0.2.7", 4321)


def test_an_address_that_does_not_answer_is_not_believed(serve: Serve) -> None:
    server = started(serve)
    with connect(server, "quic", udp("192.0.2.66")) as client:
        assert client.ask(QUESTION).rcode() == dns.rcode.REFUSED
        client.keep_silent_of_paths()
        for number in range(12):
            client.header = udp(f"192.0.2.{100 + number % 3}")
            assert client.ask(QUESTION).rcode() == dns.rcode.REFUSED


def test_who_is_asked_to_show_its_address(serve: Serve) -> None:
    """Retry: the token is for the address of the header, by whatever port of the proxy it comes back."""
    server = started(serve)
    with ExitStack() as stack:
        for number in range(3 * RETRY_ABOVE):
            begun = Client(server.port, wait=False, header=udp("198.51.100.1", 1000 + number))
            stack.callback(begun.socket.close)
            begun.push()
        client = Client(server.port, wait=False, header=udp("192.0.2.7"))
        stack.enter_context(client)
        client.push()
        client.socket.settimeout(REPLY)
        retry = client.socket.recv(65535)
        assert retry[0] & 0xF0 == 0xF0
        client.socket.setblocking(False)
        client.quic.receive_datagram(retry, client.address, now=time.monotonic())
        client.move()
        client.push()
        client.pump(lambda: client.handshake is not None)
        assert asked(client)[0] == "192.0.2.7"


def test_answers_without_a_connection_go_to_the_proxy(serve: Serve) -> None:
    """Version negotiation and stateless reset."""
    server = started(serve)
    header = udp("192.0.2.7")
    with connect(server, "quic", header) as client:
        assert asked(client)[0] == "192.0.2.7"
        name, token = client.quic._peer_cid.cid, client.quic._peer_cid.stateless_reset_token
    assert token is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(0.2)

        def answer(datagram: bytes) -> bytes:
            sock.send(header + datagram)
            try:
                return sock.recv(65535)
            except TimeoutError:
                return b""

        until(lambda: answer(b"\x40" + name + os.urandom(60)).endswith(token))
        negotiation = answer(b"\xc0\x1a\x2a\x3a\x4a\x08" + bytes(8) + b"\x08" + bytes(8) + bytes(1200))
        assert negotiation[1:5] == bytes(4)


def test_a_reload_counts_from_the_next_datagram_on(serve: Serve) -> None:
    server = started(serve)
    with connect(server, "quic", udp("192.0.2.7")) as client:
        assert asked(client)[0] == "192.0.2.7"
        server.reload(COREFILE % ("quic", " {\nallow 192.0.2.1/32\n}"))
        until(lambda: asked(client)[0] == "127.0.0.1")


# ---- sessions: the header comes once, in a datagram of its own ----

SESSIONS = "udp_session_tracking 1h"
WORKERS = pytest.mark.parametrize("workers", ["1", "2"])


def behind(server: Server, scheme: str, source: str, port: int = 4321, proxy: str = "") -> Client:
    """A connection whose datagrams have no header, begun behind a datagram that is one."""
    client = Client(server.port, wait=False, source=proxy) if scheme == "quic" else WebClient(server.port, wait=False, source=proxy)
    client.socket.send(udp(source, port))
    client.push()
    client.pump(lambda: client.handshake is not None)
    return client


@SCHEMES
@WORKERS
def test_sessions(serve: Serve, scheme: str, workers: str) -> None:
    """What follows a header at once is read after it, although workers share the address."""
    server = started(serve, scheme, SESSIONS, "-workers", workers)
    with ExitStack() as stack:
        clients = {f"192.0.2.{number}": stack.enter_context(behind(server, scheme, f"192.0.2.{number}")) for number in range(1, 13)}
        for _ in range(3):
            assert [asked(client) for client in clients.values()] == [(source, 4321) for source in clients]
        with connect(server, scheme, b"") as client:
            assert asked(client)[0] == "127.0.0.1"


@SCHEMES
def test_a_header_before_a_packet_begins_a_session(serve: Serve, scheme: str) -> None:
    server = started(serve, scheme, SESSIONS)
    with connect(server, scheme, udp("192.0.2.7")) as client:
        client.header = b""
        for _ in range(3):
            assert asked(client) == ("192.0.2.7", 4321)
        client.header = block(LOCAL, UNSPEC, b"")
        until(lambda: asked(client)[0] == "127.0.0.1")


def test_sessions_are_for_who_is_allowed(serve: Serve) -> None:
    server = started(serve, "quic", SESSIONS + "\nallow 127.0.0.2/32")
    with behind(server, "quic", "192.0.2.7") as client:
        assert asked(client)[0] == "127.0.0.1"
    with behind(server, "quic", "192.0.2.7", proxy="127.0.0.2") as client:
        assert asked(client)[0] == "192.0.2.7"


@SCHEMES
@WORKERS
def test_a_connection_goes_on_in_another_session(serve: Serve, scheme: str, workers: str) -> None:
    """The proxy gives the client another port, which may belong to another worker: with the same client at once, with another one once it has answered."""
    server = started(serve, scheme, SESSIONS, "-workers", workers)
    with behind(server, scheme, "192.0.2.7") as client:
        for _ in range(6):
            assert asked(client) == ("192.0.2.7", 4321)
            client.move()
            client.socket.send(udp("192.0.2.7"))
        for last in range(10, 13):
            client.move()
            client.socket.send(udp(f"192.0.2.{last}", last))
            until(lambda last=last: asked(client) == (f"192.0.2.{last}", last))  # type: ignore[misc]
        client.move()  # without a session of its own
        until(lambda: asked(client)[0] == "127.0.0.1")


@SCHEMES
def test_a_session_ends(serve: Serve, scheme: str) -> None:
    """The client is the proxy then, which has to answer for itself."""
    server = started(serve, scheme, "udp_session_tracking 1s")
    with behind(server, scheme, "192.0.2.7") as client:
        assert asked(client)[0] == "192.0.2.7"
        time.sleep(1.2)
        until(lambda: asked(client)[0] == "127.0.0.1")
        client.socket.send(udp("192.0.2.7"))
        until(lambda: asked(client)[0] == "192.0.2.7")


def test_sessions_are_bounded(serve: Serve) -> None:
    """The proxy that has most of them loses the one that was used least recently."""
    server = started(serve, "quic", "udp_session_tracking 1h 3")
    with (
        behind(server, "quic", "192.0.2.2") as first,
        behind(server, "quic", "192.0.2.1", proxy="127.0.0.2") as other,
        behind(server, "quic", "192.0.2.3") as second,
        behind(server, "quic", "192.0.2.4") as third,
    ):
        until(lambda: asked(first)[0] == "127.0.0.1")
        assert [asked(client)[0] for client in (other, second, third)] == ["192.0.2.1", "192.0.2.3", "192.0.2.4"]


@WORKERS
def test_sessions_outlast_a_reload(serve: Serve, workers: str) -> None:
    """Without the option workers are chosen by the ids of connections again: what has no header is the proxy's own."""
    server = started(serve, "quic", SESSIONS, "-workers", workers)
    with behind(server, "quic", "192.0.2.7") as client:
        server.reload(COREFILE % ("quic", " {\nudp_session_tracking 50m\n}"))
        assert asked(client)[0] == "192.0.2.7"
        server.reload(COREFILE % ("quic", ""))
        until(lambda: asked(client)[0] == "127.0.0.1")


@SCHEMES
def test_sessions_of_connections_that_a_former_process_has(serve: Serve, scheme: str) -> None:
    """The process that takes over does not know them, and passes what is for these connections to the one that does."""
    server = started(serve, scheme, SESSIONS, "-workers", "2")
    with behind(server, scheme, "192.0.2.7") as client:
        assert asked(client)[0] == "192.0.2.7"
        server.signal(signal.SIGUSR2)
        server.wait_log("Upgrade finished")
        for _ in range(20):
            assert asked(client)[0] == "192.0.2.7"
