"""Pages over TLS: hostile clients. What the configuration may say is in tests/plugins/prometheus/test_tls.py."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastdns.httpd import secure
from fastdns.httpd.endpoint import LATER_MAX, Endpoint, Page
from fastdns.httpd.message import Later, Reply, Request
from tests.certificates import client_context, write_certificates
from tests.httpd.test_listener import status
from tests.server import free_port
from tests.waiting import LIMIT, until

Connect = Callable[..., ssl.SSLSocket]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def serve(port: int, certificates: Path) -> Iterator[Callable[[Page], None]]:
    opened: list[Endpoint] = []

    def start(page: Page) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        opened.append(Endpoint(f"127.0.0.1:{port}", "/page", page, SimpleNamespace(context=context)))
        opened[-1].open()

    yield start
    for endpoint in opened:
        endpoint.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's time ends while a test looks."""
    monkeypatch.setattr(secure, "TIMEOUT", LIMIT)


@pytest.fixture
def connect(port: int, certificates: Path) -> Iterator[Connect]:
    """A client that asks for the page."""
    context = client_context(certificates)
    with contextlib.ExitStack() as held:

        def ask(source: str = "127.0.0.1", fields: str = "") -> ssl.SSLSocket:
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(LIMIT)
            plain.bind((source, 0))
            plain.connect(("127.0.0.1", port))
            client = held.enter_context(context.wrap_socket(plain))
            client.sendall(f"GET /page HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
            return client

        yield ask


def received(client: ssl.SSLSocket, most: int) -> int:
    """Octets, until the server closes or there are so many."""
    got = 0
    with contextlib.suppress(OSError):
        while got < most and (chunk := client.recv(65536)):
            got += len(chunk)
    return got


def page_of(client: ssl.SSLSocket) -> bytes:
    """Of the small ones that come in one record."""
    return client.recv(65536)


def test_pages_are_prepared_in_turn(serve: Callable[[Page], None], connect: Connect) -> None:
    """Or as many threads as there are connections would keep Python from everything else. Who waits least comes first."""
    asked: list[int] = []
    begun = threading.Event()
    lock = threading.Lock()

    def page(request: Request) -> Reply:
        assert lock.acquire(blocking=False), "another one is prepared"
        begun.set()
        time.sleep(0.05)
        asked.append(1)
        lock.release()
        return Reply(body=b"page")

    serve(page)
    many = [connect("127.0.0.2") for _ in range(40)]
    assert begun.wait(LIMIT)
    several = [connect("127.0.0.2", "A: b\r\n") for _ in range(15)]
    before = len(asked)
    client = connect()
    assert page_of(client).endswith(b"page")
    assert len(asked) - before < 20, "those of one client came first"
    assert all(page_of(other).endswith(b"page") for other in [*many, *several])


def test_who_does_not_read_makes_room_first(serve: Callable[[Page], None], connect: Connect, patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of clients that hold one connection each, the oldest of which is idle."""
    monkeypatch.setattr(secure, "CONNECTIONS", 4)

    asked: list[int] = []

    def page(request: Request) -> Reply:
        asked.append(1)
        return Reply(body=b"page" if "small" in request.fields else bytes(4 << 20))

    serve(page)
    idle = connect("127.0.0.1", "Small: 1\r\n")
    assert page_of(idle).endswith(b"page")
    for n in range(1, 4):
        connect(f"127.0.1.{n}")
    until(lambda: len(asked) == 4)
    time.sleep(0.5)  # longer than a client that reads needs
    for n in range(1, 4):
        assert page_of(connect(f"127.0.2.{n}", "Small: 1\r\n")).endswith(b"page")
    idle.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\nSmall: 1\r\n\r\n")
    assert page_of(idle).endswith(b"page")


def test_replies_that_are_not_read_are_bounded(serve: Callable[[Page], None], connect: Connect, patient: None) -> None:
    """Twenty times 4 MiB from one client: those above 16 MiB end, and another one's reply is whole."""
    size = 4 << 20
    asked: list[int] = []

    def page(request: Request) -> Reply:
        asked.append(1)
        return Reply(body=bytes(size))

    serve(page)
    silent = [connect("127.0.0.2") for _ in range(20)]
    until(lambda: len(asked) == 20)
    assert received(connect("127.0.0.1", "Connection: close\r\n"), size + 1000) > size
    assert sum(received(client, size) < size for client in silent) >= 15


def test_replies_that_take_time_are_as_many_as_without_tls(serve: Callable[[Page], None], connect: Connect) -> None:
    """A client gets no more than are left for others: four, two, one and one."""
    release = threading.Event()
    begun: list[int] = []

    def make() -> Reply:
        begun.append(1)
        release.wait(LIMIT)
        return Reply(body=b"at last")

    serve(lambda request: Later(make))
    clients: list[ssl.SSLSocket] = []
    try:
        for number, most in enumerate((4, 2, 1, 1)):
            source = f"127.0.0.{2 + number}"
            clients += [connect(source) for _ in range(most)]
            until(lambda: len(begun) == len(clients))  # noqa: B023 - it is called in this turn alone
            assert status(page_of(connect(source))) == 503
        assert len(clients) == LATER_MAX
        assert status(page_of(connect())) == 503
    finally:
        release.set()
    assert all(page_of(client).endswith(b"at last") for client in clients)
