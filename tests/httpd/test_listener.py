"""The listener of health, ready and prometheus: pages, hand-over between configurations, hostile clients."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fastdns.httpd.endpoint import HEALTH, Endpoint, Page
from fastdns.httpd.message import Reply, Request
from fastdns.setup import Controller
from fastdns.system import epoch
from tests.networks import own_network
from tests.programs import need
from tests.server import free_port
from tests.waiting import LIMIT, until


def ask(port: int, data: bytes, limit: float = LIMIT) -> bytes:
    """Sends octets and reads until the server closes."""
    with socket.create_connection(("127.0.0.1", port), limit) as connection:
        connection.sendall(data)
        got = b""
        while chunk := connection.recv(65536):
            got += chunk
    return got


def get(port: int, path: str = "/page", version: str = "1.0", method: str = "GET") -> bytes:
    return ask(port, f"{method} {path} HTTP/{version}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def opened() -> Iterator[list[Endpoint]]:
    endpoints: list[Endpoint] = []
    yield endpoints
    for endpoint in endpoints:
        endpoint.close()


def says(text: bytes) -> Page:
    return lambda request: Reply(200, text)


def endpoint(opened: list[Endpoint], port: int, page: Page, path: str = "/page") -> Endpoint:
    made = Endpoint(f"127.0.0.1:{port}", path, page)
    made.open()
    opened.append(made)
    return made


def test_pages(opened: list[Endpoint], port: int) -> None:
    seen: list[Request] = []

    def page(request: Request) -> Reply:
        seen.append(request)
        return Reply(503, b"text", fields=(("X-Mine", "1"),))

    endpoint(opened, port, page)
    head, _, rest = get(port, "/page?query=1").partition(b"Date: ")
    date, _, rest = rest.partition(b"\r\n")
    assert head == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert len(date) == len("Mon, 23 Nov 2026 14:13:11 GMT")
    assert rest == b"Content-Type: text/plain; charset=utf-8\r\nX-Mine: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntext"
    assert seen == [Request("GET", "/page", {"host": "x", "connection": "close"}, "query=1")]
    assert status(get(port, "http://other.example/page")) == 503
    assert get(port, "/page", method="HEAD").endswith(b"Content-Length: 4\r\nConnection: close\r\n\r\n")
    assert status(get(port, "/page/")) == 404
    assert status(get(port, "/")) == 404


def test_a_page_that_fails_is_an_error_500(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, lambda request: 1 / 0)  # type: ignore[arg-type, return-value]
    assert status(get(port)) == 500


def test_connections_are_kept_and_requests_pipelined(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, lambda request: Reply(body=request.fields["n"].encode()))
    endpoint(opened, port, HEALTH, "/health")
    requests = b"".join(b"GET /page HTTP/1.1\r\nN: %d\r\n\r\nGET /health HTTP/1.1\r\n\r\n" % n for n in range(20))
    reply = ask(port, requests + b"GET /page HTTP/1.1\r\nN: last\r\nConnection: close\r\n\r\n")
    bodies = [part.partition(b"\r\n\r\n")[2] for part in reply.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [body for n in range(20) for body in (b"%d" % n, b"OK")] + [b"last"]


def test_a_large_page_reaches_a_slow_reader(opened: list[Endpoint], port: int) -> None:
    body = bytes(range(256)) * 20000
    endpoint(opened, port, says(body))
    with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
        connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        time.sleep(0.2)
        got = b""
        while chunk := connection.recv(65536):
            got += chunk
    assert got.partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /page\r\n\r\n",
        b" /page HTTP/1.1\r\n\r\n",
        b"GET  /page HTTP/1.1\r\n\r\n",
        b"GET page HTTP/1.1\r\n\r\n",
        b"GET /page HTTP/2.0\r\n\r\n",
        b"GET /page HTTP/1.1 \r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
        b"\0\0\0 \0 HTTP/1.1\r\n\r\n",
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_malformed_requests_are_refused(opened: list[Endpoint], port: int, data: bytes) -> None:
    endpoint(opened, port, says(b"page"))
    try:
        assert status(ask(port, data)) == 400
    except ConnectionResetError:  # what it did not read was still on its way
        assert len(data) > 8192
    assert get(port).endswith(b"page")


def test_a_body_ends_the_connection(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, says(b"page"))
    reply = ask(port, b"POST /page HTTP/1.1\r\nContent-Length: 24\r\n\r\nGET /page HTTP/1.1\r\n\r\n\r\n")
    assert reply.count(b"HTTP/1.1") == 1


def test_half_a_request_is_cut_off(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, says(b"page"))
    start = time.monotonic()
    assert ask(port, b"GET /page HTTP/1.1\r\nHost:") == b""
    assert time.monotonic() - start > 4.5


def test_idle_clients_give_way(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, says(b"page"))
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    assert get(port).endswith(b"page")
    for connection in idle:
        connection.close()


def test_an_address_goes_over_without_a_gap(opened: list[Endpoint], port: int) -> None:
    old = endpoint(opened, port, says(b"old"))
    new = endpoint(opened, port, says(b"new"))
    assert get(port).endswith(b"old"), "until the new configuration serves"
    old.serve()
    new.serve()
    assert get(port).endswith(b"new")
    old.close()
    assert get(port).endswith(b"new")
    new.close()
    with pytest.raises(OSError, match="refused"):
        get(port)
    new.close()


def test_what_a_refused_configuration_opened_goes(opened: list[Endpoint], port: int) -> None:
    old = endpoint(opened, port, says(b"old"))
    old.serve()
    controller = Controller.of("health")
    Endpoint(f"127.0.0.1:{port}", "/other", says(b"other")).follow(controller)
    for hook in controller.hooks.startup:
        hook()
    assert status(get(port, "/other")) == 200
    for hook in controller.hooks.shutdown:
        hook()
    assert status(get(port, "/other")) == 404
    assert get(port).endswith(b"old")


def test_an_address_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=rf"listen tcp {address}: bind: address already in use"):
            Endpoint(address, "/page", says(b"")).open()


def test_an_empty_host_is_every_address(opened: list[Endpoint], port: int) -> None:
    made = Endpoint(f":{port}", "/page", says(b"page"))
    made.open()
    opened.append(made)
    assert get(port).endswith(b"page")
    with socket.create_connection(("::1", port)) as connection:
        connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        assert status(connection.recv(100)) == 200


def test_health_needs_no_python(port: int) -> None:
    """Liveness while a thread holds the GIL; other pages wait for it."""
    code = f"""
