"""Load over QUIC: servers that answer as a test says, and our own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aioquic")

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve as serve_quic
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import QuicEvent, StreamDataReceived

from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.workload import Question, Workload
from tests.bench.scripted import reply
from tests.certificates import SERVER, write_certificates
from tests.server import free_port

#: Of a connection, a stream and its query.
Script = Callable[[QuicConnection, int, bytes], None]

ASKED = [Question(f"n{i}.example.org.", 1, 0, frozenset({b"\x0a\0\0\1"})) for i in range(40)]
QUERIES = QuerySet(Workload("test", ASKED, array("I", range(40))))


class Server(QuicConnectionProtocol):
    """One connection: queries in one frame each."""

    script: Script

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and event.data:
            assert event.end_stream
            assert int.from_bytes(event.data[:2]) == len(event.data) - 2
            type(self).script(self._quic, event.stream_id, event.data[2:])
            self.transmit()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def quic(certificates: Path) -> Iterator[Callable[..., int]]:
    """``quic(script)`` serves in a thread; the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[Any] = []

    def start(script: Script, alpn: str = "doq") -> int:
        configuration = QuicConfiguration(is_client=False, alpn_protocols=[alpn])
        configuration.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        kind = type("Scripted", (Server,), {"script": staticmethod(script)})
        port = free_port()
        servers.append(asyncio.run_coroutine_threadsafe(serve_quic("127.0.0.1", port, configuration=configuration, create_protocol=kind), loop).result(20))
        return port

    async def finish() -> None:
        for server in servers:
            server.close()
        await asyncio.sleep(0)  # until their sockets are

    yield start
    asyncio.run_coroutine_threadsafe(finish(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def load(port: int, **plan: Any) -> Result:
    return drive(QUERIES, Target("127.0.0.1", port, "doq", SERVER), Plan(**{"seconds": 0.2, "timeout": 10, "clients": 2, "window": 8} | plan))


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(2) + message


def good(query: bytes) -> bytes:
    return framed(reply(query, "10.0.0.1"))


def dribbled(connection: QuicConnection, stream: int, query: bytes) -> None:
    """In three frames, the last without anything."""
    octets = good(query)
    connection.send_stream_data(stream, octets[:1])
    connection.send_stream_data(stream, octets[1:])
    connection.send_stream_data(stream, b"", True)


@pytest.mark.parametrize("plan", [{"window": 8}, {"rate": 100, "threads": 2, "warm": 0.1, "cpus": [min(os.sched_getaffinity(0))]}, {"steps": [50, 100]}])
def test_every_query_is_counted_once(quic: Callable[..., int], plan: dict[str, Any]) -> None:
    result = load(quic(dribbled), **plan)
    assert result.sent == result.answered > 0
    assert (result.lost, result.wrong, result.refused, result.rcodes) == (0, {}, 0, {"NOERROR": result.sent})
    assert sum(interval.sent for interval in result.intervals) == result.latency.count == result.sent
    assert len(result.steps) == len(plan.get("steps", []))
    assert (result.warmed > 0) == ("warm" in plan)
    assert result.cpu > 0


def sending(made: Callable[[bytes], bytes]) -> Script:
    return lambda connection, stream, query: connection.send_stream_data(stream, made(query), True)


#: What a server answers, and what that is.
REPLIES: list[tuple[Script, str]] = [
    (sending(good), ""),
    (sending(lambda query: good(query)[:-1]), "malformed"),
    (sending(lambda query: good(query) + b"x"), "malformed"),
    (sending(lambda query: b"\0\0"), "malformed"),
    (sending(lambda query: b"\0\1x"), "malformed"),
    (sending(lambda query: b""), "malformed"),
    (sending(lambda query: bytes(70000)), "malformed"),
    (sending(lambda query: framed(b"\1" + good(query)[3:])), "id"),
    (sending(lambda query: framed(reply(query, "10.0.0.2"))), "answer"),
    (lambda connection, stream, query: connection.reset_stream(stream, 2), "reset"),
]


def test_wrong_replies(quic: Callable[..., int]) -> None:
    """One after the other."""
    said: Counter[str] = Counter()

    def script(connection: QuicConnection, stream: int, query: bytes) -> None:
        answer, what = REPLIES[said.total() % len(REPLIES)]
        said[what] += 1
        answer(connection, stream, query)

    result = load(quic(script), rate=200, seconds=0.3)
    assert result.sent == said.total() == 60
    assert result.resets == result.lost == said.pop("reset")
    assert result.answered == said.total()
    del said[""]
    assert result.wrong == said
    assert result.refused == 0


def test_connections_that_the_server_closes(quic: Callable[..., int]) -> None:
    seen: dict[QuicConnection, int] = {}

    def script(connection: QuicConnection, stream: int, query: bytes) -> None:
        seen[connection] = seen.get(connection, 0) + 1
        if seen[connection] == 5:
            connection.close(0)
        else:
            connection.send_stream_data(stream, good(query), True)

    result = load(quic(script), rate=100, seconds=1)
    assert len(seen) > 2
    assert result.sent == result.answered + result.lost
    assert 0 < result.refused <= result.lost
    assert result.answered > 5
    assert result.wrong == {}


def test_more_queries_than_the_server_takes_streams(quic: Callable[..., int]) -> None:
    """It never answers: the streams of queries that were given up make room."""
    result = load(quic(lambda connection, stream, query: None), rate=600, seconds=0.5, timeout=0.1, clients=1)
    assert result.lost == result.sent > 128
    assert result.answered == 0


def test_late_replies(quic: Callable[..., int]) -> None:
    waiting: list[tuple[int, bytes]] = []

    def script(connection: QuicConnection, stream: int, query: bytes) -> None:
        waiting.append((stream, query))
        if len(waiting) == 30:
            connection.send_stream_data(waiting[0][0], good(waiting[0][1]), True)
        if len(waiting) > 1:
            connection.send_stream_data(stream, good(query), True)

    result = load(quic(script), rate=100, clients=1, seconds=0.6, timeout=0.15)
    assert result.late > 0
    assert result.lost == result.sent - result.answered > 0
    assert result.wrong == {}


def test_a_run_that_is_stopped(quic: Callable[..., int]) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    result = drive(QUERIES, Target("127.0.0.1", quic(dribbled), "doq"), Plan(seconds=60, rate=100), stop=stop)
    assert result.seconds < 30
    assert result.wrong == {}


def test_what_cannot_begin(quic: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoadError, match="refused"):
        load(free_port())
    with pytest.raises(LoadError, match="broken off"):
        load(quic(dribbled, "h3"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LoadError, match=r"needs aioquic, which is not installed"):
        load(1)


COREFILE = """quic://.:{port} {
    tls server.pem server.key
    template IN A {
        answer "{{ .Name }} 5 IN A 10.0.0.1"
    }
}
"""


def test_fastdns(serve: Callable[..., Any]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    for plan in ({"window": 32}, {"rate": 200}):
        result = load(server.port, **plan)
        assert result.sent == result.answered > 0
        assert (result.lost, result.wrong, result.refused, result.rcodes) == (0, {}, 0, {"NOERROR": result.sent})
