"""A Kubernetes API server of a very large cluster: lists and watches in protobuf, made while they are sent.

Run as a module it is a process of its own; it prints its URL and serves until its standard input ends. Beside the API:

- ``POST /-/expire`` ends all watches and forgets their past, so that clients list again;
- ``POST /-/changes?rate=R&seconds=S`` begins to change things, and replies with the time of change 0 in ns (CLOCK_MONOTONIC);
- ``GET /-/changes`` gives the time right before each change was sent, 8 octets each;
- ``GET /-/lists`` gives how often all objects of each kind were sent.
"""

from __future__ import annotations

import array
import bisect
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastdns.bench.parts.api import BOOKMARK, INITIAL_EVENTS_END, status
from fastdns.bench.parts.numbered import ENDPOINTS, HEADLESS, VERSION, Numbered, changed_address
from fastdns.bench.parts.protobuf import CONTENT_TYPE, entries, envelope, event, message
from fastdns.bench.servers.running import pinned

__all__ = ["Change", "NumberedServer"]

#: Octets that are sent at a time.
PART = 1 << 20
PLURALS = {
    "/api/v1/namespaces": "namespaces",
    "/api/v1/services": "services",
    "/api/v1/pods": "pods",
    "/apis/discovery.k8s.io/v1/endpointslices": "endpointslices",
}