import ctypes
from fastdns.httpd.endpoint import HEALTH, Endpoint
Endpoint("127.0.0.1:{port}", "/health", HEALTH).open()
print("held", flush=True)
ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)  # PyDLL keeps the lock during the call
print("released", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        for _ in range(20):
            assert get(port, "/health").endswith(b"\r\n\r\nOK")
            assert status(get(port, "/other")) == 404
        assert process.poll() is None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"


def test_requests_that_hang_leave_room_for_health(opened: list[Endpoint], port: int) -> None:
    release = threading.Event()

    def hangs(request: Request) -> Reply:
        release.wait(LIMIT)
        return Reply(body=b"at last")

    endpoint(opened, port, hangs)
    health = free_port()
    endpoint(opened, health, HEALTH, "/health")
    waiting = []
    try:
        for _ in range(80):
            waiting.append(socket.create_connection(("127.0.0.1", port)))
            waiting[-1].sendall(b"GET /page HTTP/1.0\r\n\r\n")
        for _ in range(20):
            assert status(get(health, "/health")) == 200
        release.set()
        assert waiting[-1].recv(100).startswith(b"HTTP/1.1 200 OK")
    finally:
        release.set()
        for connection in waiting:
            connection.close()


@contextmanager
def greedy(port: int, count: int, path: str, source: str = "127.0.0.2", target: str = "127.0.0.1") -> Iterator[None]:
    """Connections of one client that ask for a page and do not read it."""
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET)
            held.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((source, 0))
            connection.connect((target, port))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize("count", [48, 64, 300])
def test_clients_that_do_not_read_keep_nobody_out(opened: list[Endpoint], port: int, count: int) -> None:
    """Of another listener, of another page, of the same page."""
    endpoint(opened, port, says(bytes(4 << 20)), "/large")
    endpoint(opened, port, says(b"page"))
    endpoint(opened, port, HEALTH, "/health")
    other = free_port()
    endpoint(opened, other, says(b"ready"), "/ready")
    with greedy(port, count, "/large"):
        for _ in range(24):
            assert get(other, "/ready").endswith(b"ready")
            assert get(port).endswith(b"page")
            assert get(port, "/health").endswith(b"OK")
        assert len(get(port, "/large")) > 4 << 20


