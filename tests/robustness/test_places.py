"""Clients that take all places of a listening address (`max_connections`): those of others get in."""

from __future__ import annotations

import contextlib
import select
import shlex
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import dns.message
import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.certificates import client_context, write_certificates
from tests.robustness.test_http import FAST, START, query, request
from tests.server import Server, command
from tests.server.test_http2 import DATA, PING, SETTINGS, Frames, frame
from tests.waiting import REPLY, until

#: The attacker's, in another network than the client's.
ATTACKER = "127.9.9.9"
#: The first octets of a TLS record, which nothing follows.
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01"
#: Connections that the attacker always has, 200 of them with places, the others in the kernel's queue, which holds 1,024. When the server took one of
#: them every 5 ms, clients that came behind them waited for 5 s.
ATTACKING = 1200
PATIENCE = 3.0
PLACES = 40

SECURE = """SCHEME://.:{port} {
    tls server.pem server.key
    hosts {
        192.0.2.1 a.test
    }
}
"""
PLAIN = """https://.:{port} {
    https {
        max_connections PLACES
    }
    hosts {
        192.0.2.1 a.test
    }
}
https://slow.test:{port} {
    forward . UPSTREAM {
        prefer_udp
        max_fails 0
    }
}
""".replace("PLACES", str(PLACES))
FORWARDING = """.:{port} {
    bind 127.0.0.1
    ready 127.0.0.1:{port2}
    forward . UPSTREAM {
        max_fails 0
    }
}
"""


