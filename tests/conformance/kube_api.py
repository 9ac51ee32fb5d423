"""A small Kubernetes API server: list and watch, as JSON, of the resources that a cluster's DNS server reads."""

from __future__ import annotations

import copy
import json
import ssl
import threading
import time
import zlib
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.conformance.kube_objects import CORE, DISCOVERY, MULTICLUSTER, RESOURCES, Object, api_version, expand, field_match, selector_match

__all__ = ["KubeAPI"]

PLURALS = {kind: plural for plural, (_, kind, _) in RESOURCES.items()}
#: What shorthands call the resources that can be deleted by them.
SHORT = {"ns": "namespaces", "svc": "services", "eps": "endpointslices", "pod": "pods", "imp": "serviceimports"}
#: Fields of typed objects that a bookmark shows although they are empty.
EMPTY: dict[str, Object] = {
    **{plural: {"spec": {}, "status": {}} for plural in ("services", "pods", "nodes")},
    "endpointslices": {"addressType": "", "endpoints": None, "ports": None},
}
REASONS = {
    401: "Unauthorized",
    404: "NotFound",
    405: "MethodNotAllowed",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
#: Seconds between two bookmarks of a watch.
BOOKMARK = 10.0
TOO_LARGE = "Too large resource version: %d, current: %d"


def failure(code: int, message: str = "") -> Object:
    reason = REASONS.get(code, "Unknown")
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message or reason, "code": code}


