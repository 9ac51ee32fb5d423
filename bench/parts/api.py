"""A small Kubernetes API server for scenarios: lists, watches and writes of what a cluster's DNS reads, as JSON over HTTP.

Run as a module it is a process of its own, filled with a synthetic cluster; it prints its URL and serves until its standard input ends. It has no
access control and listens on 127.0.0.1 only. Beside the API, ``POST /-/expire`` ends all watches and forgets their past, so that clients list again.
"""

from __future__ import annotations

import bisect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from fastdns.bench.parts.cluster import Cluster, Object
from fastdns.bench.servers.running import pinned
from fastdns.bench.workloads.synthetic import Shape

#: Plural -> group and version, kind.
KINDS = {
    "namespaces": ("/api/v1", "Namespace"),
    "services": ("/api/v1", "Service"),
    "pods": ("/api/v1", "Pod"),
    "endpointslices": ("/apis/discovery.k8s.io/v1", "EndpointSlice"),
    "serviceimports": ("/apis/multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
}
#: Seconds between two bookmarks of a watch.
BOOKMARK = 10.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass
class Collection:
    """The objects of one kind, encoded, and what happened to them."""

    plural: str
    objects: dict[str, bytes] = field(default_factory=dict)
    #: Versions and lines of the events, for watches.
    versions: list[int] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    #: Watches from before this version have to list again.
    oldest: int = 0

    def event(self, version: int, kind: str, encoded: bytes) -> None:
        self.versions.append(version)
        self.lines.append(b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded))


