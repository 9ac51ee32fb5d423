"""blocklist: lists of a web server that behaves, and of one that does not; what is kept for a restart."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastdns.plugins.blocklist import fetch as fetching
from fastdns.plugins.blocklist.fetch import FetchError, fetch, shown
from tests.certificates import write_certificates
from tests.cloud import Cloud, Fault, Request, Response, cut, slow
from tests.plugins.blocklist.test_blocklist import PASSED, corefile, metric
from tests.server import STARTED, Server
from tests.waiting import until

Serve = Callable[..., Server]

GONE = Response(503, b"later")


class Web(Cloud):
    """A web server with one list, which it knows by an ETag and a time."""

    def __init__(self, text: str = "ads.test\n") -> None:
        super().__init__(self.give)
        self.text = text
        self.gzip = False
        self.fields: dict[str, str] = {}

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.text.encode()).hexdigest()}"'

    def give(self, request: Request) -> Response:
        if request.path.startswith("/moved"):
            return Response(302, headers={"Location": f"{request.path[6:] or '/'}?x=1"})
        if request.headers.get("If-None-Match") == self.etag:
            return Response(304, headers={"ETag": self.etag})
        headers = {"ETag": self.etag, **self.fields}
        if self.gzip:
            return Response(200, gzip.compress(self.text.encode()), {**headers, "Content-Encoding": "gzip"})
        return Response(200, self.text.encode(), headers)


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        yield server


def block(web: Web, more: str = "", path: str = "/list") -> str:
    return corefile(f"blocklist {web.url}{path} {{\n refresh 300ms\n {more}\n }}")


def label(web: Web) -> str:
    return f"{web.url}/list"


def test_lists_are_fetched_and_followed(serve: Serve, web: Web) -> None:
    server = serve(block(web))
    server.until("x.ads.test.", "A", ["NXDOMAIN"])
    until(lambda: len(web.requests) >= 4)
    assert [request.headers.get("If-None-Match") for request in web.requests[:3]] == [None, web.etag, web.etag]
    assert metric(server, "names", label(web)) == 1
    assert time.time() - metric(server, "confirmed_timestamp_seconds", label(web)) < 30
    web.text = "other.test\nmore.test\n"
    server.until("more.test.", "A", ["NXDOMAIN"])
    assert server.answers("x.ads.test.") == PASSED
    web.gzip = True
    web.text = "packed.test\n"
    server.until("packed.test.", "A", ["NXDOMAIN"])
    assert metric(server, "failures_total", label(web)) == 0


@pytest.mark.parametrize("fault", [GONE, Response(404), cut, Response(200, b""), Response(200, b"<html>sign in, please</html>")])
def test_a_list_that_fails_leaves_the_last_one(serve: Serve, web: Web, fault: Fault) -> None:
    server = serve(block(web))
    server.until("ads.test.", "A", ["NXDOMAIN"])
    web.text = "never.test\nnever.too.test\n"
    web.away = fault
    until(lambda: metric(server, "failures_total", label(web)) >= 2)
    assert server.answers("ads.test.") == ["NXDOMAIN"]
    assert server.answers("never.test.") == PASSED
    assert "its last version serves on" in server.log()
    web.away = None
    server.until("never.test.", "A", ["NXDOMAIN"])


def test_a_server_that_is_away_keeps_nothing_from_starting(serve: Serve) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url = f"http://user:secret@127.0.0.1:{port}/list?token=secret"
    server = serve(corefile(f"blocklist {url}"))
    assert server.answers("ads.test.") == PASSED
    server.wait_log(rf"\[WARNING\] plugin/blocklist: http://127.0.0.1:{port}/list cannot be fetched: .*refused")
    until(lambda: metric(server, "failures_total", f"http://127.0.0.1:{port}/list") >= 2)
    assert "secret" not in server.log()


def test_a_slow_server_holds_up_its_own_list_only(serve: Serve, web: Web) -> None:
    with Web("stalled.test\n") as stalled:
        stalled.away = Response(200, b"stalled.test\n", delay=600)
        server = serve(corefile(f"blocklist {stalled.url}/list {web.url}/list {{\n refresh 300ms\n }}"))
        server.until("ads.test.", "A", ["NXDOMAIN"])
        web.text = "other.test\n"
        server.until("other.test.", "A", ["NXDOMAIN"])
        web.faults = [slow]
        web.text = "third.test\n"
        server.until("third.test.", "A", ["NXDOMAIN"])
        assert server.stop() == 0


def test_a_restart_uses_what_was_kept(serve: Serve, web: Web) -> None:
    server = serve(block(web, "snapshot {dir}"))
    server.until("ads.test.", "A", ["NXDOMAIN"])
    (kept,) = until(lambda: list(server.folder.glob("blocklist-*.gz")))
    until(lambda: sum(request.headers.get("If-None-Match") is not None for request in web.requests) >= 2)
    assert time.time() - kept.stat().st_mtime < 30
    server.stop()
    os.utime(kept, (1e9, 1e9))
    web.away = GONE
    start = len(server.log())
    server.start()
    server.wait_log(STARTED, start=start)
    assert server.answers("ads.test.") == ["NXDOMAIN"]
    assert metric(server, "confirmed_timestamp_seconds", label(web)) == 1e9
    # The version is asked for by the ETag that was kept.
    web.requests.clear()
    web.away = None
    until(lambda: metric(server, "confirmed_timestamp_seconds", label(web)) > 1e9)
    assert all(request.headers.get("If-None-Match") == web.etag for request in web.requests)
    web.text = "other.test\n"
    server.until("other.test.", "A", ["NXDOMAIN"])
    until(lambda: web.etag.strip('"').encode() in kept.read_bytes())
    server.stop()
    # What is damaged is not used.
    octets = bytearray(kept.read_bytes())
    for damaged in (octets[:-9], octets[:40], b"", octets[:-20] + bytes([octets[-20] ^ 1]) + octets[-19:], b'{"magic": 1}\n'):
        kept.write_bytes(damaged)
        web.away = GONE
        start = len(server.log())
        server.start()
        server.wait_log("What was kept of .* is not used", start=start)
        server.wait_log(STARTED, start=start)
        assert server.answers("other.test.") == PASSED
        server.stop()


def test_a_reload_has_the_lists_of_the_former_configuration(serve: Serve, web: Web) -> None:
    """Without a snapshot, too: there is no moment without them."""
    server = serve(block(web))
    server.until("ads.test.", "A", ["NXDOMAIN"])
    web.away = GONE
    for answer, wanted in (("nodata", []), ("refused", ["REFUSED"])):
        server.reload(block(web, f"answer {answer}"))
        assert server.answers("ads.test.") == wanted
    assert metric(server, "names", label(web)) == 1
    web.away = None
    web.text = "other.test\n"
    server.until("other.test.", "A", ["REFUSED"])


def test_https(serve: Serve, tmp_path: Path) -> None:
    import ssl

    write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with Cloud(lambda request: Response(200, b"ads.test\n"), context) as secure:
        text = corefile(f"blocklist {secure.url}/list")
        trusting = serve(text, env={"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
        trusting.until("ads.test.", "A", ["NXDOMAIN"])
        doubting = serve(text, env={"SSL_CERT_FILE": os.devnull})
        doubting.wait_log("certificate verify failed")
        assert doubting.answers("ads.test.") == PASSED


# ---- fetching ----


def text_of(body: fetching.Body | None) -> bytes:
    assert body is not None
    return gzip.decompress(body.packed)


def test_conditional_requests(web: Web) -> None:
    body = fetch(f"{web.url}/list")
    assert text_of(body) == b"ads.test\n"
    assert body is not None
    assert body.etag == web.etag
    assert fetch(f"{web.url}/list", body.etag, "Mon, 01 Jan 2024 00:00:00 GMT") is None
    assert web.requests[-1].headers["If-Modified-Since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    web.fields = {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
    body = fetch(f"{web.url}/list", '"other"')
    assert body is not None
    assert body.modified == "Mon, 01 Jan 2024 00:00:00 GMT"


def test_redirects(web: Web) -> None:
    assert text_of(fetch(f"{web.url}/moved/moved/list"))
    assert [request.target for request in web.requests] == ["/moved/moved/list", "/moved/list?x=1", "/list?x=1"]
    with pytest.raises(FetchError, match="moved more than 5 times"):
        fetch(f"{web.url}{'/moved' * 7}/list")
    for there in ("file:///etc/hostname", "ftp://127.0.0.1/list"):
        web.faults = [Response(301, headers={"Location": there})]
        with pytest.raises(FetchError, match="which is not followed"):
            fetch(f"{web.url}/list")


def test_a_password_goes_to_its_own_server_only(web: Web) -> None:
    with Web() as other:
        web.faults = [Response(302, headers={"Location": f"{other.url}/list"})]
        fetch(f"{web.url.replace('//', '//user:p%40ss@')}/list")
        assert web.requests[0].headers["Authorization"] == "Basic dXNlcjpwQHNz"
        assert "Authorization" not in other.requests[0].headers
    assert shown("https://user:secret@list.example:8443/a?token=secret") == "https://list.example:8443/a"


def test_a_list_that_is_too_large(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its packed size is: it is not unpacked further."""
    monkeypatch.setattr(fetching, "SIZE_MOST", 1 << 20)
    web.text = "a" * (1 << 20)
    assert len(text_of(fetch(f"{web.url}/list"))) == 1 << 20
    web.text = "a" * (8 << 20)
    web.gzip = True
    for _ in range(2):
        with pytest.raises(FetchError, match="more than 1 MiB"):
            fetch(f"{web.url}/list")
        web.gzip = False


def raw(answer: Callable[[socket.socket], None]) -> tuple[socket.socket, str]:
    """A server that does as told with each connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                try:
                    answer(connection)
                except OSError:
                    pass

    threading.Thread(target=run, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.parametrize("head", ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_drips_has_an_end(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An octet every 50 ms is never a timeout of its own."""
    monkeypatch.setattr(fetching, "WHOLE_SECONDS", 0.5)

    def drip(connection: socket.socket) -> None:
        connection.sendall(head.encode())
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    listening, url = raw(drip)
    with listening, pytest.raises(FetchError, match=r"within the time|cut short"):
        fetch(url)


@pytest.mark.parametrize(
    "reply",
    [
        b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot packed",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nx", b"HTTP/1.1 304 Not Modified\r\n\r\n", b"HTTP/1.1 302 Found\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"whole")[:-3],
    ],
)  # fmt: skip
def test_replies_that_are_no_list(reply: bytes) -> None:
    listening, url = raw(lambda connection: connection.sendall(reply))
    with listening, pytest.raises(FetchError):
        fetch(url)
