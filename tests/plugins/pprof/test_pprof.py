"""pprof: the directive, the pages, and profiles as Go's own tool reads them."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable

import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.pprof import parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import LIMIT, REPLY

Serve = Callable[..., Server]
COREFILE = ".:{port} {\n    bind 127.0.0.1\n    pprof 127.0.0.1:{port2}\n    whoami\n}\n"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("pprof", "localhost:6053"),
        ("pprof 1.2.3.4:1234", "1.2.3.4:1234"),
        ("pprof :1234", ":1234"),
        ("pprof {\n}", "localhost:6053"),
        ("pprof {\nblock\n}", "localhost:6053"),
        ("pprof :1234 {\nblock 20\n}", ":1234"),
    ],
)
def test_good(text: str, address: str) -> None:
    assert parse(Controller.of(text)) == address


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("pprof :1234 -1", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '-1'"),
        ("pprof /foo", "Testfile:1 - Error during parsing: address /foo: missing port in address"),
        ("pprof {\na b\n}", "Testfile:2 - Error during parsing: unknown property 'a'"),
        ("pprof {\nblock 20 30\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '30'"),
        ("pprof {\nblock x\n}", "Testfile:2 - Error during parsing: property 'block' invalid integer value 'x'"),
        ("pprof\npprof", "this plugin can only be used once per Server Block"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == error


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        return None


def get(server: Server, path: str, port: str = "port2") -> tuple[int, str, bytes]:
    """Status, Location and body."""
    opener = urllib.request.build_opener(NoRedirect)
    try:
        with opener.open(f"http://127.0.0.1:{server.ports[port]}{path}", timeout=REPLY) as reply:
            return reply.status, "", reply.read()
    except urllib.error.HTTPError as reply:
        with reply:
            return reply.code, reply.headers.get("Location", ""), reply.read()


def test_pages(serve: Serve) -> None:
    server = serve(COREFILE)
    assert get(server, "/debug/pprof")[:2] == (302, "/debug/pprof/")
    status, _, page = get(server, "/debug/pprof/")
    assert status == 200
    for name in re.findall(r'href="(\w+)\?', page.decode()):
        if name not in ("profile", "allocs"):
            assert get(server, f"/debug/pprof/{name}")[0] == 200
            assert get(server, f"/debug/pprof/{name}?debug=1")[2].startswith(f"{name}: ".encode())
    assert b"-conf\0" in get(server, "/debug/pprof/cmdline")[2]
    assert get(server, "/debug/pprof/symbol")[2] == b"num_symbols: 0\n"
    assert get(server, "/debug/pprof/trace?seconds=1")[0] == 501
    assert get(server, "/debug/pprof/unknown")[0] == 404
    assert get(server, "/debug/pprof/profile?seconds=x")[0] == 400
    assert get(server, "/debug/pprof/profile?seconds=1000")[0] == 400
    assert get(server, "/debug/pprofile")[0] == 404
    assert get(server, "/")[0] == 404


def test_profiles_are_read_by_gos_tool(serve: Serve, go: str) -> None:
    server = serve(COREFILE)
    stopped = threading.Event()

    def ask() -> None:
        request = dns.message.make_query("www.example.org", "A").to_wire()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", server.port))
            client.settimeout(1)
            while not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    client.send(request)
                    client.recv(512)

    load = threading.Thread(target=ask)
    load.start()
    try:
        tables = {}
        for name in ("profile?seconds=1", "heap", "allocs?seconds=0.2", "goroutine"):
            path = server.folder / name.partition("?")[0]
            status, _, body = get(server, f"/debug/pprof/{name}")
            assert status == 200
            path.write_bytes(body)
            told = subprocess.run([go, "tool", "pprof", "-top", str(path)], capture_output=True, text=True, timeout=LIMIT)
            assert told.returncode == 0, told.stderr
            tables[path.name] = told.stdout
    finally:
        stopped.set()
        load.join()
    assert "Type: cpu" in tables["profile"]
    assert re.search(r"worker|fastdns", tables["profile"])
    assert "Type: inuse_space" in tables["heap"]
    assert "native and others" in tables["heap"]
    assert "builtins.dict" in tables["heap"]
    assert "Type: alloc_space" in tables["allocs"]
    assert "serve_forever" in tables["goroutine"]


def test_reload_keeps_the_address_and_gives_it_up(serve: Serve) -> None:
    server = serve(COREFILE)
    server.write(COREFILE.replace("whoami", "log\n    whoami"))
    server.signal(10)
    server.wait_log("Reloading complete")
    assert get(server, "/debug/pprof/cmdline")[0] == 200
    server.write(COREFILE.replace("port2", "port3"))
    start = len(server.log())
    server.signal(10)
    server.wait_log("Reloading complete", start=start)
    assert get(server, "/debug/pprof/cmdline", "port3")[0] == 200
    with pytest.raises(urllib.error.URLError):
        get(server, "/debug/pprof/cmdline")


def test_an_address_that_cannot_be_had(serve: Serve) -> None:
    server = serve(COREFILE.replace("127.0.0.1:{port2}", "192.0.2.1:{port2}"), wait=False)
    assert server.exit_status() == 1
    assert "[ERROR] plugin/pprof: Failed to start pprof handler: listen tcp 192.0.2.1:" in server.log()