class Store:
    """All objects; every change has a version of its own."""

    def __init__(self) -> None:
        self.version = 1
        self.changed = threading.Condition()
        self.collections = {plural: Collection(plural) for plural in KINDS}
        #: Grows when watches are to end.
        self.era = 0

    def put(self, plural: str, thing: Object) -> tuple[bytes, bool]:
        """The object as it stands, and whether it is new."""
        collection = self.collections[plural]
        meta = thing["metadata"]
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        with self.changed:
            self.version += 1
            meta["resourceVersion"] = str(self.version)
            encoded = msgspec.json.encode(thing)
            new = key not in collection.objects
            collection.objects[key] = encoded
            collection.event(self.version, "ADDED" if new else "MODIFIED", encoded)
            self.changed.notify_all()
        return encoded, new

    def fill(self, objects: Iterator[tuple[str, Object]]) -> None:
        """At the start, when nobody watches: without events."""
        for plural, thing in objects:
            meta = thing["metadata"]
            meta["resourceVersion"] = str(self.version)
            self.collections[plural].objects[f"{meta.get('namespace', '')}/{meta['name']}"] = msgspec.json.encode(thing)
        for collection in self.collections.values():
            collection.oldest = self.version

    def delete(self, plural: str, key: str) -> bytes | None:
        collection = self.collections[plural]
        with self.changed:
            encoded = collection.objects.pop(key, None)
            if encoded is not None:
                self.version += 1
                thing = msgspec.json.decode(encoded)
                thing["metadata"]["resourceVersion"] = str(self.version)
                collection.event(self.version, "DELETED", msgspec.json.encode(thing))
                self.changed.notify_all()
        return encoded

    def expire(self) -> None:
        with self.changed:
            self.version += 1
            self.era += 1
            for collection in self.collections.values():
                collection.versions.clear()
                collection.lines.clear()
                collection.oldest = self.version
            self.changed.notify_all()

    def list(self, plural: str, prefix: str) -> tuple[int, list[bytes]]:
        """The version, and the objects whose key begins with the prefix. All at once: `limit` is only a client's wish."""
        with self.changed:
            objects = self.collections[plural].objects
            return self.version, [each for key, each in objects.items() if key.startswith(prefix)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Or each reply, and each event of a watch, would wait for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    store: Store

    def log_message(self, *_: object) -> None:
        """Requests are no news."""

    def do_GET(self) -> None:
        place = self.place()
        if place is None:
            return
        plural, prefix, name, query = place
        if name:
            found = self.store.collections[plural].objects.get(prefix + name)
            self.reply(HTTPStatus.OK, found) if found else self.fail(HTTPStatus.NOT_FOUND, "NotFound")
        elif query.get("watch") in ("1", "true"):
            self.watch(plural, prefix, query)
        else:
            version, objects = self.store.list(plural, prefix)
            group, kind = KINDS[plural]
            head = json.dumps({"kind": kind + "List", "apiVersion": api_version(group), "metadata": {"resourceVersion": str(version)}})
            self.reply(HTTPStatus.OK, b'%s,"items":[%s]}' % (head[:-1].encode(), b",".join(objects)))

    def do_POST(self) -> None:
        if self.path == "/-/expire":
            self.body()
            self.store.expire()
            self.reply(HTTPStatus.OK, b"{}")
        else:
            self.write()

    def do_PUT(self) -> None:
        self.write()

    def do_DELETE(self) -> None:
        place = self.place()
        if place is not None:
            plural, prefix, name, _ = place
            gone = self.store.delete(plural, prefix + name)
            self.reply(HTTPStatus.OK, gone) if gone else self.fail(HTTPStatus.NOT_FOUND, "NotFound")

    def write(self) -> None:
        body = self.body()
        place = self.place()
        if place is not None:
            encoded, new = self.store.put(place[0], json.loads(body))
            self.reply(HTTPStatus.CREATED if new else HTTPStatus.OK, encoded)

    def watch(self, plural: str, prefix: str, query: dict[str, str]) -> None:
        """Events as they happen; with a version of 0, none, or `sendInitialEvents`, all objects first."""
        store, collection = self.store, self.store.collections[plural]
        since = int(query.get("resourceVersion") or 0)
        initial = query.get("sendInitialEvents") == "true"
        with store.changed:  # before the reply: whoever has read its head may let the past expire
            era, expired = store.era, 0 < since < collection.oldest and not initial
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if expired:
            self.chunk(b'{"type":"ERROR","object":%s}\n' % status(HTTPStatus.GONE, "Expired"))
            self.chunk(b"")
            return
        if initial or not since:
            since, objects = store.list(plural, prefix)
            self.chunk(b"".join(b'{"type":"ADDED","object":%s}\n' % each for each in objects))
            if initial:
                self.chunk(bookmark(plural, since, True))
        namespace = prefix.removesuffix("/").encode()
        while True:
            with store.changed:
                store.changed.wait_for(lambda: store.era != era or bool(collection.versions and collection.versions[-1] > since), BOOKMARK)  # noqa: B023
                over = store.era != era
                at = bisect.bisect_right(collection.versions, since)
                lines = [] if over else collection.lines[at:]
                now = store.version
            if over:
                self.chunk(b"")
                return
            if namespace:
                lines = [line for line in lines if b'"namespace":"%s"' % namespace in line]
            self.chunk(b"".join(lines) or bookmark(plural, now, False))
            since = now

    # ---- HTTP ----

    def place(self) -> tuple[str, str, str, dict[str, str]] | None:
        """Plural, prefix of keys (`NAMESPACE/`), name and query; answers 404 itself for what is not served."""
        split = urlsplit(self.path)
        for plural, (group, _) in KINDS.items():
            if not split.path.startswith(group + "/"):
                continue
            parts = split.path[len(group) + 1 :].split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] == plural and len(parts) < 3:
                name = parts[1] if len(parts) == 2 else ""
                prefix = f"{namespace}/" if namespace or name else ""
                return plural, prefix, name, {key: values[-1] for key, values in parse_qs(split.query).items()}
        self.fail(HTTPStatus.NOT_FOUND, "NotFound")
        return None

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, code: HTTPStatus, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, code: HTTPStatus, reason: str) -> None:
        self.reply(code, status(code, reason))

    def chunk(self, octets: bytes) -> None:
        """Empty: the last one."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(octets), octets))


class HTTPServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle of a watch are no news."""


def api_version(group: str) -> str:
    return group.split("/", 2)[2]


def bookmark(plural: str, version: int, initial: bool) -> bytes:
    group, kind = KINDS[plural]
    meta: Object = {"resourceVersion": str(version)}
    if initial:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    return json.dumps({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version(group), "metadata": meta}}).encode() + b"\n"


def status(code: HTTPStatus, reason: str) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": int(code)}).encode()


# ---- the process ----


class APIServer:
    """The process, on the given CPUs; use as a context. `url` is where it serves."""

    def __init__(self, cluster: Cluster, cpus: Sequence[int] = ()) -> None:
        shape = json.dumps(asdict(cluster.shape))
        with pinned(cpus):
            self.process = subprocess.Popen([sys.executable, "-P", "-m", __name__, shape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the API server ended with {self.process.wait()}")

    def __enter__(self) -> APIServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def main(arguments: list[str]) -> int:
    store = Store()
    store.fill(Cluster(Shape(**json.loads(arguments[0]))).objects())
    server = HTTPServer(("127.0.0.1", 0), type("Serving", (Handler,), {"store": store}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