class KubeAPI:
    """Objects are manifests or shorthands (see ``expand``).

    ``tls`` is a pair of PEM files with certificate and key. With ``token`` requests need this bearer token, with ``client_ca`` connections a
    certificate of that CA. ``down`` is True for 503, a status to answer with, or ``close`` to close connections.
    """

    def __init__(
        self,
        port: int,
        objects: Sequence[str | Object] = (),
        tls: tuple[str, str] | None = None,
        token: str | None = None,
        down: bool | int | str = False,
        client_ca: str | None = None,
    ) -> None:
        self.changed = threading.Condition()
        #: By plural, namespace and name.
        self.store: dict[tuple[str, str, str], Object] = {}
        #: Resource version, plural, object before and after.
        self.events: list[tuple[int, str, Object | None, Object | None]] = []
        self.version = 100
        self.token, self.down = token, down
        #: Watches end when ``cuts`` changes and send a bookmark when ``marks`` does.
        self.cuts = self.marks = 0
        #: Watches that resume at an older version get 410, in the stream (``event``) or as the status (``status``).
        self.compacted, self.compaction = 0, "event"
        self.stopping = False
        #: What may be listed and watched: a plural for all namespaces, NAMESPACE/PLURAL for one; None: everything.
        self.granted: set[str] | None = None
        #: Where each resource is; those that are nowhere are not installed.
        self.roots = {plural: root for plural, (root, _, _) in RESOURCES.items()}
        #: The paths asked for, with their queries.
        self.requests: list[str] = []
        for item in objects:
            self.apply(item)
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.api = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            if client_ca:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()

    # ---- changes ----

    def apply(self, item: str | Object) -> None:
        new = expand(item) if isinstance(item, str) else copy.deepcopy(item)
        plural, metadata = PLURALS[new["kind"]], new["metadata"]
        namespace = metadata.setdefault("namespace", "default") if RESOURCES[plural][2] else ""
        key = plural, namespace, metadata["name"]
        with self.changed:
            self.version += 1
            metadata.setdefault("uid", f"00000000-0000-0000-0000-{zlib.crc32('/'.join(key).encode()):012d}")
            metadata.setdefault("creationTimestamp", "2024-01-01T00:00:00Z")
            metadata["resourceVersion"] = str(self.version)
            self.events.append((self.version, plural, self.store.get(key), new))
            self.store[key] = new
            self.changed.notify_all()

    def delete(self, reference: str) -> None:
        """``KIND NS/NAME`` or ``KIND NAME``; KIND is a plural or the word of a shorthand. Raises KeyError."""
        kind, name = reference.split()
        plural = SHORT.get(kind, kind)
        namespace, _, name = name.rpartition("/")
        with self.changed:
            old = copy.deepcopy(self.store.pop((plural, namespace, name)))
            self.version += 1
            old["metadata"]["resourceVersion"] = str(self.version)
            self.events.append((self.version, plural, old, None))
            self.changed.notify_all()

    def install(self, plural: str, root: str = "") -> None:
        """Have a resource at another root, or not at all, from now on; watches end."""
        self.roots[plural] = root
        self.cut()

    def grant(self, *granted: str) -> None:
        """From now on these rights and no others; watches end."""
        self.granted = set(granted)
        self.cut()

    def set_down(self, down: bool | int | str) -> None:
        with self.changed:
            self.down = down
            self.changed.notify_all()

    def cut(self) -> None:
        """End all watches."""
        with self.changed:
            self.cuts += 1
            self.changed.notify_all()

    def gone(self, compaction: str) -> None:
        """End all watches, and answer 410 to those that resume: in the stream (``event``) or as the status (``status``)."""
        with self.changed:
            self.version += 10
            self.compacted, self.compaction = self.version, compaction
            self.cuts += 1
            self.changed.notify_all()

    def copy(self) -> tuple[int, dict[tuple[str, str, str], Object]]:
        """A backup of etcd: its revision and objects."""
        with self.changed:
            return self.version, copy.deepcopy(self.store)

    def restore(self, backup: tuple[int, dict[tuple[str, str, str], Object]]) -> None:
        """Go back to a backup. Watches end, and one that goes on from a revision that is not yet there is silent until it is."""
        with self.changed:
            self.version, self.store = backup[0], copy.deepcopy(backup[1])
            self.events, self.compacted = [], 0
            self.cuts += 1
            self.changed.notify_all()

    def mark(self) -> None:
        """Send a bookmark to all watches."""
        with self.changed:
            self.version += 1
            self.marks += 1
            self.changed.notify_all()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    api: KubeAPI

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: clients may break off handshakes and requests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Writes nothing."""

    def do_GET(self) -> None:
        try:
            self._get(self.server.api)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._fail(405)

    def _reply(self, body: Object, code: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, code: int, message: str = "") -> None:
        self._reply(failure(code, message), code)

    def _get(self, api: KubeAPI) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        api.requests.append(self.path)
        if api.down == "close":
            self.close_connection = True
        elif api.down:
            self._fail(503 if api.down is True else int(api.down))
        elif api.token and self.headers.get("Authorization") != f"Bearer {api.token}":
            self._fail(401)
        elif (found := DOCUMENTS.get(path := url.path.rstrip("/"))) is not None:
            self._reply(found)
        else:
            self._get_objects(api, path, query)

    def _get_objects(self, api: KubeAPI, path: str, query: dict[str, str]) -> None:
        """``ROOT/[watch/][namespaces/NS/]PLURAL[/NAME]``."""
        root = next((root for root in api.roots.values() if root and path.startswith(f"{root}/")), "")
        words = path[len(root) + 1 :].split("/")
        watch = query.get("watch", "").lower() in ("1", "true")
        if words[0] == "watch":
            watch, words = True, words[1:]
        namespace = ""
        if words[0] == "namespaces" and len(words) > 2:
            namespace, words = words[1], words[2:]
        plural = words[0] if words else ""
        if not root or api.roots.get(plural) != root:
            self._fail(404)
        elif api.granted is not None and not {plural, f"{namespace}/{plural}"} & api.granted:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            group = root.split("/")[2] if root != CORE else ""
            user = "system:serviceaccount:kube-system:coredns"
            verb = "watch" if watch else "list"
            self._fail(403, f'{plural} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group "{group}" {where}')
        elif len(words) == 2:
            item = api.store.get((plural, namespace, words[1]))
            self._reply(item) if item else self._fail(404)
        elif watch:
            Watch(self, api, plural, namespace, query).run()
        else:
            _, kind, _ = RESOURCES[plural]
            with api.changed:
                items = selected(api, plural, namespace, query)
                version = api.version
            if (since := int(query.get("resourceVersion") or "0")) > version:
                self._fail(504, TOO_LARGE % (since, version))
                return
            metadata = {"resourceVersion": str(version)}
            self._reply({"kind": f"{kind}List", "apiVersion": api_version(root), "metadata": metadata, "items": items})


class Watch:
    """One watch, from its first event to its end. Keys of ``query`` are those of the API."""

    def __init__(self, handler: Handler, api: KubeAPI, plural: str, namespace: str, query: dict[str, str]) -> None:
        self.handler, self.api, self.plural, self.namespace, self.query = handler, api, plural, namespace, query
        self.since = int(query.get("resourceVersion") or "0")
        #: A streaming list: all objects first, then a bookmark that says so.
        self.streaming = query.get("sendInitialEvents", "").lower() == "true"

    def run(self) -> None:
        with self.api.changed:
            cuts, marks = self.api.cuts, self.api.marks
            expired = not self.streaming and 0 < self.since < self.api.compacted
            current = self.api.version
        if self.since > current and self.streaming:
            self.handler._fail(504, TOO_LARGE % (self.since, current))
            return
        if expired and self.api.compaction == "status":
            self.handler._fail(410, "too old resource version")
            return
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        if expired:
            self._send("ERROR", failure(410, "too old resource version"))
        else:
            self._follow(cuts, marks)
        self.handler.wfile.write(b"0\r\n\r\n")
        self.handler.close_connection = True

    def _follow(self, cuts: int, marks: int) -> None:
        api = self.api
        with api.changed:
            position, version, items = len(api.events), api.version, []
            if self.streaming or not self.since:
                items = selected(api, self.plural, self.namespace, self.query)
            else:
                position = next((at for at, event in enumerate(api.events) if event[0] > self.since), position)
        for item in items:
            self._send("ADDED", item)
        if self.streaming:
            self._bookmark(version, {"annotations": {"k8s.io/initial-events-end": "true"}})
        end = time.monotonic() + float(self.query.get("timeoutSeconds") or 300)
        bookmarked = time.monotonic()
        while not api.stopping and not api.down and api.cuts == cuts and time.monotonic() < end:
            with api.changed:
                if position >= len(api.events) and api.marks == marks:
                    api.changed.wait(0.5)
                if api.cuts != cuts or api.down:
                    return
                events, position, version = api.events[position:], len(api.events), api.version
            for revision, plural, old, new in events:
                if plural == self.plural and revision > self.since:
                    self._send_change(old, new)
            if self.query.get("allowWatchBookmarks") and version > self.since and (time.monotonic() - bookmarked > BOOKMARK or api.marks != marks):
                bookmarked, marks = time.monotonic(), api.marks
                self._bookmark(version, {})

    def _send_change(self, old: Object | None, new: Object | None) -> None:
        """An object that comes into or goes out of the selection is added or deleted for this watch."""
        before, after = (is_selected(item, self.namespace, self.query) for item in (old, new))
        if new is not None and after:
            self._send("MODIFIED" if before else "ADDED", new)
        elif old is not None and before:
            self._send("DELETED", old)

    def _bookmark(self, version: int, metadata: Object) -> None:
        root, kind, _ = RESOURCES[self.plural]
        metadata = {"resourceVersion": str(version), "creationTimestamp": None, **metadata}
        self._send("BOOKMARK", {"kind": kind, "apiVersion": api_version(root), "metadata": metadata, **EMPTY.get(self.plural, {})})

    def _send(self, kind: str, item: Object) -> None:
        data = json.dumps({"type": kind, "object": item}).encode() + b"\n"
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()


def selected(api: KubeAPI, plural: str, namespace: str, query: dict[str, str]) -> list[Object]:
    return [item for key, item in sorted(api.store.items()) if key[0] == plural and is_selected(item, namespace, query)]


def is_selected(item: Object | None, namespace: str, query: dict[str, str]) -> bool:
    if item is None or (namespace and item["metadata"].get("namespace") != namespace):
        return False
    labels = item["metadata"].get("labels") or {}
    return selector_match(query.get("labelSelector", ""), labels) and field_match(query.get("fieldSelector", ""), item)


def discovery() -> dict[str, Object]:
    """The documents that are always the same, by path."""
    groups = []
    for root in (DISCOVERY, MULTICLUSTER):
        version = {"groupVersion": api_version(root), "version": root.rpartition("/")[2]}
        groups.append({"name": api_version(root).split("/")[0], "versions": [version], "preferredVersion": version})
    documents: dict[str, Object] = {
        "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        **{path: {"status": "ok"} for path in ("/healthz", "/readyz", "/livez")},
    }
    for root in (CORE, DISCOVERY, MULTICLUSTER):
        resources = [
            {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": ["get", "list", "watch"]}
            for plural, (where, kind, namespaced) in RESOURCES.items()
            if where == root
        ]
        documents[root] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(root), "resources": resources}
    return documents


DOCUMENTS = discovery()
