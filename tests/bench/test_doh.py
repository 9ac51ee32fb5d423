"""Load over HTTPS: servers that speak HTTP/2 in every way that is allowed, and in some that are not; our own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.loadtest import parse_target
from fastdns.bench.request import request_head
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.workload import Question, Workload
from tests.bench.scripted import reply
from tests.bench.web import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    OK,
    PADDED,
    PING,
    PRIORITIES,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Session,
    Web,
    frame,
    response,
    settings,
)
from tests.certificates import SERVER, write_certificates

hpack = pytest.importorskip("hpack")

QUERIES = QuerySet(Workload("test", [Question(f"n{i}.example.org.", 1, 0, frozenset({b"\x0a\0\0\1"})) for i in range(40)], array("I", range(40))))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = write_certificates(tmp_path_factory.mktemp("tls"))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "server.pem", folder / "server.key")
    made.set_alpn_protocols(["h2"])
    return made


def load(server: Web, **plan: Any) -> Result:
    """Without a time of its own a plan has a longer one where the machine was too busy for a handshake in 50 ms."""
    for seconds in [plan["seconds"]] if "seconds" in plan else [0.05, 0.5, 5]:
        server.sessions.clear()
        server.frames.clear()
        result = drive(
            QUERIES, Target("127.0.0.1", server.port, "doh", SERVER), Plan(**{"timeout": 10, "clients": 2, "window": 16} | plan | {"seconds": seconds})
        )
        if result.sent:
            break
    return result


def good(query: bytes) -> bytes:
    return reply(query, "10.0.0.1")


# ---- what is allowed ----


def several(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    """A body in four frames of which two are empty, and trailers."""
    body = good(query)
    yield frame(HEADERS, END_HEADERS, stream, OK)
    yield from (frame(DATA, 0, stream, part) for part in (b"", body[:1], body[1:], b""))
    yield frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\0\1a\1b")


def padded(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    yield frame(HEADERS, END_HEADERS | PADDED | PRIORITIES, stream, b"\x04" + bytes(5) + OK + bytes(4))
    yield frame(DATA, PADDED, stream, b"\xff" + bytes(255))
    yield frame(DATA, END_STREAM | PADDED, stream, b"\x07" + good(query) + bytes(7))


def continued(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    """The block's octets one by one, behind a frame without any, and more than is looked at."""
    block = b"\x20\x20\x08\x03200" + b"\0\1a\1b" * 50
    yield frame(HEADERS, 0, stream)
    yield from (frame(CONTINUATION, 0, stream, block[i : i + 1]) for i in range(len(block)))
    yield frame(CONTINUATION, END_HEADERS, stream)
    yield frame(DATA, END_STREAM, stream, good(query))


