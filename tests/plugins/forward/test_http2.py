"""forward over HTTPS with HTTP/2: streams, their limits, and their ends."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest

from tests.certificates import write_certificates
from tests.plugins.forward.test_forward import corefile, reply
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]
Fields = dict[str, str]


class Session:
    """One connection, as the script sees it."""

    def __init__(self, server: Http2Server, connection: socket.socket) -> None:
        self.server, self.connection = server, connection
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.lock = threading.Lock()
        #: Streams that are open, with the octets of their bodies.
        self.streams: dict[int, tuple[Fields, bytearray]] = {}
        #: What of responses waits for the client's window.
        self.unsent: dict[int, bytes] = {}

    def run(self) -> None:
        self.http.local_settings = h2.settings.Settings(client=False, initial_values=self.server.settings)
        self.http.initiate_connection()
        if self.server.window:
            self.http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: self.server.window})
        self.flush()
        while data := self.connection.recv(65536):
            with self.lock:
                found = self.http.receive_data(data)
            for event in found:
                self.take(event)
            self.flush()

    def take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.streams[event.stream_id] = (dict(event.headers), bytearray())
            self.server.most = max(self.server.most, len(self.streams))
        elif isinstance(event, h2.events.DataReceived):
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.streams[event.stream_id][1].extend(event.data)
        elif isinstance(event, h2.events.WindowUpdated):
            for stream, body in list(self.unsent.items()):
                self.send(stream, body)
        elif isinstance(event, h2.events.StreamReset):
            self.unsent.pop(event.stream_id, None)
            self.streams.pop(event.stream_id, None)
            self.server.resets.append(event.error_code)
        elif isinstance(event, h2.events.StreamEnded):
            self.server.asked(self, event.stream_id, *self.streams[event.stream_id])

    def answer(self, stream: int, query: dns.message.Message) -> None:
        self.respond(stream, reply(query, "@ 5 A 192.0.2.1").to_wire())

    def respond(self, stream: int, body: bytes, end: bool = True) -> None:
        with self.lock:
            self.http.send_headers(stream, [(":status", "200"), ("content-type", "application/dns-message")])
        self.send(stream, body, end)
        self.flush()

    def send(self, stream: int, body: bytes, end: bool = True) -> None:
        with self.lock:
            while body and (room := min(self.http.local_flow_control_window(stream), 16000)):
                self.http.send_data(stream, body[:room])
                body = body[room:]
            self.unsent.pop(stream, None)
            if body:
                self.unsent[stream] = body
            elif end:
                self.http.end_stream(stream)
                self.streams.pop(stream, None)

    def flush(self) -> None:
        with self.lock, contextlib.suppress(OSError):
            self.connection.sendall(self.http.data_to_send())


class Http2Server:
    """Answers each request by its script: with the address 192.0.2.1 unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self.context.set_alpn_protocols(["h2"])
        #: Octets of a request that may be under way; 0: as many as the client likes.
        self.window = 0
        self.settings: dict[int, int] = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sessions: list[Session] = []
        self.heads: list[Fields] = []
        self.seen: list[dns.message.Message] = []
        self.resets: list[int] = []
        #: Streams that were open at one time on a connection.
        self.most = 0
        self.script: Callable[[Session, int, dns.message.Message], None] = Session.answer
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._run, args=(self.listener.accept()[0],), daemon=True).start()

    def _run(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(plain, server_side=True) as connection:
            assert connection.selected_alpn_protocol() == "h2"
            session = Session(self, connection)
            self.sessions.append(session)
            session.run()

    def asked(self, session: Session, stream: int, fields: Fields, body: bytearray) -> None:
        text = fields[":path"].removeprefix("/dns-query?dns=")
        octets = bytes(body) if fields[":method"] == "POST" else base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        assert octets[:2] == b"\0\0", "RFC 8484 4.1: id 0"
        query = dns.message.from_wire(octets)
        self.heads.append(fields)
        self.seen.append(query)
        self.script(session, stream, query)

    def close(self) -> None:
        self.listener.close()
        for session in self.sessions:
            with contextlib.suppress(OSError):
                session.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_certificates(tmp_path)


@pytest.fixture
def https(folder: Path) -> Iterator[Http2Server]:
    server = Http2Server(folder)
    yield server
    server.close()


def start(serve: Serve, folder: Path, https: Http2Server, options: str = "") -> Server:
    block = corefile(f"tls {folder}/ca.pem\n tls_servername server.test\n{options}", f"https://{https.address}", before="errors")
    return serve(block, "-workers", "1")


def ask_at_once(server: Server, count: int) -> tuple[list[threading.Thread], list[list[str]]]:
    got: list[list[str]] = []
    threads = [threading.Thread(target=lambda i=i: got.append(server.answers(f"n{i}.test."))) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads, got


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_requests(serve: Serve, folder: Path, https: Http2Server, method: str) -> None:
    server = start(serve, folder, https, f"doh_method {method}")
    for i in range(4):
        assert server.answers(f"n{i}.test.", tcp=i % 2 == 1) == ["192.0.2.1"]
    assert len(https.sessions) == 1
    for fields in https.heads:
        assert (fields[":method"], fields[":scheme"], fields[":authority"]) == (method, "https", https.address)
        assert fields[":path"].startswith("/dns-query?dns=" if method == "GET" else "/dns-query")
        assert fields["accept"] == "application/dns-message"
        assert ("content-type" in fields) == (method == "POST")


def test_one_connection_takes_many_questions(serve: Serve, folder: Path, https: Http2Server) -> None:
    held: list[tuple[Session, int, dns.message.Message]] = []
    https.script = lambda *asked: held.append(asked)
    server = start(serve, folder, https, "read_timeout 12s")
    threads, got = ask_at_once(server, 60)
    until(lambda: len(held) == 60, "that all are asked while none is answered")
    for session, stream, query in reversed(held):
        session.answer(stream, query)
    for thread in threads:
        thread.join()
    assert got == [["192.0.2.1"]] * 60
    assert len(https.sessions) == 1
    assert not https.resets


@pytest.mark.parametrize("most", [1, 3])
def test_a_server_that_takes_few_streams(serve: Serve, folder: Path, https: Http2Server, most: int) -> None:
    https.settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = most
    server = start(serve, folder, https)
    threads, got = ask_at_once(server, 30)
    for thread in threads:
        thread.join()
    assert got == [["192.0.2.1"]] * 30
    assert https.most <= most


def test_large_replies_and_small_windows(serve: Serve, folder: Path, https: Http2Server) -> None:
    https.window = 7
    texts = [f'@ 5 TXT "{i:0200}"' for i in range(220)]
    https.script = lambda session, stream, query: session.respond(stream, reply(query, *texts).to_wire(max_size=65535))
    server = start(serve, folder, https)
    for i in range(30):
        assert len(server.query(f"n{i}.test.", "TXT", tcp=True).answer[0]) == 220
    assert len(https.sessions) == 1


def test_goaway(serve: Serve, folder: Path, https: Http2Server) -> None:
    """What the server has not looked at is asked again elsewhere, what it has is answered."""
    held: list[tuple[Session, int, dns.message.Message]] = []
    https.script = lambda *asked: held.append(asked)
    server = start(serve, folder, https, "max_connect_attempts 1\n read_timeout 12s")
    threads, got = ask_at_once(server, 8)
    until(lambda: len(held) == 8)
    https.script = Session.answer
    session = https.sessions[0]
    with session.lock:
        session.http.close_connection(last_stream_id=5)
        # The library says no more on it, a server does.
        session.http.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
    session.flush()
    until(lambda: len(https.seen) == 8 + 5, "that the others are asked again")
    for each, stream, query in held:
        if stream <= 5:
            each.answer(stream, query)
    for thread in threads:
        thread.join()
    assert got == [["192.0.2.1"]] * 8
    assert len(https.sessions) == 2


@pytest.mark.parametrize("at", ["before a response", "within one"])
def test_a_connection_that_ends(serve: Serve, folder: Path, https: Http2Server, at: str) -> None:
    server = start(serve, folder, https, "max_connect_attempts 1")
    assert server.answers("first.test.") == ["192.0.2.1"]

    def close(session: Session, stream: int, query: dns.message.Message) -> None:
        https.script = Session.answer
        if at == "within one":
            session.respond(stream, reply(query, "@ 5 A 192.0.2.1").to_wire()[:20], end=False)
        session.connection.shutdown(socket.SHUT_RDWR)

    https.script = close
    assert server.answers("second.test.") == ["192.0.2.1"]
    assert len(https.sessions) == 2


def reset(error: h2.errors.ErrorCodes) -> Callable[[Session, int, dns.message.Message], None]:
    def script(session: Session, stream: int, query: dns.message.Message) -> None:
        session.streams.pop(stream)
        session.http.reset_stream(stream, error)

    return script


def test_a_stream_that_was_refused_is_asked_again(serve: Serve, folder: Path, https: Http2Server) -> None:
    refusing = reset(h2.errors.ErrorCodes.REFUSED_STREAM)

    def once(session: Session, stream: int, query: dns.message.Message) -> None:
        https.script = Session.answer
        refusing(session, stream, query)

    https.script = once
    server = start(serve, folder, https, "max_connect_attempts 1")
    assert server.answers("a.test.") == ["192.0.2.1"]
    https.script = refusing
    assert server.answers("b.test.") == ["SERVFAIL"]
    server.wait_log(rf'b\.test\. A: Post "https://{https.address}/dns-query": the server refuses calls')
    names = [query.question[0].name.to_text() for query in https.seen]
    assert (names.count("a.test."), names.count("b.test.")) == (2, 2)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (reset(h2.errors.ErrorCodes.INTERNAL_ERROR), r'Post "https://[^"]+/dns-query": stream terminated by RST_STREAM with error code: INTERNAL_ERROR'),
        (lambda session, stream, query: session.respond(stream, b"<html>"), "dns: overflow unpacking uint16"),
        (lambda session, stream, query: session.respond(stream, b"x" * 70), "dns: bad reply"),
        (lambda session, stream, query: session.respond(stream, bytes(66000)), r'Post "https://[^"]+/dns-query": body too long'),
        (lambda session, stream, query: session.respond(stream, reply(dns.message.make_query("b.test.", "A")).to_wire()), "dns: bad reply"),
        (lambda session, stream, query: session.connection.sendall(bytes(9) + b"garbage" * 9), ""),
    ],
)
def test_what_is_no_reply(serve: Serve, folder: Path, https: Http2Server, script: Callable[[Session, int, dns.message.Message], None], error: str) -> None:
    https.script = script
    server = start(serve, folder, https, "max_connect_attempts 1\n max_fails 0")
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(rf"\[ERROR\] plugin/errors: 2 a\.test\. A: {error}")
    https.script = Session.answer
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_a_question_that_times_out_is_reset(serve: Serve, folder: Path, https: Http2Server) -> None:
    https.script = lambda session, stream, query: None
    server = start(serve, folder, https, "max_connect_attempts 1\n read_timeout 300ms")
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(rf'Post "https://{https.address}/dns-query": context deadline exceeded')
    until(lambda: https.resets == [h2.errors.ErrorCodes.CANCEL] or https.sessions[0].connection.fileno() == -1, "that the stream ends")
    https.script = Session.answer
    assert server.answers("b.test.") == ["192.0.2.1"]