def test_a_slow_page_is_not_waited_for_in_line(opened: list[Endpoint], port: int) -> None:
    """Listeners, and the clients of one, have their turns."""

    def slow(request: Request) -> Reply:
        time.sleep(0.05)
        asked.append(request.path)
        return Reply(body=b"slow")

    asked: list[str] = []
    endpoint(opened, port, slow)
    other = free_port()
    endpoint(opened, other, says(b"ready"), "/ready")
    with greedy(port, 60, "/page"):
        until(lambda: bool(asked))
        assert get(other, "/ready").endswith(b"ready")
        assert get(port).endswith(b"slow")
        assert len(asked) < 30, "the 60 of one client came first"


def test_the_connection_that_makes_room_is_of_who_holds_most(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, says(bytes(4 << 20)), "/large")
    endpoint(opened, port, says(b"page"))
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(1000).endswith(b"page")
        with greedy(port, 200, "/large"):
            idle.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
            assert idle.recv(1000).endswith(b"page")


def test_a_pod_does_not_evict_the_kubelet_of_its_network(opened: list[Endpoint]) -> None:
    """The kubelet and the pods of an IPv6 node share a /64: there the address that holds most is evicted, as a network is among networks."""
    need("ip")
    with own_network():
        for address in ("fd00::1", "fd00::2"):
            subprocess.run(["ip", "addr", "add", f"{address}/64", "dev", "lo"], check=True)
        for path, page in (("/large", says(bytes(4 << 20))), ("/page", says(b"page"))):
            opened.append(Endpoint("[fd00::1]:8080", path, page))
            opened[-1].open()
        with socket.create_connection(("fd00::1", 8080), source_address=("fd00::1", 0)) as kubelet:
            for _ in range(2):
                kubelet.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
                assert kubelet.recv(1000).endswith(b"page")
                with greedy(8080, 200, "/large", "fd00::2", "fd00::1"):
                    kubelet.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert kubelet.recv(1000).endswith(b"page")


def test_mutated_requests(opened: list[Endpoint], port: int) -> None:
    """Whatever octets come, the listener lives."""
    endpoint(opened, port, says(b"page"))
    endpoint(opened, port, HEALTH, "/health")
    numbers = random.Random(7)
    whole = b"GET http://h/page?x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(numbers.randrange(1, 6)):
            at = numbers.randrange(len(data))
            action = numbers.randrange(3)
            if action == 0:
                data[at] = numbers.randrange(256)
            elif action == 1:
                del data[at : at + numbers.randrange(1, 9)]
            else:
                data[at:at] = numbers.choice([b"\r", b"\n", b" ", b"\r\n\r\n", b"\0", b"\r\n"])
        with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            try:
                while connection.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    assert get(port).endswith(b"page")
    assert get(port, "/health").endswith(b"OK")


def test_a_stuck_worker_turns_health_to_503(opened: list[Endpoint], port: int) -> None:
    """R18: within a second or so, and back again; one that waits for packets is not stuck, one that goes on neither."""
    endpoint(opened, port, HEALTH, "/health")
    worker = 61

    def one_that_goes_on() -> bool:
        """Judged for longer than a second, at batches of less; a try in which this machine made one as long says nothing."""
        begun = time.monotonic()
        while time.monotonic() - begun < 1.5:
            epoch.online(worker)  # another batch
            batch = time.monotonic()
            time.sleep(0.5)
            reply = get(port, "/health")
            if time.monotonic() - batch > 0.9:
                return False
            assert status(reply) == 200
        return True

    try:
        until(one_that_goes_on, "a second without an interruption as long")
        epoch.online(worker)
        stuck = time.monotonic()
        until(lambda: status(get(port, "/health")) == 503)
        assert time.monotonic() - stuck > 0.9
        assert get(port, "/health").endswith(b"worker is stuck\n")
    finally:
        epoch.offline(worker)
    assert status(get(port, "/health")) == 200
    time.sleep(1.2)
    assert status(get(port, "/health")) == 200


def test_many_clients_at_once(opened: list[Endpoint], port: int) -> None:
    endpoint(opened, port, lambda request: Reply(body=request.path.encode()))
    wrong: list[bytes] = []

    def run() -> None:
        for _ in range(25):
            reply = get(port)
            if not reply.endswith(b"/page"):
                wrong.append(reply)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
