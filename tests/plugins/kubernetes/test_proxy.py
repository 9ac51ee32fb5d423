"""API servers behind proxies."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastdns.plugins.kubernetes.watch import reflector
from fastdns.plugins.kubernetes.watch.address import Address
from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig
from fastdns.plugins.kubernetes.watch.proxy import Proxy, socks_address
from tests.plugins.kubernetes.conftest import addresses, pair
from tests.plugins.kubernetes.test_kubeconfig import write_config
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.2)


Greet = Callable[[socket.socket], tuple[str, int]]


class Relay:
    """A proxy on 127.0.0.1: ``greet`` speaks its protocol and returns where to connect to; then octets go both ways."""

    def __init__(self, greet: Greet) -> None:
        self.greet = greet
        self.targets: list[tuple[str, int]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client:
            target = self.greet(client)
            self.targets.append(target)
            server = socket.create_connection(("127.0.0.1", target[1]))
            self.open.append(server)
            threading.Thread(target=self._copy, args=(server, client), daemon=True).start()
            self._copy(client, server)

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def stop(self) -> None:
        for one in (self.listener, *self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def exactly(client: socket.socket, count: int) -> bytes:
    data = client.recv(count, socket.MSG_WAITALL)
    if len(data) != count:
        raise ValueError
    return data


BASIC = b"Proxy-Authorization: Basic " + base64.b64encode(b"us er:secret") + b"\r\n"


def greet_http(reply: bytes = b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n", credentials: bytes = b"") -> Greet:
    def greet(client: socket.socket) -> tuple[str, int]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += exactly(client, 1)
        if credentials not in head:
            reply_now = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
        else:
            reply_now = reply
        client.sendall(reply_now)
        if b" 200 " not in reply_now:
            raise ValueError
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        return host, int(port)

    return greet


def greet_socks(code: int = 0, password: bool = False) -> Greet:
    def greet(client: socket.socket) -> tuple[str, int]:
        assert exactly(client, 1) == b"\x05"
        methods = exactly(client, exactly(client, 1)[0])
        if password and 2 not in methods:
            client.sendall(b"\x05\xff")
            raise ValueError
        client.sendall(b"\x05\x02" if password else b"\x05\x00")
        if password:
            user = exactly(client, exactly(client, 2)[1])
            good = (user, exactly(client, exactly(client, 1)[0])) == (b"us er", b"secret")
            client.sendall(b"\x01\x00" if good else b"\x01\x01")
        _, _, _, kind = exactly(client, 4)
        length = {1: 4, 4: 16}.get(kind) or exactly(client, 1)[0]
        raw = exactly(client, length)
        host = raw.decode() if kind == 3 else socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, raw)
        port = int.from_bytes(exactly(client, 2))
        client.sendall(bytes([5, code, 0]) + (b"\x03\x04host\x00\x01" if port % 2 else b"\x01\x00\x00\x00\x00\x00\x01"))
        return host, port

    return greet


@pytest.fixture
def relay() -> Iterator[Callable[[Greet], Relay]]:
    started: list[Relay] = []

    def start(greet: Greet) -> Relay:
        started.append(Relay(greet))
        return started[-1]

    yield start
    for one in started:
        one.stop()


WAYS = {
    "http": ("http://127.0.0.1:{port}", greet_http()),
    "http with password": ("http://us%20er:secret@127.0.0.1:{port}", greet_http(credentials=BASIC)),
    "socks5": ("socks5://127.0.0.1:{port}", greet_socks()),
    "socks5 with password": ("socks5://us%20er:secret@127.0.0.1:{port}", greet_socks(password=True)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_a_server_behind_a_proxy(way: str, tls: bool, relay: Any, fakekube: Any, follow: Any, certificates: Path, tmp_path: Path) -> None:
    url, greet = WAYS[way]
    proxy = relay(greet)
    server = fakekube(["svc default/a 10.0.0.1"], tls=pair(certificates, "server") if tls else None)
    port = int(server.url.rpartition(":")[2])
    cluster = {"proxy-url": url.format(port=proxy.port), "tls-server-name": "127.0.0.1", "certificate-authority": str(certificates / "ca.crt")}
    recorder, _ = follow(Kubeconfig(write_config(tmp_path, f"http{'s' * tls}://api.invalid:{port}", {}, **cluster)))
    assert addresses(recorder) == {"a": "10.0.0.1"}
    assert set(proxy.targets) == {("api.invalid", port)}


FAILURES = [
    ("http://127.0.0.1:{port}", greet_http(b"HTTP/1.1 403 Forbidden\r\n\r\n"), "403 Forbidden"),
    ("http://127.0.0.1:{port}", greet_http(credentials=BASIC), "407 Proxy Authentication Required"),
    ("http://127.0.0.1:{port}", greet_http(b"SSH-2.0\r\n\r\n"), "malformed reply"),
    ("http://127.0.0.1:{port}", greet_http(b"HTTP/1.1 200 OK\r\n" + b"x" * 9000), "a reply of more than 8 KiB"),
    ("http://127.0.0.1:{port}", greet_http(b""), "EOF"),
    ("socks5://127.0.0.1:{port}", greet_socks(password=True), "no acceptable authentication methods"),
    ("socks5://us:er@127.0.0.1:{port}", greet_socks(password=True), "username/password authentication failed"),
    ("socks5://127.0.0.1:{port}", greet_socks(5), "connection refused"),
    ("socks5://127.0.0.1:{port}", greet_socks(99), "unknown code: 99"),
    ("socks5://127.0.0.1:1", greet_socks(), "proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused"),
]


@pytest.mark.parametrize(("url", "greet", "expected"), FAILURES, ids=[expected for _, _, expected in FAILURES])
def test_proxies_that_refuse(url: str, greet: Greet, expected: str, relay: Any, follow: Any, lines: list[str], tmp_path: Path) -> None:
    proxy = relay(greet)
    follow(Kubeconfig(write_config(tmp_path, "http://127.0.0.1:1", {}, **{"proxy-url": url.format(port=proxy.port)})), wait=0)
    until(lambda: lines)
    assert "proxyconnect tcp: " in lines[0]
    assert lines[0].endswith(expected)


def test_proxies_of_urls() -> None:
    assert Proxy.parse("http://proxy.test") == Proxy("http", Address("proxy.test", 80, False, ""))
    assert Proxy.parse("socks5://a%40b:c%3Ad@[::1]") == Proxy("socks5", Address("::1", 1080, False, ""), "a@b", "c:d")
    with pytest.raises(ValueError, match="more than 255 octets"):
        Proxy.parse(f"socks5://{'x' * 256}:y@proxy.test")


def test_addresses_for_socks() -> None:
    assert socks_address("192.0.2.1") == b"\x01\xc0\x00\x02\x01"
    assert socks_address("2001:db8::1") == b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01"
    assert socks_address("api.test") == b"\x03\x08api.test"
    with pytest.raises(OSError, match="FQDN too long"):
        socks_address("x" * 256)
