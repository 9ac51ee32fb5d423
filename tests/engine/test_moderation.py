"""Batches of a busy QUIC socket: what is asked meanwhile is answered, and the worker sleeps when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.certificates import write_certificates
from tests.quic import Client, query
from tests.server import Server
from tests.waiting import until

QUIC = "quic://.:{%s} {\n bind 127.0.0.1\n tls server.pem server.key\n hosts {\n 192.0.2.1 a.test\n }\n}\n"
QUESTION = query("a.test.")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    write_certificates(tmp_path)
    with Server(tmp_path, QUIC % "port" + QUIC % "port2") as started:
        started.wait_started()
        yield started


@contextmanager
def busy(client: Client) -> Iterator[None]:
    """One datagram of the connection comes again and again, so that there are several of it to read at a time."""
    client.quic.send_ping(0)
    octets, _ = client.quic.datagrams_to_send(now=time.monotonic())[0]
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            with suppress(BlockingIOError, ConnectionRefusedError):
                client.socket.send(octets)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def waits_of(server: Server, seconds: float) -> int:
    before = server.waits()
    time.sleep(seconds)
    return server.waits() - before


def test_others_are_answered_and_the_worker_sleeps_afterwards(server: Server) -> None:
    with Client(server.port) as first, Client(server.port) as other:
        with busy(first):
            for _ in range(100):
                assert other.ask(QUESTION).answer
        until(lambda: waits_of(server, 0.5) < 200, "the worker sleeps")  # moderated it waits 10,000 times a second
        assert first.ask(QUESTION).answer


def test_one_of_two_listeners_closes_meanwhile(server: Server) -> None:
    with Client(server.ports["port2"]) as kept:
        for _ in range(3):
            with Client(server.port) as gone, busy(gone), busy(kept):
                server.reload(QUIC % "port2")
                assert kept.ask(QUESTION).answer
            server.reload(QUIC % "port" + QUIC % "port2")
    assert server.stop() == 0
