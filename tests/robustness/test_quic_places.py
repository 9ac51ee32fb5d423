"""Clients that take all places of a QUIC address (`max_connections`), or all queries of its pool (`worker_pool_size`): those of others get in."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count as count_from

import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.certificates import write_certificates
from tests.quic import Client, Closed, WebClient, query
from tests.server import Server
from tests.waiting import REPLY

#: The attacker's address.
ATTACKER = "127.9.9.9"
PLACES = 40
FAST = query("a.test.")

COREFILE = """SCHEME://.:{port} {
    bind 127.0.0.1
    tls server.pem server.key
    DIRECTIVE
    timeouts {
        idle 1h
    }
    hosts {
        192.0.2.1 a.test
    }
}
SCHEME://slow.test:{port} {
    bind 127.0.0.1
    tls server.pem server.key
    ANSWER
}
"""
SILENT = "forward . UPSTREAM {\n prefer_udp\n max_fails 0\n }"
DELAYED = "erratic {\n delay 1 50ms\n drop 0\n truncate 0\n }"


def corefile(scheme: str, directive: str, answer: str) -> str:
    return COREFILE.replace("SCHEME", scheme).replace("DIRECTIVE", directive).replace("ANSWER", answer)


def question(number: int) -> bytes:
    return query(f"n{number}.slow.test.")


class Web(WebClient):
    """Asks as `Client` does."""

    def begin(self, message: bytes, end: bool = True) -> int:
        return self.request(body=message)

    def reply(self, stream: int, seconds: float = 20) -> dns.message.Message:
        return dns.message.from_wire(self.response(stream, seconds).body)


CLIENTS = {"quic": Client, "https3": Web}


class Attack:
    """Connections that each have questions at work at all times, and are replaced when they end, on a thread of its own."""

    def __init__(self, make: Callable[..., Client], port: int, count: int) -> None:
        self.make = make
        self.port = port
        self.count = count
        self._numbers = count_from(0)
        self._ended = threading.Event()
        self._full = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Attack:
        self._thread.start()
        assert self._full.wait(6 * REPLY)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        live: list[Client] = []
        while not self._ended.is_set():
            while len(live) < self.count:
                live.append(self.make(self.port, source=ATTACKER, idle_timeout=3600))
            until = time.monotonic() + 0.3
            for client in live:
                client.begin(question(next(self._numbers)))
            self._full.set()
            while live and time.monotonic() < until and not self._ended.is_set():
                live = [client for client in live if self._lives(client)]
                select.select([client.socket for client in live], [], [], 0.02)
        for client in live:
            client.__exit__(None, None, None)

    def _lives(self, client: Client) -> bool:
        try:
            client.poll()
        except Closed:
            client.socket.close()
            return False
        return True


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("scheme", CLIENTS)
def test_connections_at_work_of_one_client_keep_nobody_out(serve: Callable[..., Server], scheme: str, workers: int) -> None:
    """Of a client that has most of the places, and many, they end for others. One of another client keeps its own, and gets its reply."""
    make = CLIENTS[scheme]
    directive = f"{scheme} {{\n max_connections {PLACES}\n }}"
    with Upstream(lambda query: None) as upstream:
        server = serve(corefile(scheme, directive, SILENT.replace("UPSTREAM", upstream.address)), "-workers", str(workers), prepare=write_certificates)
        with make(server.port, idle_timeout=3600) as first:
            waiting = first.begin(question(10**9))
            with Attack(make, server.port, PLACES):
                for _ in range(5):
                    with make(server.port) as client:
                        assert client.ask(FAST).answer
                assert first.reply(waiting, 3 * REPLY).rcode() == dns.rcode.SERVFAIL
                assert first.ask(FAST).answer


def test_idle_connections_of_others_stay(serve: Callable[..., Server]) -> None:
    """A client that has most of the places, and many, gets no more by those of another one: its own are taken."""
    server = serve(corefile("quic", f"quic {{\n max_connections {PLACES}\n }}", DELAYED), "-workers", "1", prepare=write_certificates)
    with Client(server.port, idle_timeout=3600) as first, ExitStack() as stack:
        assert first.ask(FAST).answer
        for _ in range(PLACES - 1):
            stack.enter_context(Client(server.port, source=ATTACKER, idle_timeout=3600))
        time.sleep(1.1)  # idle for less counts as in use
        for _ in range(5):
            assert stack.enter_context(Client(server.port, source=ATTACKER, idle_timeout=3600)).ask(FAST).answer
        assert first.ask(FAST).answer


def test_idle_connections_of_others_stay_on_another_worker(serve: Callable[..., Server]) -> None:
    """Those of a client that has most are all in use: it gets no more, and asks the other worker for none of others."""
    server = serve(corefile("quic", f"quic {{\n max_connections {PLACES}\n }}", DELAYED), "-workers", "2", prepare=write_certificates)
    with Client(server.port, first=0, idle_timeout=3600) as first, ExitStack() as stack:
        assert first.ask(FAST).answer
        attackers = [stack.enter_context(Client(server.port, source=ATTACKER, first=1, idle_timeout=3600)) for _ in range(PLACES - 1)]
        time.sleep(1.1)  # idle for less counts as in use
        for _ in range(5):
            for attacker in attackers:
                assert attacker.ask(FAST).answer
            with pytest.raises(Closed):
                stack.enter_context(Client(server.port, source=ATTACKER, first=1)).ask(FAST)
        assert first.ask(FAST).answer


@pytest.mark.parametrize("idle", [False, True])
def test_connections_of_another_worker_end(serve: Callable[..., Server], idle: bool) -> None:
    """A client whose worker has none to end gets in: at once where another client has most, and many, else as soon as another worker has ended one."""
    places = 10 if idle else PLACES
    server = serve(corefile("quic", f"quic {{\n max_connections {places}\n }}", DELAYED), "-workers", "2", prepare=write_certificates)
    with ExitStack() as stack:
        for _ in range(places):
            assert stack.enter_context(Client(server.port, source=ATTACKER, first=0, idle_timeout=3600)).ask(FAST).answer
        if idle:
            time.sleep(1.1)  # idle for less counts as in use
            with pytest.raises(Closed):
                stack.enter_context(Client(server.port, first=1)).ask(FAST)
        for _ in range(5):
            with Client(server.port, first=1) as client:
                assert client.ask(FAST).answer


class Held(Client):
    """Sends nothing while it is held."""

    held = False

    def push(self) -> None:
        if not self.held:
            super().push()


def test_clients_that_come_at_once_get_in(serve: Callable[..., Server]) -> None:
    """All of them, although another worker has to end a connection for each; it ends no more than that."""
    server = serve(corefile("quic", f"quic {{\n max_connections {PLACES}\n }}", DELAYED), "-workers", "2", prepare=write_certificates)
    with ExitStack() as stack:
        attackers = [stack.enter_context(Client(server.port, source=ATTACKER, first=0, idle_timeout=3600)) for _ in range(PLACES)]
        clients = [stack.enter_context(Held(server.port, first=1, wait=False)) for _ in range(8)]
        for client in clients:
            client.push()
            client.held = True
            client.pump(lambda client=client: client.handshake)
        server.signal(signal.SIGSTOP)  # so that the ends of all handshakes come in one batch
        for client in clients:
            client.held = False
            client.push()
        server.signal(signal.SIGCONT)
        for client in clients:
            assert client.ask(FAST).answer
        alive = []
        for attacker in attackers:
            with suppress(Closed):
                attacker.ask(FAST)
                alive.append(attacker)
        assert len(alive) == PLACES - len(clients)


POOL = "quic {\n worker_pool_size 4\n max_streams 200\n }"


def test_questions_of_one_client_keep_nobody_waiting(serve: Callable[..., Server]) -> None:
    """One question of each client is under way although another client's fill the pool for seconds."""
    with Upstream(lambda query: None) as upstream:
        server = serve(corefile("quic", POOL, SILENT.replace("UPSTREAM", upstream.address)), "-workers", "1", prepare=write_certificates)
        with Client(server.port, source=ATTACKER) as attacker, Client(server.port) as client:
            for number in range(100):
                attacker.begin(question(number))
            for _ in range(20):
                assert client.ask(FAST).answer
            attacker.poll()
            assert not attacker.ended, "no place of the pool was free before"


def test_clients_and_connections_take_turns(serve: Callable[..., Server]) -> None:
    """Questions that wait for the pool: those of a client are not behind all of another one, nor those of a connection behind all of another one."""
    server = serve(corefile("quic", POOL, DELAYED), "-workers", "1", prepare=write_certificates)
    with Client(server.port, source=ATTACKER) as attacker, Client(server.port, source=ATTACKER) as neighbour, Client(server.port) as client:
        streams = [attacker.begin(question(number)) for number in range(150)]
        attacker.pump(lambda: attacker.ended)
        theirs = [client.begin(question(1000 + number)) for number in range(5)]
        its = [neighbour.begin(question(2000 + number)) for number in range(5)]
        for stream in theirs:
            assert client.reply(stream).rcode() == dns.rcode.NOERROR
        for stream in its:
            assert neighbour.reply(stream).rcode() == dns.rcode.NOERROR
        attacker.poll()
        assert len(attacker.ended) < 100, "of 150 that were there before"
        for stream in streams:
            assert attacker.reply(stream).rcode() == dns.rcode.NOERROR
