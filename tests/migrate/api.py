"""An API server of a handful of objects, over HTTP: with refusals and with what no API server would have."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.migrate.clusters import Json

__all__ = ["FakeApi"]


class FakeApi:
    """Serves until closed. ``refused`` are resources whose requests are answered 403; a page of a list has ``page`` objects."""

    def __init__(self, objects: list[Json], refused: tuple[str, ...] = (), page: int = 2, status: int = 0) -> None:
        self.objects, self.refused, self.page, self.status = objects, refused, page, status
        #: Methods and paths of all requests.
        self.asked: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.asked.append(f"{self.command} {self.path}")
                status, body = api.answer(self.path)
                octets = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def kubeconfig(self, path: Path) -> Path:
        """Written, with two contexts; that of the server is not the current one."""
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        clusters = [{"name": "here", "cluster": {"server": address}}, {"name": "away", "cluster": {"server": "http://127.0.0.1:1"}}]
        contexts = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in ("here", "away")]
        users = [{"name": "me", "user": {"token": "abc"}}]
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts, "users": users, "current-context": "away"})
        )
        return path

    def answer(self, target: str) -> tuple[int, Json]:
        if self.status:
            return self.status, {"kind": "Status", "message": "no\x1b[31m"}
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.removeprefix("/apis/").removeprefix("/api/").split("/")]
        version, rest = ("v1", path[1:]) if target.startswith("/api/") else ("/".join(path[:2]), path[2:])
        namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else ("", rest)
        plural, name = rest[0], rest[1] if len(rest) > 1 else ""
        if plural in self.refused:
            return 403, {"kind": "Status", "message": f"{plural} is forbidden"}
        found = [
            row
            for row in self.objects
            if row["apiVersion"] == version
            and plural_of(row["kind"]) == plural
            and (not namespace or row["metadata"].get("namespace") == namespace)
            and (not name or row["metadata"]["name"] == name)
        ]
        if name:
            return (200, found[0]) if found else (404, {"kind": "Status", "message": "not found"})
        if not any(plural_of(row["kind"]) == plural for row in self.objects):
            return 404, {"kind": "Status", "message": "the server could not find the requested resource"}
        begin = int(parse_qs(parts.query).get("continue", ["0"])[0])
        rest_of = str(begin + self.page) if begin + self.page < len(found) else ""
        items = [{key: value for key, value in row.items() if key not in ("kind", "apiVersion")} for row in found[begin : begin + self.page]]
        return 200, {"kind": "List", "metadata": {"continue": rest_of}, "items": items}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def plural_of(kind: str) -> str:
    lower = kind.lower()
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
