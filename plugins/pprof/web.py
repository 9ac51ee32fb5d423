"""The pages below /debug/pprof."""

from __future__ import annotations

import html
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastdns.httpd.endpoint import bind
from fastdns.httpd.message import TIMEOUT
from fastdns.plugins.pprof import sampling
from fastdns.plugins.pprof.profile import Profile

__all__ = ["close", "open"]

PATH = "/debug/pprof"
TEXT = "text/plain; charset=utf-8"
#: Seconds of a CPU profile that does not say, and at most.
SECONDS = 30.0
SECONDS_MAX = 300.0
#: Seconds that allocations are followed for.
FOLLOW = 5.0

#: Name, what it is, and the profile for a number of seconds (0: none were given).
PROFILES: dict[str, tuple[str, Callable[[float], Profile]]] = {
    "allocs": ("what Python allocates in a number of seconds and keeps, by place", lambda seconds: sampling.allocations(seconds or FOLLOW)),
    "goroutine": ("where each thread stands", lambda seconds: sampling.threads()),
    "heap": ("the process's memory: Python's objects by type, native memory, mapped files", lambda seconds: sampling.heap()),
    "profile": ("CPU time of each thread, with Python's stacks", lambda seconds: sampling.cpu(seconds or SECONDS)),
    "threadcreate": ("the threads", lambda seconds: sampling.threads()),
}
#: What Go's runtime has and ours does not.
ABSENT = {"trace": "execution traces are made by Go's runtime", "block": "nobody waits for locks here", "mutex": "nobody waits for locks here"}


class Pages(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server_version = "fastdns"
    sys_version = ""
    timeout = TIMEOUT

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        values = parse_qs(url.query)
        name = url.path.removeprefix(PATH + "/")
        if url.path == PATH:
            self.respond(302, TEXT, b"", ("Location", PATH + "/"))
        elif name == url.path:
            self.respond(404, TEXT, b"404 page not found\n")
        elif not name:
            self.respond(200, "text/html; charset=utf-8", index().encode())
        elif name == "cmdline":
            self.respond(200, TEXT, "\0".join([sys.argv[0], *sys.argv[1:]]).encode("utf-8", "surrogateescape"))
        elif name == "symbol":
            self.respond(200, TEXT, b"num_symbols: 0\n")  # profiles have their names
        elif name in ABSENT:
            self.respond(501, TEXT, f"there is no {name} profile: {ABSENT[name]}\n".encode())
        elif name in PROFILES:
            self.profile(name, values)
        else:
            self.respond(404, TEXT, b"Unknown profile\n", ("X-Go-Pprof", "1"))

    def do_POST(self) -> None:
        """The look-up of symbols."""
        self.close_connection = True
        self.do_GET()

    def profile(self, name: str, values: dict[str, list[str]]) -> None:
        try:
            seconds = float(values.get("seconds", ["0"])[0])
            debug = int(values.get("debug", ["0"])[0])
        except ValueError:
            seconds, debug = -1.0, 0
        if not 0 <= seconds <= SECONDS_MAX:
            self.respond(400, TEXT, f"seconds must be a number from 0 to {SECONDS_MAX:.0f}\n".encode(), ("X-Go-Pprof", "1"))
            return
        with self.server.one_at_a_time:
            began = time.time()
            made = PROFILES[name][1](seconds)
            took = time.time() - began
        if debug > 0:
            self.respond(200, TEXT, made.text(name).encode("utf-8", "replace"))
        else:
            disposition = ("Content-Disposition", f'attachment; filename="{name}"')
            self.respond(200, "application/octet-stream", made.encode(began, took), disposition)

    def respond(self, status: int, kind: str, body: bytes, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        for field, value in fields:
            self.send_header(field, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not logged."""

    server: Server


class Server(ThreadingHTTPServer):
    """A listening address, for all configurations that name it."""

    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__(("", 0), Pages, bind_and_activate=False)
        self.socket.close()
        self.socket = bind(address)
        self.users = 0
        #: Profiles of two clients would be in each other's way.
        self.one_at_a_time = threading.Lock()
        threading.Thread(target=self.serve_forever, name="pprof", daemon=True).start()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """A client that goes away is no error of ours."""


def index() -> str:
    rows = "".join(f'<tr><td><a href="{name}?debug=1">{name}</a></td><td>{html.escape(about)}</td></tr>\n' for name, (about, _) in PROFILES.items())
    return (
        f"<html>\n<head><title>{PATH}/</title></head>\n<body>\n{PATH}/\n<p>Profiles, for people here, for <code>go tool pprof</code> without"
        f' <code>debug=1</code>:</p>\n<table>\n{rows}<tr><td><a href="cmdline">cmdline</a></td><td>the command line</td></tr>\n</table>\n</body>\n</html>\n'
    )


_lock = threading.Lock()
_servers: dict[str, Server] = {}


def open(address: str) -> None:  # noqa: A001
    """Serve an address, or share who does. Raises OSError."""
    with _lock:
        if address not in _servers:
            _servers[address] = Server(address)
        _servers[address].users += 1


def close(address: str) -> None:
    """Give it up; the last one closes it."""
    with _lock:
        server = _servers[address]
        server.users -= 1
        if not server.users:
            del _servers[address]
            ending = threading.Thread(target=server.shutdown)
            ending.start()
            server.socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for clients
            ending.join()
            server.server_close()
