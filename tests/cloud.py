"""An HTTP server that stands for a cloud: it answers as a function of the test says, and misbehaves as often as it is told to."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    method: str
    #: With the query string.
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def arguments(self) -> dict[str, str]:
        """Of the query string."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}


@dataclass
class Response:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    #: Octets of the body after which the connection is closed.
    cut: int | None = None
    #: Seconds before the response.
    delay: float = 0.0


#: What the next requests get in place of their response; a function changes that.
Fault = Response | Callable[[Response], Response]


def cut(response: Response) -> Response:
    """Half of the body."""
    return Response(response.status, response.body, response.headers, cut=len(response.body) // 2)


def slow(response: Response) -> Response:
    return Response(response.status, response.body, response.headers, delay=0.5)


class Cloud(ThreadingHTTPServer):
    """Listens on a port of 127.0.0.1 while its context is entered."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Request], Response], context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if context is not None:
            self.scheme = "https"
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answer = answer
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        #: Which requests get faults.
        self.faulty: Callable[[Request], bool] = lambda request: True
        #: Every request gets this fault.
        self.away: Fault | None = None
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def respond(self, request: Request) -> Response:
        with self.lock:
            self.requests.append(request)
            fault = self.away
            if fault is None and self.faults and self.faulty(request):
                fault = self.faults.pop(0)
        if isinstance(fault, Response):
            return fault
        response = self.answer(request)
        return fault(response) if fault is not None else response

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Cloud

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        response = self.server.respond(Request(self.command, self.path, self.headers, body))
        time.sleep(response.delay)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body[: response.cut])
        if response.cut is not None:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""
