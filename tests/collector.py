"""A collector of traces: it takes what Zipkin and Datadog's agent are sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import until

__all__ = ["Collector", "collector"]


class Collector:
    """What was sent: (method, path, fields, body)."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.server = server
        self.seen: list[tuple[str, str, Any, bytes]] = []
        self.status = 202

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for *_, body in list(self.seen) for span in json.loads(body)]

    def roots(self) -> list[dict[str, Any]]:
        return [span for span in self.spans if "parentId" not in span]

    def wait(self, count: int) -> list[dict[str, Any]]:
        """At least so many queries."""
        until(lambda: len(self.roots()) >= count, f"{count} traces")
        return self.roots()


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.seen.append((self.command, self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made = Collector(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
