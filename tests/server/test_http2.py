"""HTTP/2 as RFC 9113 wants it of a server: what breaks its rules, frame by frame."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator

import dns.message
import hpack
import pytest

from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.waiting import REPLY

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
QUERY = dns.message.make_query("a.test.", "A", id=0).to_wire()
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def head(*fields: tuple[str, str], **changed: str) -> bytes:
    pseudo = {":method": "POST", ":scheme": "https", ":authority": "a", ":path": "/dns-query", **{f":{name}": value for name, value in changed.items()}}
    return hpack.Encoder().encode([*((name, value) for name, value in pseudo.items() if value), *fields], huffman=False)


START = PREFACE + frame(SETTINGS, 0, 0)
ASK = frame(HEADERS, 4, 1, head()) + frame(DATA, 1, 1, QUERY)
#: A stream whose window is as large as can be.
GROWN = frame(HEADERS, 4, 1, head()) + frame(WINDOW, 0, 1, (2**31 - 1 - 65535).to_bytes(4, "big"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_certificates(tmp_path_factory.mktemp("http2"))
    block = "https://.:{port} {\n timeouts {\n read 1m\n idle 1h\n }\n tls server.pem server.key\n hosts {\n 192.0.2.1 a.test\n }\n}"
    with Server(folder, block) as running:
        yield running


def connect(server: Server) -> ssl.SSLSocket:
    return client_context(server.folder, alpn=("h2",)).wrap_socket(socket.create_connection(("127.0.0.1", server.port), REPLY))


class Frames:
    """Reads a connection frame by frame."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection
        self.octets = b""

    def read(self) -> tuple[int, int, int, bytes] | None:
        """Kind, flags, stream and payload; None at the end."""
        while len(self.octets) < 9 or len(self.octets) < 9 + int.from_bytes(self.octets[:3], "big"):
            try:
                part = self.connection.recv(65536)
            except (ConnectionError, ssl.SSLError):
                return None
            if not part:
                return None
            self.octets += part
        end = 9 + int.from_bytes(self.octets[:3], "big")
        found = self.octets[3], self.octets[4], int.from_bytes(self.octets[5:9], "big"), self.octets[9:end]
        self.octets = self.octets[end:]
        return found

    def until(self, kind: int) -> tuple[int, int, bytes]:
        """The next frame of a kind: flags, stream and payload."""
        while (found := self.read()) is not None:
            if found[0] == kind:
                return found[1:]
        raise AssertionError("the connection has ended")


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 1, id="no preface"),
        pytest.param(PREFACE + frame(PING, 0, 0, bytes(8)), 1, id="no settings first"),
        pytest.param(PREFACE + frame(SETTINGS, 1, 0), 1, id="an acknowledgement first"),
        pytest.param(START + frame(SETTINGS, 0, 1), 1, id="settings of a stream"),
        pytest.param(START + frame(SETTINGS, 0, 0, bytes(5)), 6, id="settings cut"),
        pytest.param(START + frame(SETTINGS, 1, 0, bytes(6)), 6, id="an acknowledgement that says something"),
        pytest.param(START + frame(SETTINGS, 0, 0, b"\0\2\0\0\0\2"), 1, id="push neither on nor off"),
        pytest.param(START + frame(SETTINGS, 0, 0, b"\0\4\x80\0\0\0"), 3, id="a window above 2^31-1"),
        pytest.param(START + GROWN + frame(SETTINGS, 0, 0, b"\0\4\0\1\0\0"), 3, id="settings that take a window above 2^31-1"),
        pytest.param(START + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1") + GROWN + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1\0\4\x7f\xff\xff\xff"), 3, id="twice"),
        pytest.param(START + frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1"), 1, id="frames of an octet"),
        pytest.param(START + frame(PING, 0, 0, bytes(7)), 6, id="ping cut"),
        pytest.param(START + frame(PING, 0, 1, bytes(8)), 1, id="ping of a stream"),
        pytest.param(START + frame(WINDOW, 0, 0, bytes(4)), 1, id="a window that does not grow"),
        pytest.param(START + frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"), 3, id="a window that grows too far"),
        pytest.param(START + frame(WINDOW, 0, 0, bytes(3)), 6, id="window cut"),
        pytest.param(START + frame(WINDOW, 0, 5, b"\0\0\0\1"), 1, id="the window of an idle stream"),
        pytest.param(START + frame(RST, 0, 5, bytes(4)), 1, id="reset of an idle stream"),
        pytest.param(START + ASK + frame(RST, 0, 1, bytes(3)), 6, id="reset cut"),
        pytest.param(START + frame(DATA, 0, 0, b"x"), 1, id="data of no stream"),
        pytest.param(START + frame(DATA, 0, 5, b"x"), 1, id="data of an idle stream"),
        pytest.param(START + frame(HEADERS, 4, 2, head()), 1, id="an even stream"),
        pytest.param(START + frame(HEADERS, 4, 0, head()), 1, id="headers of no stream"),
        pytest.param(START + frame(HEADERS, 4 | 8, 1, b"\xff" + head()), 1, id="more padding than payload"),
        pytest.param(START + frame(HEADERS, 4 | 8, 1), 1, id="padding without a length"),
        pytest.param(START + frame(HEADERS, 4 | 32, 1, b"abc"), 6, id="priority cut"),
        pytest.param(START + frame(HEADERS, 4, 1, b"\xff\xff\xff\xff\xff"), 9, id="a number without end"),
        pytest.param(START + frame(HEADERS, 4, 1, b"\xfe"), 9, id="a place that the table has not"),
        pytest.param(START + frame(HEADERS, 0, 1, head()) + frame(PING, 0, 0, bytes(8)), 1, id="something within a head"),
        pytest.param(START + frame(HEADERS, 0, 1, head()) + frame(CONTINUATION, 4, 3), 1, id="a head that goes on elsewhere"),
        pytest.param(START + frame(CONTINUATION, 4, 1, head()), 1, id="a head without its beginning"),
        pytest.param(START + frame(PUSH, 4, 1, bytes(4)), 1, id="a push"),
        pytest.param(START + frame(PRIORITY, 0, 1, bytes(4)), 6, id="priority of another size"),
        pytest.param(START + b"\xff\xff\xff\0\0\0\0\0\1", 6, id="a frame of 16 megabytes"),
        pytest.param(START + frame(HEADERS, 4, 1, head()) + frame(DATA, 0, 1, bytes(16384)) * 70, 3, id="more than the window"),
    ],
)
def test_what_ends_the_connection(server: Server, octets: bytes, code: int) -> None:
    with connect(server) as connection:
        try:
            connection.sendall(octets)
        except OSError:
            pass
        frames = Frames(connection)
        if code == 3 and len(octets) > 100000:  # each stream has a smaller one, and is reset first
            assert frames.until(RST)[2] in (b"\0\0\0\3", bytes(4))
            return
        _, _, payload = frames.until(GOAWAY)
        assert int.from_bytes(payload[4:8], "big") == code
        assert frames.read() is None


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(head(method=""), id="no method"),
        pytest.param(head(path=""), id="no path"),
        pytest.param(head(scheme=""), id="no scheme"),
        pytest.param(head((":status", "200")), id="a response's field"),
        pytest.param(head((":path", "/")), id="two paths"),
        pytest.param(head(("a", "b"), (":authority", "c")), id="a pseudo field behind others"),
        pytest.param(head(("connection", "close")), id="a field of the connection"),
        pytest.param(head(("te", "gzip")), id="te"),
        pytest.param(head() + b"\0\1A\1b", id="a capital letter"),
        pytest.param(head() + b"\0\1a\3b\r\n", id="a line within a value"),
        pytest.param(head() + b"\0\0\1b", id="no name"),
    ],
)
def test_a_malformed_head_resets_its_stream_only(server: Server, block: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(START + frame(HEADERS, 5, 1, block) + ASK.replace(b"\0\0\0\1", b"\0\0\0\3"))
        frames = Frames(connection)
        assert frames.until(RST) == (0, 1, b"\0\0\0\1")
        assert frames.until(DATA)[1] == 3


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(ASK, id="plain"),
        pytest.param(frame(HEADERS, 4 | 8 | 32, 1, b"\3" + bytes(5) + head() + bytes(3)) + frame(DATA, 1 | 8, 1, b"\2" + QUERY + bytes(2)), id="padded"),
        pytest.param(
            frame(HEADERS, 0, 1, head()[:5]) + frame(CONTINUATION, 0, 1) + frame(CONTINUATION, 4, 1, head()[5:]) + frame(DATA, 1, 1, QUERY), id="in parts"
        ),
        pytest.param(frame(HEADERS, 4, 1, head()) + frame(DATA, 0, 1, QUERY) + frame(HEADERS, 5, 1, b"\0\1a\1b"), id="fields behind the body"),
        pytest.param(frame(99, 255, 7, b"?") + frame(PRIORITY, 0, 9, bytes(5)) + frame(SETTINGS, 0, 0, b"\0\x99\0\0\0\1") + ASK, id="unknown things"),
        pytest.param(frame(SETTINGS, 0, 0, b"\0\1\0\0\0\0\0\3\0\0\0\1\0\5\0\xff\xff\xff") + ASK, id="settings"),
        pytest.param(GROWN + frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") + frame(DATA, 1, 1, QUERY), id="the largest window"),
        pytest.param(
            GROWN + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0") + frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") + frame(DATA, 1, 1, QUERY), id="smaller and back"
        ),
        pytest.param(frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") + ASK, id="the largest initial window"),
        pytest.param(frame(HEADERS, 4, 1, b"\x3f\xe1\x1f" + head()) + frame(DATA, 1, 1, QUERY), id="the size of the table"),
    ],
)
def test_what_is_understood(server: Server, octets: bytes) -> None:
    with connect(server) as connection:
        for at in range(0, 60, 5):  # in pieces of any size; the library takes at most eight of the heads of CONTINUATION
            connection.sendall((START + octets)[at : at + 5])
        connection.sendall((START + octets)[60:])
        frames = Frames(connection)
        flags, stream, block = frames.until(HEADERS)
        assert (flags, stream) == (4, 1)
        assert (":status", "200") in hpack.Decoder().decode(block)
        flags, stream, reply = frames.until(DATA)
        assert (flags, stream) == (1, 1)
        assert dns.message.from_wire(reply).answer