class Change:
    """Of an endpoint of a headless service (even numbers), or of a pod's address."""

    def __init__(self, number: int, numbered: Numbered) -> None:
        self.number = number
        headless = -(-numbered.services // HEADLESS)
        turn, service = divmod(number // 2, headless)
        self.service = service * HEADLESS
        #: The pod whose address it is. Pods of changed endpoints are those of services, others are behind them.
        self.pod = self.service * ENDPOINTS + turn % ENDPOINTS
        if number % 2:
            behind = numbered.services * ENDPOINTS
            self.pod = behind + number // 2 % (numbered.pods - behind)
        self.plural = "pods" if number % 2 else "endpointslices"
        self.address = changed_address(number).decode()
        #: The question that this address is the answer of.
        self.name = (
            f"{self.address.replace('.', '-')}.{numbered.namespace_of(self.pod // ENDPOINTS)}.pod.cluster.local."
            if number % 2
            else f"{numbered.service_name(self.service)}.{numbered.namespace_of(self.service)}.svc.cluster.local."
        )


@cache
def event_head(what: str, kind: tuple[str, str], length: int) -> bytes:
    return event(what, *kind, length)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, numbered: Numbered) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.numbered = numbered
        self.version = VERSION
        self.changed = threading.Condition()
        #: By plural: versions and events since all watches ended, for those that go on.
        self.events: dict[str, tuple[list[int], list[bytes]]] = {plural: ([], []) for plural in numbered.kinds}
        self.oldest = VERSION
        self.era = 0
        self.lists = dict.fromkeys(numbered.kinds, 0)
        self.times: array.array[int] = array.array("q")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle of a watch are no news."""

    def expire(self) -> None:
        with self.changed:
            self.version += 1
            self.era += 1
            self.oldest = self.version
            self.events = {plural: ([], []) for plural in self.events}
            self.changed.notify_all()

    def change(self, start: float, rate: float, seconds: float) -> None:
        for number in range(round(rate * seconds)):
            if (early := start + number / rate - time.monotonic()) > 0.0005:
                time.sleep(early)
            change = Change(number, self.numbered)
            with self.changed:
                self.version += 1
                self.numbered.moved[change.pod] = change.address.encode()
                kind = self.numbered.kinds[change.plural]
                octets = kind.make(change.pod if number % 2 else change.service, self.version)
                versions, events = self.events[change.plural]
                versions.append(self.version)
                events.append(event_head("MODIFIED", (kind.api_version, kind.name), len(octets)) + octets)
                self.times.append(time.monotonic_ns())
                self.changed.notify_all()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *_: object) -> None:
        """Requests are no news."""

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        plural = PLURALS.get(split.path)
        if split.path == "/-/changes":
            self.reply(self.server.times.tobytes())
        elif split.path == "/-/lists":
            self.reply(json.dumps(self.server.lists).encode())
        elif plural is None:
            self.reply(status(HTTPStatus.NOT_FOUND, "NotFound"), HTTPStatus.NOT_FOUND)
        elif query.get("watch") in ("1", "true"):
            self.watch(plural, query)
        else:
            self.list(plural, int(query.get("continue") or 0), int(query.get("limit") or 0))

    def do_POST(self) -> None:
        split = urlsplit(self.path)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if split.path == "/-/expire":
            self.server.expire()
            self.reply(b"{}")
        elif split.path == "/-/changes":
            query = parse_qs(split.query)
            start = time.monotonic() + 0.1
            arguments = (start, float(query["rate"][0]), float(query["seconds"][0]))
            threading.Thread(target=self.server.change, args=arguments, daemon=True).start()
            self.reply(b"%d" % int(start * 1e9))
        else:
            self.reply(status(HTTPStatus.NOT_FOUND, "NotFound"), HTTPStatus.NOT_FOUND)

    def list(self, plural: str, first: int, limit: int) -> None:
        kind = self.server.numbered.kinds[plural]
        version = self.server.version
        last = min(kind.count, first + limit) if limit else kind.count
        meta: list[tuple[int, bytes | str | int]] = [(2, str(version))]
        if last < kind.count:
            meta += [(3, str(last)), (4, kind.count - last)]
        head = message((1, message(*meta)))
        heads: dict[int, bytes] = {}

        def item(number: int) -> bytes:
            octets = kind.make(number, version)
            start = heads.get(len(octets))
            if start is None:
                start = heads[len(octets)] = message((2, octets))[: -len(octets)]
            return start + octets

        length = len(head) + sum(len(item(number)) * len(range(number, last, kind.period)) for number in range(first, min(last, first + kind.period)))
        start = envelope(kind.api_version.rpartition("/")[2], kind.name + "List", length)
        self.begin(CONTENT_TYPE, len(start) + length)
        self.wfile.write(start + head)
        self.send(item(number) for number in range(first, last))
        if last == kind.count:
            self.server.lists[plural] += 1

    def watch(self, plural: str, query: dict[str, str]) -> None:
        """Events as they happen; with `sendInitialEvents` all objects first."""
        server, kind = self.server, self.server.numbered.kinds[plural]
        since = int(query.get("resourceVersion") or 0)
        initial = query.get("sendInitialEvents") == "true"
        with server.changed:
            era, version, expired = server.era, server.version, not initial and since < server.oldest
        self.begin(f"{CONTENT_TYPE};stream=watch", None)
        if expired:
            gone = message((2, "Failure"), (3, "too old resource version"), (4, "Expired"), (6, 410))
            self.chunk(event_head("ERROR", ("v1", "Status"), len(gone)) + gone)
            self.chunk(b"")
            return
        place = (kind.api_version, kind.name)
        if initial:
            since = version

            def added(number: int) -> bytes:
                octets = kind.make(number, version)
                return event_head("ADDED", place, len(octets)) + octets

            self.send((added(number) for number in range(kind.count)), chunked=True)
            self.bookmark(place, since, initial=True)
            server.lists[plural] += 1
        while True:
            with server.changed:
                server.changed.wait_for(lambda: server.era != era or bool(server.events[plural][0] and server.events[plural][0][-1] > since), BOOKMARK)  # noqa: B023
                over = server.era != era
                versions, events = server.events[plural]
                found = [] if over else events[bisect.bisect_right(versions, since) :]
                since = server.version
            if over:
                self.chunk(b"")
                return
            if found:
                self.chunk(b"".join(found))
            else:
                self.bookmark(place, since)

    # ---- HTTP ----

    def bookmark(self, place: tuple[str, str], version: int, *, initial: bool = False) -> None:
        octets = message((1, message((6, str(version)), *(entries(12, {INITIAL_EVENTS_END: "true"}) if initial else []))))
        self.chunk(event_head("BOOKMARK", place, len(octets)) + octets)

    def begin(self, content: str, length: int | None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content)
        self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
        self.end_headers()

    def send(self, pieces: Iterator[bytes], *, chunked: bool = False) -> None:
        """In parts of many pieces."""
        write = self.chunk if chunked else self.wfile.write
        part, size = [], 0
        for piece in pieces:
            part.append(piece)
            size += len(piece)
            if size >= PART:
                write(b"".join(part))
                part, size = [], 0
        if part:
            write(b"".join(part))

    def chunk(self, octets: bytes) -> None:
        """Empty: the last one."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(octets), octets))

    def reply(self, body: bytes, code: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# ---- the process ----


class NumberedServer:
    """The process, on the given CPUs; use as a context. `url` is where it serves."""

    def __init__(self, services: int, pods: int, seed: int, cpus: Sequence[int] = ()) -> None:
        with pinned(cpus):
            command = [sys.executable, "-P", "-m", __name__, str(services), str(pods), str(seed)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the API server ended with {self.process.wait()}")

    def __enter__(self) -> NumberedServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def main(arguments: list[str]) -> int:
    server = Server(Numbered(*map(int, arguments)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
