"""Upstreams that send without end, over every kind of connection: the connection ends, by a count that is theirs alone, and others are answered meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest

from tests.certificates import write_certificates
from tests.plugins.forward.test_forward import reply
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

#: Octets that an upstream may get rid of before its connection ends: a few MiB are in the kernel's buffers.
OCTETS_MAX = 64 << 20

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def field(name: bytes, value: bytes) -> bytes:
    """HPACK: a literal that is not indexed (RFC 7541 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


STATUS = b"\x88"  # :status 200
EARLY = field(b":status", b"103")

#: Frames of an upstream on the stream of an open request, again and again.
FRAMES: dict[str, Callable[[int], Iterator[bytes]]] = {
    "ping": lambda stream: itertools.repeat(frame(PING, payload=bytes(8))),
    "ping-ack": lambda stream: itertools.repeat(frame(PING, ACK, payload=bytes(8))),
    "settings": lambda stream: itertools.repeat(frame(SETTINGS)),
    "settings-large": lambda stream: itertools.repeat(frame(SETTINGS, payload=struct.pack("!HI", 4, 65535) * 2000)),
    "window-update": lambda stream: itertools.repeat(frame(WINDOW_UPDATE, payload=struct.pack("!I", 1))),
    "window-update-stream": lambda stream: itertools.repeat(frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", 1))),
    "data-empty": lambda stream: itertools.chain([frame(HEADERS, END_HEADERS, stream, STATUS)], itertools.repeat(frame(DATA, 0, stream))),
    "data-padding": lambda stream: itertools.chain(
        [frame(HEADERS, END_HEADERS, stream, STATUS)], itertools.repeat(frame(DATA, PADDED, stream, b"\xff" + bytes(255)))
    ),
    "data-octets": lambda stream: itertools.chain([frame(HEADERS, END_HEADERS, stream, STATUS)], itertools.repeat(frame(DATA, 0, stream, b"x"))),
    "data-large": lambda stream: itertools.chain([frame(HEADERS, END_HEADERS, stream, STATUS)], itertools.repeat(frame(DATA, 0, stream, bytes(16384)))),
    "data-of-nobody": lambda stream: itertools.chain(
        [frame(HEADERS, END_HEADERS | END_STREAM, stream, STATUS)], itertools.repeat(frame(DATA, END_STREAM, stream))
    ),
    "early-hints": lambda stream: itertools.repeat(frame(HEADERS, END_HEADERS, stream, EARLY)),
    "headers": lambda stream: itertools.repeat(frame(HEADERS, END_HEADERS, stream, STATUS + field(b"x", bytes(100)) * 140)),
    "continuation-empty": lambda stream: itertools.chain([frame(HEADERS, 0, stream, STATUS)], itertools.repeat(frame(CONTINUATION, 0, stream))),
    "continuation": lambda stream: itertools.chain(
        [frame(HEADERS, 0, stream, STATUS)], itertools.repeat(frame(CONTINUATION, 0, stream, field(b"x", b"y" * 100)))
    ),
    "priority": lambda stream: itertools.repeat(frame(PRIORITY, 0, stream, bytes(5))),
    "reset": lambda stream: itertools.repeat(frame(RST_STREAM, 0, stream, bytes(4))),
    "goaway": lambda stream: itertools.repeat(frame(GOAWAY, 0, 0, struct.pack("!II", 0x7FFFFFFF, 0))),
    "unknown": lambda stream: itertools.repeat(frame(0xEE)),
    "unknown-large": lambda stream: itertools.repeat(frame(0xEE, 0, stream, bytes(16384))),
}


#: Those that our count ends: of a connection, and of a stream that is open.
COUNTED = {"ping", "ping-ack", "settings", "window-update", "priority", "unknown", "unknown-large"}
OF_A_STREAM = {"data-empty", "data-padding", "data-octets", "early-hints", "window-update-stream"}


class Flood:
    """An upstream whose connections are each given to a script, which sends until it has sent enough or the connection has ended."""

    def __init__(self, folder: Path, alpn: str = "", encrypted: bool = True) -> None:
        self.context: ssl.SSLContext | None = None
        if encrypted:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(folder / "server.pem", folder / "server.key")
            if alpn:
                self.context.set_alpn_protocols([alpn])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.script: Callable[[Peer], None] = lambda peer: None
        #: Octets that connections have taken before they ended.
        self.ended: list[int] = []
        #: Scripts that went wrong.
        self.failures: list[BaseException] = []
        self.closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._run, args=(self.listener.accept()[0],), daemon=True).start()

    def _run(self, plain: socket.socket) -> None:
        plain.settimeout(2 * LIMIT)
        try:
            with plain if self.context is None else self.context.wrap_socket(plain, server_side=True) as connection:
                peer = Peer(self, connection)
                try:
                    self.script(peer)
                except (OSError, EOFError):
                    self.ended.append(peer.sent)
        except OSError:
            pass
        except BaseException as error:
            self.failures.append(error)

    def close(self) -> None:
        self.closing = True
        self.listener.close()


class Peer:
    """A connection of a server under test."""

    def __init__(self, flood: Flood, connection: socket.socket) -> None:
        self.flood, self.connection = flood, connection
        self.stream = connection.makefile("rb")
        self.sent = 0

    def send(self, octets: bytes) -> None:
        self.connection.sendall(octets)
        self.sent += len(octets)

    def send_all(self, parts: Iterator[bytes]) -> None:
        """Without end, in writes of some KiB."""
        while not self.flood.closing:
            batch = b""
            while len(batch) < 16000:
                batch += next(parts)
            self.send(batch)
            assert self.sent < OCTETS_MAX, "the connection never ends"

    def exactly(self, size: int) -> bytes:
        if len(octets := self.stream.read(size)) < size:
            raise EOFError
        return octets

    def message(self) -> dns.message.Message:
        """A query over TCP or TLS."""
        return dns.message.from_wire(self.exactly(struct.unpack("!H", self.exactly(2))[0]))

    def reply(self, query: dns.message.Message) -> None:
        octets = reply(query, "@ 5 A 192.0.2.1").to_wire()
        self.send(struct.pack("!H", len(octets)) + octets)

    def request(self) -> bytes:
        """A request of HTTP/1.1: its body."""
        lines = [line.decode().strip().lower() for line in iter(self.stream.readline, b"\r\n") if line]
        if not lines:
            raise EOFError
        return self.exactly(next(int(line.split(": ")[1]) for line in lines if line.startswith("content-length")))

    def http2(self) -> tuple[int, bytes]:
        """The next request of HTTP/2: its stream and body."""
        if not self.sent:
            assert self.exactly(24).startswith(b"PRI * HTTP/2.0")
            self.send(frame(SETTINGS))
        body = b""
        while True:
            head = self.exactly(9)
            payload = self.exactly(int.from_bytes(b"\0" + head[:3], "big"))
            if head[3] == DATA:
                body += payload
            if head[3] in (DATA, HEADERS) and head[4] & END_STREAM:
                return int.from_bytes(head[5:], "big"), body


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_certificates(tmp_path)


def start(serve: Serve, folder: Path, scheme: str, address: str, options: str = "") -> Server:
    """Names of `up.test` are asked of the upstream, those of `own.test` are answered here; one worker serves all."""
    tls = f"tls {folder}/ca.pem\n  tls_servername server.test\n  "
    if scheme == "grpc":
        block = f"grpc up.test {address}"
    else:
        to = f"{scheme}://{address}" if scheme else address
        block = f"forward up.test {to} {{\n  {tls if scheme else 'force_tcp'}\n  max_connect_attempts 2\n  max_fails 0\n  {options}\n }}"
    hosts = "hosts {\n  192.0.2.7 www.own.test\n  fallthrough\n }"
    return serve(f".:{{port}} {{\n bind 127.0.0.1\n errors\n prometheus 127.0.0.1:{{port2}}\n {hosts}\n {block}\n}}\n", "-workers", "1")


def ended(server: Server, address: str, reason: str, plugin: str = "forward") -> float:
    return server.metric(server.ports["port2"], f'fastdns_proxy_connections_ended_total{{proxy_name="{plugin}",reason="{reason}",to="{address}"}}')


def check(server: Server, flood: Flood, reason: str, plugin: str = "forward") -> None:
    """A question begins it; others are answered until the connection has ended, and then, too."""
    asking = threading.Thread(target=server.answers, args=("www.up.test.",))
    asking.start()
    while not flood.ended:
        assert not flood.failures, flood.failures
        assert server.answers("www.own.test.") == ["192.0.2.7"]
    asking.join()
    assert not flood.failures, flood.failures
    assert server.answers("www.own.test.") == ["192.0.2.7"]
    if reason:
        assert ended(server, flood.address, reason, plugin) >= 1
        server.wait_log(rf"\[WARNING\] plugin/{plugin}: connection to {flood.address} ended: ")


# ---- DNS over TLS and TCP ----

MESSAGES = {
    "unasked": struct.pack("!H", 40) + b"\x55" * 40,
    "large": struct.pack("!H", 65535) + b"\x55" * 65535,
    "no-message": struct.pack("!H", 3) + b"abc",
    "empty": b"\0\0",
}


@pytest.mark.parametrize("scheme", ["tls", ""])
@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("first", [True, False], ids=["answered", "silent"])
def test_messages_that_nobody_asked_for(serve: Serve, folder: Path, scheme: str, kind: str, first: bool) -> None:
    flood = Flood(folder, encrypted=bool(scheme))

    def script(peer: Peer) -> None:
        query = peer.message()
        if first:
            peer.reply(query)
        peer.send_all(itertools.repeat(MESSAGES[kind]))

    flood.script = script
    check(start(serve, folder, scheme, flood.address), flood, "messages")
    flood.close()


def test_the_same_reply_again_and_again(serve: Serve, folder: Path) -> None:
    flood = Flood(folder)

    def script(peer: Peer) -> None:
        query = peer.message()
        octets = reply(query, "@ 5 A 192.0.2.1").to_wire()
        peer.send_all(itertools.repeat(struct.pack("!H", len(octets)) + octets))

    flood.script = script
    server = start(serve, folder, "tls", flood.address)
    check(server, flood, "messages")
    assert server.answers("more.up.test.") == ["192.0.2.1"], "each connection has answered"
    flood.close()


def test_late_replies_do_not_end_a_connection(serve: Serve, folder: Path) -> None:
    """One for each question is no excess, however many there are."""
    flood = Flood(folder)
    count = 300
    connections: list[Peer] = []

    def script(peer: Peer) -> None:
        connections.append(peer)
        for _ in range(count):
            query = peer.message()
            peer.reply(query)
            peer.send(struct.pack("!H", 40) + b"\x55" * 40)

    flood.script = script
    server = start(serve, folder, "tls", flood.address)
    for i in range(count):
        assert server.answers(f"{i}.up.test.") == ["192.0.2.1"]
    assert len(connections) == 1
    assert ended(server, flood.address, "messages") == 0
    flood.close()


def test_replies_that_came_at_once_are_all_read(serve: Serve, folder: Path) -> None:
    """More records than a turn reads, in one segment: epoll tells of none that is left."""
    names = [f"{i}.up.test." for i in range(400)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    lock, whole, asked = threading.Lock(), threading.Event(), 0

    def run(plain: socket.socket) -> None:
        nonlocal asked
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        queries: list[bytes] = []
        octets, ready, answered = b"", False, False
        with contextlib.suppress(OSError), plain:
            while not answered:
                with contextlib.suppress(TimeoutError):
                    if not (got := plain.recv(65536)):
                        return
                    incoming.write(got)
                with contextlib.suppress(ssl.SSLWantReadError):
                    if not ready:
                        tls.do_handshake()
                        ready = True
                    while True:
                        octets += tls.read(65536)
                while len(octets) > 2 and len(octets) >= 2 + (size := struct.unpack("!H", octets[:2])[0]):
                    queries.append(octets[2 : 2 + size])
                    octets = octets[2 + size :]
                    with lock:
                        asked += 1
                    if asked == len(names):
                        whole.set()
                if whole.is_set():
                    for query in queries:
                        made = reply(dns.message.from_wire(query), "@ 5 A 192.0.2.1").to_wire()
                        tls.write(struct.pack("!H", len(made)) + made)
                    answered = True
                plain.sendall(outgoing.read())
            while plain.recv(65536):
                pass

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(0.05)  # to look whether the others have all that is asked
                threading.Thread(target=run, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        server = start(serve, folder, "tls", address, "read_timeout 12s")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # for all replies at once
            client.settimeout(LIMIT)
            client.connect(("127.0.0.1", server.port))
            for at in range(0, len(names), 50):  # as many as the socket's buffer holds
                for name in names[at : at + 50]:
                    client.send(dns.message.make_query(name, "A").to_wire())
                until(lambda at=at: asked >= at + 50, "that they are asked")
            got = {dns.message.from_wire(client.recv(4096)).answer[0].name.to_text() for _ in names}
        assert got == set(names)


# ---- HTTP/2 ----


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("first", [True, False], ids=["answered", "silent"])
def test_frames_of_http2(serve: Serve, folder: Path, kind: str, first: bool) -> None:
    flood = Flood(folder, "h2")

    def script(peer: Peer) -> None:
        stream, body = peer.http2()
        if first:
            octets = reply(dns.message.from_wire(body), "@ 5 A 192.0.2.1").to_wire()
            peer.send(frame(HEADERS, END_HEADERS, stream, STATUS) + frame(DATA, END_STREAM, stream, octets))
        peer.send_all(FRAMES[kind](stream))

    flood.script = script
    # What breaks the protocol at once ends the connection by libnghttp2's judgement.
    counted = COUNTED if first else COUNTED | OF_A_STREAM
    check(start(serve, folder, "https", flood.address), flood, "frames" if kind in counted else "")
    flood.close()


@pytest.mark.parametrize("kind", ["ping", "settings", "data-empty", "early-hints", "unknown"])
def test_frames_to_grpc(serve: Serve, folder: Path, kind: str) -> None:
    flood = Flood(folder, encrypted=False)
    flood.script = lambda peer: peer.send_all(FRAMES[kind](peer.http2()[0]))
    check(start(serve, folder, "grpc", flood.address), flood, "frames", "grpc")
    flood.close()


def test_many_answers_do_not_end_a_connection(serve: Serve, folder: Path) -> None:
    """Ten frames that are no reply for each question, beside a thousand."""
    flood = Flood(folder, "h2")
    count, connections = 300, 0

    def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        for _ in range(count):
            stream, body = peer.http2()
            octets = reply(dns.message.from_wire(body), "@ 5 A 192.0.2.1").to_wire()
            more = frame(PING, payload=bytes(8)) * 3 + frame(WINDOW_UPDATE, payload=struct.pack("!I", 100))
            peer.send(frame(HEADERS, END_HEADERS, stream, STATUS) + more + frame(DATA, 0, stream, octets[:20]) + frame(DATA, END_STREAM, stream, octets[20:]))

    flood.script = script
    server = start(serve, folder, "https", flood.address)
    for i in range(count):
        assert server.answers(f"{i}.up.test.") == ["192.0.2.1"]
    assert connections == 1
    assert ended(server, flood.address, "frames") == 0
    flood.close()


# ---- HTTP/1.1 ----

RESPONSES: dict[str, tuple[bytes, bytes]] = {
    "early-hints": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 100 + b"\r\n"),
    "field": (b"HTTP/1.1 200 OK\r\nx: ", b"y"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"64\r\n" + b"x" * 100 + b"\r\n"),
    "chunk-extensions": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1;" + b"e" * 200 + b"\r\nx\r\n"),
}


@pytest.mark.parametrize("kind", RESPONSES)
def test_responses_of_http1(serve: Serve, folder: Path, kind: str) -> None:
    flood = Flood(folder)
    begin, more = RESPONSES[kind]

    def script(peer: Peer) -> None:
        peer.request()
        peer.send_all(itertools.chain([begin], itertools.repeat(more)))

    flood.script = script
    check(start(serve, folder, "https", flood.address), flood, "octets")
    flood.close()


def test_responses_that_nobody_asked_for(serve: Serve, folder: Path) -> None:
    flood = Flood(folder)

    def script(peer: Peer) -> None:
        octets = reply(dns.message.from_wire(peer.request()), "@ 5 A 192.0.2.1").to_wire()
        peer.send_all(itertools.repeat(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(octets) + octets))

    flood.script = script
    check(start(serve, folder, "https", flood.address), flood, "messages")
    flood.close()
