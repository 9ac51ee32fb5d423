"""Clients of HTTP that attack: what each may cost is bounded, and others are served."""

from __future__ import annotations

import base64
import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import dns.message
import pytest

from fastdns.testing import Upstream
from tests.server import Server
from tests.server.test_http2 import CONTINUATION, DATA, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST, SETTINGS, WINDOW, Frames, frame, head
from tests.waiting import REPLY

START = PREFACE + frame(SETTINGS, 0, 0)
FAST = dns.message.make_query("a.test.", "A", id=0).to_wire()
#: Of https://; see plugins/https/README.md.
STREAMS_MAX = 250
CALM, FLOW, CLOSED = 11, 3, 5
COREFILE = """https://.:{port} {
    https {
        max_connections 0
    }
    timeouts {
        read 1m
        write 1m
        idle 1h
    }
    hosts {
        192.0.2.1 a.test
    }
}
https://slow.test:{port} {
    forward . UPSTREAM
}
"""


def query(number: int) -> bytes:
    return dns.message.make_query(f"n{number}.slow.test.", "A", id=0).to_wire()


def request(stream: int, message: bytes) -> bytes:
    return frame(HEADERS, 4, stream, head()) + frame(DATA, 1, stream, message)


@pytest.fixture
def silent() -> Iterator[Upstream]:
    """A server that never answers."""
    with Upstream(lambda query: None) as upstream:
        yield upstream


@pytest.fixture
def server(serve: Callable[..., Server], silent: Upstream) -> Server:
    return serve(COREFILE.replace("UPSTREAM", silent.address), "-workers", "1")


def connect(server: Server, octets: bytes = START) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), REPLY)
    connection.sendall(octets)
    return connection


def send(connection: socket.socket, octets: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        connection.sendall(octets)


def answers(server: Server) -> bool:
    """Whether a client with a connection of its own is served."""
    with connect(server, START + request(1, FAST)) as connection:
        return dns.message.from_wire(Frames(connection).until(DATA)[2]).answer != []  # type: ignore[arg-type]


def code(connection: socket.socket) -> int:
    """Of the GOAWAY by which the connection ends."""
    frames = Frames(connection)  # type: ignore[arg-type]
    found = int.from_bytes(frames.until(GOAWAY)[2][4:8], "big")
    assert frames.read() is None
    return found


def asked(upstream: Upstream) -> int:
    """How many different questions the upstream got, once there are no more."""
    count = -1
    while count != (count := len({str(query.question[0].name) for query in upstream.seen})):
        time.sleep(0.3)
    return count


RESETS = {
    "the client's": lambda stream: frame(RST, 0, stream, b"\0\0\0\x08"),
    "an increment of 0": lambda stream: frame(WINDOW, 0, stream, bytes(4)),
    "a window above 2^31-1": lambda stream: frame(WINDOW, 0, stream, b"\x7f\xff\xff\xff"),
    "data on a half-closed stream": lambda stream: frame(DATA, 0, stream, b"x"),
    "a second end": lambda stream: frame(HEADERS, 5, stream, b"\x82"),
}


@pytest.mark.parametrize("how", RESETS)
def test_CVE_2025_8671_streams_that_are_reset_hold_their_place(server: Server, silent: Upstream, how: str) -> None:
    """Whoever resets a stream, its query is under way still, and no more than the connection's streams are."""
    with connect(server) as connection:
        for number in range(1, 10001, 2):
            send(connection, request(number, query(number)) + RESETS[how](number))
        code(connection)
        assert 0 < asked(silent) <= STREAMS_MAX
        assert answers(server)


def test_streams_beyond_the_limit_are_refused_until_an_answer_is_back(server: Server, silent: Upstream) -> None:
    with connect(server) as connection:
        frames = Frames(connection)  # type: ignore[arg-type]
        for number in range(1, 2 * STREAMS_MAX, 2):
            connection.sendall(request(number, query(number)))
        connection.sendall(frame(RST, 0, 1, bytes(4)) + request(2 * STREAMS_MAX + 1, query(0)))
        assert frames.until(RST) == (0, 2 * STREAMS_MAX + 1, b"\0\0\0\7")
        assert asked(silent) == STREAMS_MAX


@pytest.mark.memory
@pytest.mark.parametrize("version", ["1.1", "2"])
def test_the_body_of_a_GET_takes_no_memory_behind_its_response(server: Server, version: str) -> None:
    """The message of a GET is in its target (RFC 8484 4.1); a body besides means nothing (RFC 9110 9.3.1)."""
    path = "/dns-query?dns=" + base64.urlsafe_b64encode(FAST).decode().rstrip("=")
    body = bytes(32000)

    def ask(rounds: int) -> None:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(connect(server, START if version == "2" else b""))
            frames, reader = Frames(connection), stack.enter_context(connection.makefile("rb"))  # type: ignore[arg-type]
            for number in range(1, 2 * rounds, 2):
                if version == "2":
                    parts = [frame(DATA, int(len(body) - at <= 16000), number, body[at : at + 16000]) for at in range(0, len(body), 16000)]
                    connection.sendall(frame(HEADERS, 4, number, head(method="GET", path=path)) + b"".join(parts))
                    assert dns.message.from_wire(frames.until(DATA)[2]).answer
                else:
                    connection.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                    lengths = [int(line[15:]) for line in iter(reader.readline, b"\r\n") if line.startswith(b"content-length:")]
                    assert dns.message.from_wire(reader.read(*lengths)).answer

    ask(50)
    before = server.memory()
    ask(1000)
    assert server.memory() - before < 8_000_000  # of 32,000,000 that were sent


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(frame(PING, 0, 0, bytes(8)) * 3000, id="pings"),
        pytest.param(frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1") * 3000, id="settings"),
        pytest.param(frame(PRIORITY, 0, 9, bytes(5)) * 3000, id="priorities"),
        pytest.param(frame(WINDOW, 0, 0, b"\0\0\0\1") * 3000, id="windows"),
        pytest.param(frame(99, 0, 0) * 3000, id="frames of no kind"),
        pytest.param(frame(HEADERS, 4, 1, head()) + frame(DATA, 0, 1) * 3000, id="empty data"),
        pytest.param(frame(HEADERS, 0, 1, head()) + frame(CONTINUATION, 0, 1) * 3000, id="empty continuations"),
        pytest.param(frame(HEADERS, 0, 1, head()) + frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 1000) * 40, id="continuations"),
        pytest.param(frame(HEADERS, 4, 1, head() + b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 12000), id="references to a long field"),
    ],
)
def test_floods_of_frames_end_the_connection(server: Server, octets: bytes) -> None:
    with connect(server) as connection:
        send(connection, octets)
        assert code(connection) == CALM
    assert answers(server)