class Attack:
    """Connections that send something and are replaced when they end, on a thread of its own."""

    def __init__(self, port: int, count: int, octets: Callable[[int], bytes]) -> None:
        """``octets``: what each sends at first (0), and each second from then on; nothing: no more."""
        self.port = port
        self.count = count
        self.octets = octets
        self.opened = 0
        self._ended = threading.Event()
        self._poll = select.epoll()
        self._live: dict[int, socket.socket] = {}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Attack:
        self._thread.start()
        while self.opened < self.count:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for connection in self._live.values():
            connection.close()
        self._poll.close()

    def _run(self) -> None:
        second, due = 0, time.monotonic() + 1
        while not self._ended.is_set():
            if time.monotonic() >= due:
                second, due = second + 1, due + 1
                for number in list(self._live):
                    self._say(number, second)
            for _ in range(min(50, self.count - len(self._live))):
                self._open()
            for number, events in self._poll.poll(0.002):
                if events & select.EPOLLOUT:
                    self._poll.modify(number, select.EPOLLIN)
                    self._say(number, 0)
                elif not self._reads(number):
                    self._poll.unregister(number)
                    self._live.pop(number).close()

    def _open(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((ATTACKER, 0))
        with contextlib.suppress(BlockingIOError):
            connection.connect(("127.0.0.1", self.port))
        self._live[connection.fileno()] = connection
        self._poll.register(connection, select.EPOLLOUT)
        self.opened += 1

    def _say(self, number: int, second: int) -> None:
        with contextlib.suppress(OSError):
            self._live[number].send(self.octets(second))

    def _reads(self, number: int) -> bool:
        try:
            return self._live[number].recv(65536) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


@contextmanager
def connected(server: Server, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE, source_address=(source, 0)) as connection:
        yield connection


@pytest.mark.parametrize("scheme", ["https", "grpc"])
def test_unfinished_handshakes_of_one_client_keep_nobody_out(serve: Callable[..., Server], scheme: str) -> None:
    """Of an address that has many under way, each makes place for the next client after 50 ms, and idle connections of others stay."""
    server = serve(SECURE.replace("SCHEME", scheme), "-workers", "1", prepare=write_certificates)
    context = client_context(server.folder)
    context.set_alpn_protocols(["h2"])

    @contextmanager
    def greeted() -> Iterator[ssl.SSLSocket]:
        with connected(server) as connection, context.wrap_socket(connection, server_hostname="server.test") as secure:
            secure.sendall(START)
            assert Frames(secure).until(SETTINGS)[0] == 0
            yield secure

    with greeted() as idle, Attack(server.port, ATTACKING, lambda second: b"" if second else HALF_A_HELLO):
        for _ in range(5):
            with greeted():
                pass
        idle.sendall(frame(PING, 0, 0, bytes(8)))
        assert Frames(idle).until(PING)[2] == bytes(8)


@pytest.mark.parametrize("scheme", ["https", "grpc"])
def test_a_slow_handshake_outlasts_those_of_a_client_that_has_many(serve: Callable[..., Server], scheme: str) -> None:
    """The half of a hello, and the rest of it after a second, while another address takes each place that is free."""
    server = serve(SECURE.replace("SCHEME", scheme), "-workers", "1", prepare=write_certificates)
    octets = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context(server.folder).wrap_bio(ssl.MemoryBIO(), octets, server_hostname="server.test").do_handshake()
    hello = octets.read()
    with Attack(server.port, ATTACKING, lambda second: b"" if second else HALF_A_HELLO), connected(server) as connection:
        connection.sendall(hello[:100])
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(REPLY)
        connection.sendall(hello[100:])
        assert connection.recv(1) == b"\x16"


def test_connections_at_work_of_one_client_keep_nobody_out(serve: Callable[..., Server]) -> None:
    """Of a network that has more than half of the places, they end for others. One of another network keeps its own, and gets its reply."""
    with Upstream(lambda query: None) as upstream:
        server = serve(PLAIN.replace("UPSTREAM", upstream.address), "-workers", "1")
        numbers = iter(range(10**9))

        def ask(second: int) -> bytes:
            return (b"" if second else START) + request(2 * second + 1, query(next(numbers)))

        with connected(server) as first:
            first.sendall(START + request(1, query(next(numbers))))
            with Attack(server.port, 60, ask):
                for _ in range(5):
                    with connected(server) as connection:
                        connection.sendall(START + request(1, FAST))
                        assert dns.message.from_wire(Frames(connection).until(DATA)[2]).answer  # type: ignore[arg-type]
                first.settimeout(REPLY)
                assert dns.message.from_wire(Frames(first).until(DATA)[2]).rcode() == dns.rcode.SERVFAIL  # type: ignore[arg-type]


def test_a_client_waits_although_another_one_has_waited(serve: Callable[..., Server]) -> None:
    """A connection at work ends for a client that has waited for 500 ms, not for one that comes when nobody has waited for as long."""
    with Upstream(lambda query: None) as upstream, ExitStack() as stack:
        server = serve(PLAIN.replace("UPSTREAM", upstream.address), "-workers", "1")
        held = [stack.enter_context(connected(server, ATTACKER)) for _ in range(PLACES)]

        def ask(stream: int) -> None:
            for number, connection in enumerate(held):
                with contextlib.suppress(OSError):
                    connection.sendall((START if stream == 1 else b"") + request(stream, query(100 * stream + number)))

        def enter() -> float:
            begun = time.monotonic()
            connection = stack.enter_context(connected(server))
            connection.sendall(START + request(1, FAST) + request(3, query(stream)))
            assert dns.message.from_wire(Frames(connection).until(DATA)[2]).answer  # type: ignore[arg-type]
            return time.monotonic() - begun

        for stream in (1, 3):
            ask(stream)
            assert enter() > 0.4
            time.sleep(0.7)


def test_connections_leave_descriptors_for_upstreams_and_probes(serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """One client with more connections than the process may have descriptors: a quarter of these is not for connections."""
    monkeypatch.setenv("FASTDNS_BIN", f"prlimit --nofile=512:512 {shlex.join(command())}")
    with Upstream() as upstream:
        server = serve(FORWARDING.replace("UPSTREAM", upstream.address))
        with Attack(server.port, 700, lambda second: b"\0"):
            until(lambda: server.descriptors() > 360)
            for number in range(10):
                assert server.answers(f"n{number}.test.", tcp=True, timeout=REPLY) == ["192.0.2.53"]
                assert server.get(server.ports["port2"], "/ready") == "OK"
            assert server.descriptors() < 480