def interim(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    yield frame(HEADERS, END_HEADERS, stream, b"\x08\x03103")
    yield response(stream, good(query))


def talkative(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    """Frames of other kinds between those that matter."""
    yield frame(PING, 0, 0, b"12345678") + frame(PRIORITY, 0, stream, bytes(5)) + frame(0x42, 0xFF, 0, b"?") + settings((MAX_CONCURRENT_STREAMS, 99), (0x99, 1))
    yield frame(SETTINGS, ACK, 0) + frame(PING, ACK, 0, bytes(8)) + frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1")
    yield response(stream, good(query))
    yield frame(RST_STREAM, 0, stream, bytes(4)) + frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1")


def in_pairs(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    """The later one first; frames of both are mixed. One that no other follows waits until the client has acknowledged a ping."""
    first = session.__dict__.pop("first", None)
    if first is None:
        session.first = (stream, query)
        yield frame(PING, 0, 0, b"12345678")
        return
    yield frame(HEADERS, END_HEADERS, first[0], OK) + frame(DATA, 0, first[0], good(first[1])[:20])
    yield response(stream, good(query))
    yield frame(DATA, END_STREAM, first[0], good(first[1])[20:])


def alone(session: Session) -> bytes:
    first = session.__dict__.pop("first", None)
    return response(first[0], good(first[1])) if first else b""


def plain(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
    yield response(stream, good(query))


@pytest.mark.parametrize(
    ("script", "piece"), [(script, piece) for script in (plain, several, padded, continued, interim, talkative, in_pairs) for piece in (0, 3)]
)
def test_servers_may_answer_in_many_ways(context: ssl.SSLContext, script: Any, piece: int) -> None:
    with Web(context, script, on_ping=alone, piece=piece) as server:
        result = load(server, window=16)
    assert result.sent == result.answered > 0
    assert (result.lost, result.wrong, result.refused, result.resets, result.late) == (0, {}, 0, 0, 0)
    assert len(server.sessions) == 2
    pings = [frame for frame in server.frames if frame[0] == PING]
    assert all(ping == (PING, ACK, 0, b"12345678") for ping in pings)
    assert bool(pings) == (script in (talkative, in_pairs))


@pytest.mark.parametrize("plan", [{"rate": 500}, {"rate": 300, "warm": 0.1, "threads": 2}])
def test_an_open_loop(context: ssl.SSLContext, plan: dict[str, Any]) -> None:
    with Web(context, plain) as server:
        result = load(server, seconds=0.3, **plan)
    assert result.sent == result.answered == pytest.approx(plan["rate"] * 0.3, abs=2)
    assert result.wrong == {}


def test_the_request(context: ssl.SSLContext) -> None:
    with Web(context, plain) as server:
        load(server, window=1, clients=1)
    sent = [(kind, payload) for kind, flags, stream, payload in server.frames if stream == 1]
    assert [kind for kind, _ in sent] == [HEADERS, DATA]
    fields = [(":method", "POST"), (":scheme", "https"), (":authority", f"{SERVER}:{server.port}"), (":path", "/dns-query")]
    fields += [("content-type", "application/dns-message"), ("accept", "application/dns-message"), ("content-length", str(len(sent[1][1])))]
    decoder = hpack.Decoder()
    assert decoder.decode(sent[0][1]) == fields
    assert len(decoder.header_table.dynamic_entries) == 0
    assert sent[1][1][:2] == b"\0\0"
    changed = [payload for kind, flags, _, payload in server.frames if kind == SETTINGS and not flags & ACK]
    assert changed[0].startswith(b"\0\1\0\0\0\0\0\2\0\0\0\0")
    assert (SETTINGS, ACK, 0, b"") in server.frames
    long = request_head(Target("127.0.0.1", 443, "doh", path="/" + "a" * 300))
    assert hpack.Decoder().decode(long)[2:4] == [(":authority", "127.0.0.1"), (":path", "/" + "a" * 300)]


# ---- limits ----


@pytest.mark.parametrize("initial", [0, 1, 10])
def test_a_small_window_of_a_stream(context: ssl.SSLContext, initial: int) -> None:
    """Raised octet by octet, once by a change of the setting."""

    def more(session: Session, stream: int, octets: int) -> bytes:
        return frame(WINDOW_UPDATE, 0, stream, octets.to_bytes(4)) + frame(WINDOW_UPDATE, 0, 0, octets.to_bytes(4))

    late = settings((INITIAL_WINDOW_SIZE, 7)) if initial == 0 else b""
    with Web(context, plain, settings=settings((INITIAL_WINDOW_SIZE, initial)) + frame(PING, 0, 0, bytes(8)) + late, on_part=more) as server:
        result = load(server)
    assert result.sent == result.answered > 0
    assert result.wrong == {}
    parts = [len(payload) for kind, _, _, payload in server.frames if kind == DATA]
    assert 0 < max(parts) <= (initial or 7)


def test_the_window_of_a_connection(context: ssl.SSLContext) -> None:
    """It is used up to the last octet, no further, and then given again."""
    left: dict[Session, int] = {}

    def take(session: Session, stream: int, octets: int) -> bytes:
        left[session] = left.get(session, 65535) - octets
        assert left[session] >= 0
        if left[session]:
            return b""
        left[session] = 65535
        return frame(WINDOW_UPDATE, 0, 0, (65535).to_bytes(4))

    with Web(context, plain, on_part=take) as server:
        result = load(server, clients=1, seconds=0.5, window=64)
    assert result.sent == result.answered
    assert sum(len(payload) for kind, _, _, payload in server.frames if kind == DATA) > 65535
    assert (result.wrong, result.refused) == ({}, 0)


def test_the_servers_window_is_opened_again(context: ssl.SSLContext) -> None:
    def large(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        """Far more than what leaves room for a few of them."""
        yield frame(HEADERS, END_HEADERS, stream, OK)
        yield from (frame(DATA, 0, stream, part) for part in (good(query), *[bytes(16000)] * 4))
        yield frame(DATA, END_STREAM, stream)

    with Web(context, large) as server:
        result = load(server, clients=1, check="none", rate=300, seconds=0.5)
    more = sum(int.from_bytes(payload) for kind, _, stream, payload in server.frames if kind == WINDOW_UPDATE and stream == 0)
    assert result.sent == result.answered
    assert result.octets > 1 << 23
    assert more > (1 << 24) - 65535  # what it begins with
    assert (result.wrong, result.refused) == ({}, 0)


def test_no_more_streams_than_the_server_takes(context: ssl.SSLContext) -> None:
    most = []

    def together(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        """Answers when three are there: no fourth may come."""
        session.bodies[-stream] = query
        most.append(len(session.bodies))
        if len(session.bodies) == 3:
            for number in list(session.bodies):
                yield response(-number, good(session.bodies.pop(number)))

    with Web(context, together, settings=settings((MAX_CONCURRENT_STREAMS, 3))) as server:
        result = load(server, window=30, clients=1, timeout=1)
    assert max(most) == 3
    assert result.answered > 3
    assert result.lost == result.sent - result.answered


def test_streams_that_were_given_up_make_room(context: ssl.SSLContext) -> None:
    with Web(context, lambda session, stream, query: (), settings=settings((MAX_CONCURRENT_STREAMS, 2))) as server:
        result = load(server, rate=100, clients=1, seconds=0.3, timeout=0.1)
    assert result.lost == result.sent > 4
    cancelled = [stream for kind, _, stream, payload in server.frames if kind == RST_STREAM and payload == b"\0\0\0\x08"]
    assert cancelled[:2] == [1, 3]


def test_late_replies(context: ssl.SSLContext) -> None:
    waiting: list[tuple[int, bytes]] = []

    def script(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        """Answers the first when its client has long given it up."""
        waiting.append((stream, query))
        if len(waiting) == 30:
            yield response(waiting[0][0], good(waiting[0][1]))
        if len(waiting) > 1:
            yield response(stream, good(query))

    with Web(context, script) as server:
        result = load(server, rate=100, clients=1, seconds=0.6, timeout=0.1)
    assert result.late > 0
    assert result.lost == result.sent - result.answered > 0
    assert result.wrong == {}


# ---- what goes wrong ----


def failing(block: bytes) -> Callable[..., Iterable[bytes]]:
    return lambda session, stream, query: [response(stream, b"no", block)]


@pytest.mark.parametrize(
    ("script", "wrong", "statuses"),
    [
        (failing(b"\x08\x03503"), "status", "503"),
        (failing(b"\x48\x82\x6c\x02"), "status", "502"),
        (failing(b"\x48\x82\x6c\x0c"), "status", "0"),
        (failing(b"\x48\x82\x71\xa0"), "status", "0"),
        (failing(b"\x48\x83\x6c\x0c\xff"), "status", "503"),
        (failing(b"\x8e"), "status", "500"),
        (failing(b"\0\x07:status\x03429"), "status", "429"),
        (failing(b"\0\x85\xb8\x84\x8d\x36\xa3\x03429"), "status", "429"),
        (failing(b"\x08\x03999"), "status", "0"),
        (failing(b"\x08\x0220"), "status", "0"),
        (lambda session, stream, query: [frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x8d")], "status", "404"),
        (lambda session, stream, query: [frame(HEADERS, END_HEADERS | END_STREAM, stream, OK)], "malformed", ""),
        (lambda session, stream, query: [response(stream, b"")], "malformed", ""),
        (lambda session, stream, query: [response(stream, good(query)[:20])], "question", ""),
        (lambda session, stream, query: [response(stream, b"\1" + good(query)[1:])], "id", ""),
        (lambda session, stream, query: [response(stream, reply(query, "10.0.0.2"))], "answer", ""),
        (lambda session, stream, query: [response(stream, reply(query, rcode=2))], "rcode", ""),
        (
            lambda session, stream, query: [frame(HEADERS, END_HEADERS, stream, OK), *[frame(DATA, 0, stream, bytes(16384))] * 5],
            "malformed",
            "",
        ),
    ],
)
def test_wrong_replies(context: ssl.SSLContext, script: Any, wrong: str, statuses: str) -> None:
    with Web(context, script) as server:
        result = load(server)
    assert result.wrong == {wrong: result.answered}
    assert result.sent == result.answered > 0
    assert result.statuses == ({statuses: result.answered} if statuses else {})
    assert result.refused == 0
    assert Result.from_json(result.to_json()).statuses == result.statuses


def test_streams_that_the_server_resets(context: ssl.SSLContext) -> None:
    def half(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        session.answered += 1
        yield frame(RST_STREAM, 0, stream, b"\0\0\0\x07") if session.answered % 2 else response(stream, good(query))

    with Web(context, half) as server:
        result = load(server)
    assert result.lost == result.resets > 0
    assert result.sent == result.answered + result.lost
    assert (result.wrong, result.refused) == ({}, 0)


@pytest.mark.parametrize("closes", [False, True])
def test_a_server_that_goes_away(context: ssl.SSLContext, closes: bool) -> None:
    """After five requests it takes no more, answers those that it took, and waits for the client to leave, or hangs up."""

    def script(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        session.answered += 1
        if session.answered == 5:
            yield frame(GOAWAY, 0, 0, stream.to_bytes(4) + bytes(4) + b"enough")
        if session.answered <= 5:
            yield response(stream, good(query))
        if session.answered == 5 and closes:
            session.send(frame(PING, 0, 0, bytes(8)))
            session.connection.shutdown(socket.SHUT_RDWR)

    with Web(context, script) as server:
        result = load(server, rate=100, seconds=1, clients=1)
    assert len(server.sessions) > 1
    assert result.sent == result.answered + result.lost
    assert result.answered > 5
    assert result.resets <= result.lost
    assert result.wrong == {}


HEAD = frame(HEADERS, END_HEADERS, 1, OK)


#: What a server may not say after the first request of a connection.
VIOLATIONS = [
    frame(DATA, 0, 0, b"x"),
    frame(DATA, 0, 2, b"x"),
    frame(DATA, 0, 0x7FFFFFFF, b"x"),
    frame(DATA, END_STREAM, 1, b"before its headers"),
    HEAD + frame(DATA, PADDED, 1),
    HEAD + frame(DATA, PADDED, 1, b"\x05" + bytes(4)),
    HEAD + HEAD,
    response(1, b"") + HEAD,
    response(1, b"") + frame(DATA, 0, 1, b"x"),
    frame(DATA, 0, 1, bytes(16385)),
    HEAD + frame(DATA, PADDED, 1, b"\xff" + bytes(255)) * 1025,
    frame(HEADERS, END_HEADERS, 1),
    frame(HEADERS, END_HEADERS, 1, b"\x87"),
    frame(HEADERS, END_HEADERS, 1, b"\xff\x80\x80\x80\x80\x01"),
    frame(HEADERS, END_HEADERS, 1, b"\x08"),
    frame(HEADERS, END_HEADERS, 1, b"\x08\x7f\xff\xff\xff"),
    frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\x1f" + OK),
    frame(HEADERS, END_HEADERS, 1, b"\0\x04:sta\x03200"),
    frame(HEADERS, END_HEADERS | PRIORITIES, 1, b"\0\0\0\0"),
    frame(HEADERS, END_HEADERS | PADDED, 1),
    frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x08\x03100"),
    frame(HEADERS, 0, 1, OK) + frame(DATA, END_STREAM, 1, b""),
    frame(HEADERS, 0, 1, OK) + frame(CONTINUATION, END_HEADERS, 3),
    frame(CONTINUATION, END_HEADERS, 1, OK),
    frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + OK),
    frame(RST_STREAM, 0, 1, b"\0"),
    frame(RST_STREAM, 0, 0, bytes(4)),
    frame(SETTINGS, 0, 0, b"\0\3\0\0\0"),
    frame(SETTINGS, ACK, 0, bytes(6)),
    frame(SETTINGS, 0, 1),
    settings((INITIAL_WINDOW_SIZE, 1 << 31)),
    settings((5, 16383)),
    frame(PING, 0, 0, bytes(7)),
    frame(GOAWAY, 0, 0, bytes(7)),
    frame(WINDOW_UPDATE, 0, 0, bytes(4)),
    frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
    frame(WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff"),
    frame(WINDOW_UPDATE, 0, 1, bytes(3)),
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
]


def test_what_is_against_the_protocol_ends_the_connection(context: ssl.SSLContext) -> None:
    """Each connection has its own; the next one goes on."""
    over = threading.Event()
    kept: list[bytes] = []

    def script(session: Session, stream: int, query: bytes) -> Iterable[bytes]:
        number = server.sessions.index(session)
        if number >= len(VIOLATIONS):
            over.set()
            return [response(stream, good(query))]
        if stream == 1:
            return [VIOLATIONS[number]]
        kept.append(VIOLATIONS[number])
        return []

    with Web(context, script) as server:
        result = drive(QUERIES, Target("127.0.0.1", server.port, "doh"), Plan(seconds=60, clients=1, window=1, timeout=10), stop=over)
    assert kept == []
    assert over.is_set()
    assert result.refused == len(VIOLATIONS)
    # Some of them end with the stream before they end the connection.
    assert 0 < result.lost + result.wrong["malformed"] <= len(VIOLATIONS) + 1


@pytest.mark.parametrize("greeting", [frame(PING, 0, 0, bytes(8)), b"\0" * 100, b"SSH-2.0-x\r\n"])
def test_a_server_that_begins_with_something_else(context: ssl.SSLContext, greeting: bytes) -> None:
    with Web(context, plain, settings=greeting) as server, pytest.raises(LoadError, match="broken off"):
        load(server)


def test_a_server_without_http2(context: ssl.SSLContext, tmp_path: Path) -> None:
    write_certificates(tmp_path)
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    other.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with Web(other, plain) as server, pytest.raises(LoadError, match="no HTTP/2 there"):
        load(server)


# ---- HTTP/1.1 ----


def chatty(query: bytes, status: str = "200 OK", fields: str = "") -> bytes:
    body = good(query)
    return f"HTTP/1.1 {status}\r\nContent-Type: application/dns-message\r\nCONTENT-LENGTH:  {len(body)}\r\n{fields}\r\n".encode() + body


#: What a server answers with -> what is counted: wrong replies, connections that broke.
RESPONSES: list[tuple[Callable[[bytes], bytes], str, bool]] = [
    (chatty, "", False),
    (lambda query: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + chatty(query), "", False),
    (lambda query: chatty(query, "503 Not Now"), "status", False),
    (lambda query: b"HTTP/1.1 204 None\r\n\r\n", "status", False),
    (lambda query: b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "malformed", False),
    (lambda query: chatty(query, fields="Connection: close\r\n"), "", True),
    (lambda query: b"HTTP/1.0" + chatty(query)[8:], "", True),
    (lambda query: b"HTTP/1.1 200 OK\r\n\r\n" + good(query), "", True),
    (lambda query: b"HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n", "", True),
    (lambda query: b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "", True),
    (lambda query: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "", True),
    (lambda query: chatty(query) * 2, "question", True),
    (lambda query: b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5000, "", True),
    (lambda query: b"SSH-2.0-x\r\n\r\n" + bytes(20), "", True),
    (lambda query: b"\r\n\r\n", "", True),
]


@pytest.mark.parametrize(("answer", "wrong", "breaks"), RESPONSES)
def test_http1(answer: Callable[[bytes], bytes], wrong: str, breaks: bool) -> None:
    """Octets dribble where they can."""

    def serve(plain: socket.socket) -> None:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with plain, plain.makefile("rb") as stream, contextlib.suppress(OSError):
            while stream.readline().startswith(b"POST /dns-query HTTP/1.1"):
                fields = dict(line.strip().split(b": ") for line in iter(stream.readline, b"\r\n"))
                made = answer(stream.read(int(fields[b"Content-Length"])))
                for at in range(0, 30, 3):
                    plain.sendall(made[at : at + 3])
                plain.sendall(made[30:])

    def accept() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(plain,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        threading.Thread(target=accept, daemon=True).start()
        for seconds in (0.05, 0.5, 5):  # until there was more than one query on a connection
            result = drive(QUERIES, Target("127.0.0.1", listener.getsockname()[1], "doh+http"), Plan(seconds=seconds, timeout=10, clients=2, window=4))
            if not breaks or result.lost or result.wrong:
                break
        listener.shutdown(socket.SHUT_RDWR)
    assert result.sent == result.answered + result.lost > 0
    assert set(result.wrong) <= {wrong}
    if breaks:
        assert result.lost or result.wrong
    else:
        assert (result.lost, result.refused) == (0, 0)
        assert result.wrong == ({wrong: result.answered} if wrong else {})


# ---- our own ----

COREFILE = """https://.:{port} {
    TLS
    template IN A {
        answer "{{ .Name }} 5 IN A 10.0.0.1"
    }
}
"""


@pytest.mark.parametrize(("transport", "tls"), [("doh", "tls server.pem server.key"), ("doh+http", "")])
@pytest.mark.parametrize("plan", [{"window": 32}, {"rate": 300}])
def test_fastdns(serve: Callable[..., Any], transport: str, tls: str, plan: dict[str, Any]) -> None:
    server = serve(COREFILE.replace("TLS", tls), prepare=write_certificates)
    result = drive(QUERIES, Target("127.0.0.1", server.port, transport), Plan(seconds=0.3, **plan))
    assert result.sent == result.answered > 0
    assert (result.lost, result.wrong, result.refused, result.rcodes) == (0, {}, 0, {"NOERROR": result.sent})
    missing = drive(QUERIES, parse_target(f"{transport}://127.0.0.1:{server.port}/elsewhere"), Plan(seconds=0.05, window=4))
    assert missing.statuses == {"404": missing.answered}
    assert missing.wrong == {"status": missing.answered}