@pytest.mark.parametrize("octets", [1, 2])
def test_windows_of_an_octet_or_two(server: Server, octets: int) -> None:
    with connect(server, PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + octets.to_bytes(4, "big")) + request(1, FAST)) as connection:
        frames = Frames(connection)  # type: ignore[arg-type]
        reply, flags = b"", 0
        while not flags & 1:
            flags, _, part = frames.until(DATA)
            assert len(part) <= octets
            reply += part
            connection.sendall(frame(WINDOW, 0, 1, octets.to_bytes(4, "big")))
        assert dns.message.from_wire(reply).answer


def test_an_initial_window_that_overflows_that_of_a_stream(server: Server) -> None:
    """RFC 9113 6.9.2: the connection ends. libnghttp2 alone would reset the stream."""
    octets = request(1, query(1)) + frame(WINDOW, 0, 1, b"\0\1\0\0") + frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff")
    with connect(server, START + octets) as connection:
        assert int.from_bytes(Frames(connection).until(GOAWAY)[2][4:8], "big") == FLOW  # type: ignore[arg-type]
    assert answers(server)


@pytest.mark.parametrize("length", [1, 1000])
def test_a_content_length_that_lies(server: Server, length: int) -> None:
    block = head(("content-length", str(length)))
    with connect(server, START + frame(HEADERS, 4, 1, block) + frame(DATA, 1, 1, FAST) + request(3, FAST)) as connection:
        frames = Frames(connection)  # type: ignore[arg-type]
        assert frames.until(RST) == (0, 1, b"\0\0\0\1")
        assert frames.until(DATA)[1] == 3


def test_data_of_a_stream_that_has_ended(server: Server) -> None:
    with connect(server, START + request(1, FAST)) as connection:
        frames = Frames(connection)  # type: ignore[arg-type]
        assert frames.until(DATA)[0] == 1
        connection.sendall(frame(DATA, 0, 1, b"x"))
        assert int.from_bytes(frames.until(GOAWAY)[2][4:8], "big") == CLOSED


def test_unfinished_bodies_of_http2_have_a_window(server: Server) -> None:
    """Of all streams together; a client that sends more loses the connection."""
    with connect(server) as connection:
        for number in range(1, 41, 2):
            send(connection, frame(HEADERS, 4, number, head()) + frame(DATA, 0, number, bytes(16000)))
        assert code(connection) == FLOW
    assert answers(server)


@pytest.mark.memory
def test_unfinished_bodies_of_many_connections(server: Server, closing: Callable[[socket.socket], socket.socket]) -> None:
    """256 KiB each: with the 64 MiB that the connections of a worker hold the largest ones end."""
    before = server.memory()
    bodies = b"".join(frame(HEADERS, 4, number, head()) + frame(DATA, 0, number, bytes(16000)) for number in range(1, 33, 2))
    standing = [closing(connect(server, START + bodies)) for _ in range(400)]  # 102 MB
    assert answers(server)
    assert server.memory() - before < 100 << 20
    ended = 0
    for connection in standing:
        connection.settimeout(0.01)
        try:
            while connection.recv(65536):
                pass
            ended += 1
        except ConnectionError:
            ended += 1
        except TimeoutError:
            pass
    assert 100 <= ended < 300


def test_unfinished_requests_of_http1_are_bounded(server: Server, closing: Callable[[socket.socket], socket.socket]) -> None:
    """A head of more than 100 KiB is refused, a body of more than 64 KiB is not read."""
    for octets, status in ((b"GET /dns-query?dns=" + b"A" * 120000, b"431"), (b"POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n", b"400")):
        connection = closing(connect(server, b""))
        send(connection, octets)
        assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)
    assert answers(server)