def test_repeated_heads_and_a_table_that_changes(server: Server) -> None:
    """A head that says the same octets means something else once the table is another."""
    encoder = hpack.Encoder()
    with connect(server) as connection:
        connection.sendall(START)
        frames = Frames(connection)
        for number, path in enumerate(["/dns-query", "/dns-query", "/other", "/other", "/dns-query", "/dns-query"]):
            fields = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", path), ("x", "y")]
            connection.sendall(frame(HEADERS, 4, number * 2 + 1, encoder.encode(fields)) + frame(DATA, 1, number * 2 + 1, QUERY))
        decoder = hpack.Decoder()
        statuses = {}
        for _ in range(6):
            _, stream, block = frames.until(HEADERS)
            statuses[stream] = dict(decoder.decode(block))[":status"]
    assert statuses == {1: "200", 3: "200", 5: "404", 7: "404", 9: "200", 11: "200"}


def test_streams_above_the_limit_are_refused(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(START + b"".join(frame(HEADERS, 4, number, head()) for number in range(1, 503, 2)))
        assert Frames(connection).until(RST) == (0, 501, b"\0\0\0\7")


def test_windows_are_kept_to(server: Server) -> None:
    """Ten octets for the stream, then what WINDOW_UPDATE and SETTINGS add to it."""
    with connect(server) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\x0a") + ASK)
        frames = Frames(connection)
        first = frames.until(DATA)
        assert (first[0], len(first[2])) == (0, 10)
        connection.sendall(frame(WINDOW, 0, 1, b"\0\0\0\5"))
        second = frames.until(DATA)
        assert (second[0], len(second[2])) == (0, 5)
        connection.sendall(frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff"))
        third = frames.until(DATA)
        assert third[0] == 1
        assert dns.message.from_wire(first[2] + second[2] + third[2]).answer


def test_a_window_that_overflows_by_an_update_resets_its_stream_only(server: Server) -> None:
    """RFC 9113 6.9.1; overflows by SETTINGS end the connection (6.9.2)."""
    with connect(server) as connection:
        connection.sendall(
            START + GROWN + frame(WINDOW, 0, 1, b"\0\0\0\1") + frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff") + ASK.replace(b"\0\0\0\1", b"\0\0\0\3")
        )
        frames = Frames(connection)
        assert frames.until(RST) == (0, 1, b"\0\0\0\3")
        assert frames.until(DATA)[1] == 3


def test_large_bodies_get_their_window_back(server: Server) -> None:
    body = QUERY + bytes(60000)
    with connect(server) as connection:
        frames = Frames(connection)
        connection.sendall(START)
        for number in range(1, 81, 2):  # 2.4 megabytes in all
            connection.sendall(frame(HEADERS, 4, number, head()))
            for at in range(0, len(body), 16000):
                part = body[at : at + 16000]
                connection.sendall(frame(DATA, 1 if at + len(part) == len(body) else 0, number, part))
            assert frames.until(DATA)[1] == number


@pytest.mark.parametrize(("line", "streams"), [("", 250), ("https {\n max_streams 7\n }", 7), ("https {\n max_streams 0\n }", 250)])
def test_streams_of_a_connection(serve: Callable[..., Server], line: str, streams: int) -> None:
    """What the server says at the start is `max_streams` (RFC 9113 6.5.2), and holds."""
    block = "https://.:{port} {\n " + line + "\n tls server.pem server.key\n erratic {\n drop 0\n delay 1 1h\n }\n}"
    with connect(serve(block, prepare=write_certificates)) as connection:
        frames = Frames(connection)
        connection.sendall(START)
        _, _, settings = frames.until(SETTINGS)
        assert {settings[at : at + 2]: int.from_bytes(settings[at + 2 : at + 6], "big") for at in range(0, len(settings), 6)}[b"\0\3"] == streams
