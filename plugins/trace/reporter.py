"""Spans to Zipkin (https://zipkin.io/zipkin-api) or Datadog's agent, by a thread."""

from __future__ import annotations

import ipaddress
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections import deque
from typing import Any, Protocol

import msgspec

from fastdns.protocol.parameters import rcode_text, type_text
from fastdns.telemetry.log import Log

__all__ = ["Datadog", "Reporter", "Zipkin"]

log = Log("plugin/trace")

ROOT = "servedns"
#: Seconds for a request.
TIMEOUT = 5.0
#: Seconds that the process's end waits for what is left.
FINISH = 2.0
#: Seconds between two looks at what the workers have, so that their rings stay empty.
LOOK = 0.2

#: A span: the upper and the lower half of the trace's id, its own id, those of the client's span and of that one's parent. 0: none.
Span = tuple[int, int, int, int, int]
Query = tuple[Span, int, int, str, int, int, bool, str, int, str]


class Source(Protocol):
    """Where traced queries come from: a `TraceHandler`."""

    def take(self) -> list[Query]: ...
    def below(self, deepest: int) -> list[str]: ...


def tags(query: Query, separator: str) -> dict[str, str]:
    _, _, _, name, qtype, rcode, udp, client, _, _ = query
    values = {"name": name, "type": type_text(qtype), "rcode": rcode_text(rcode), "proto": "udp" if udp else "tcp", "remote": client}
    return {f"coredns.io{separator}{key}": value for key, value in values.items()}


class Zipkin:
    """Spans in JSON, version 2."""

    method, kind = "POST", "application/json"

    def __init__(self, url: str, service: str, host: str, port: int, shared: bool = False) -> None:
        """shared: the query's span is that of its client, if it has one, and not a child of it."""
        self.url = url
        self.shared = shared
        self.endpoint: dict[str, Any] = {"serviceName": service}
        if host:
            try:
                self.endpoint[f"ipv{ipaddress.ip_address(host).version}"] = host
                self.endpoint["port"] = port
            except ValueError:
                pass  # a name or an interface

    def spans(self, query: Query, names: list[str]) -> list[Any]:
        """The query, and each plugin that it came to inside of the one before; it is they that take the time of what is below them."""
        (high, low, own, client, above), begun, took, *_ = query
        error = query[-1]
        trace = f"{high:016x}{low:016x}" if high else f"{low:016x}"
        base = {"traceId": trace, "timestamp": begun // 1000, "duration": max(took // 1000, 1), "localEndpoint": self.endpoint}
        shared = self.shared and client != 0
        root: dict[str, Any] = {**base, "id": f"{client if shared else own:016x}", "name": ROOT, "kind": "SERVER", "tags": tags(query, "/")}
        if shared:
            root["shared"] = True
        if parent_of_root := above if shared else client:
            root["parentId"] = f"{parent_of_root:016x}"
        if error:
            root["tags"]["error"] = error
            root["annotations"] = [{"timestamp": (begun + took) // 1000, "value": f"error: {error}"}]
        found, parent = [root], root["id"]
        for name in names:
            found.append({**base, "id": secrets.token_hex(8), "parentId": parent, "name": name})
            parent = found[-1]["id"]
        return found

    def body(self, spans: list[Any]) -> tuple[bytes, dict[str, str]]:
        return json.dumps(spans).encode(), {}


class Datadog:
    """Traces in MessagePack, version 0.4 of the agent's API."""

    method, kind = "PUT", "application/msgpack"

    def __init__(self, endpoint: str, service: str, rate: float) -> None:
        url = endpoint if "://" in endpoint else f"http://{endpoint}"
        self.url = url.rstrip("/") + "/v0.4/traces"
        self.service = service
        self.rate = rate

    def spans(self, query: Query, names: list[str]) -> list[Any]:
        (high, low, own, client, _), begun, took, *_ = query
        error = query[-1]
        meta = {**tags(query, "@"), "span.type": "dns", "language": "python", **({"_dd.p.tid": f"{high:016x}"} if high else {})}
        if error:
            meta |= {"error.message": error, "error.type": "dns_error"}
        metrics = {"_sampling_priority_v1": 1.0, **({"_dd1.sr.eausr": self.rate} if self.rate else {})}
        span = {"trace_id": low, "span_id": own, "parent_id": client, "name": ROOT, "resource": ROOT, "service": self.service, "type": "dns"}
        return [{**span, "start": begun, "duration": max(took, 1), "error": int(bool(error)), "meta": meta, "metrics": metrics}]

    def body(self, spans: list[Any]) -> tuple[bytes, dict[str, str]]:
        """Each trace is a list of its own."""
        return msgspec.msgpack.encode([[span] for span in spans]), {"X-Datadog-Trace-Count": str(len(spans)), "Datadog-Meta-Lang": "python"}


class Reporter:
    """Takes what is finished, and sends it in batches."""

    def __init__(self, source: Source, target: Zipkin | Datadog, backlog: int = 1000, batch: int = 100, interval: float = 1.0) -> None:
        """At most ``backlog`` spans wait, the oldest go first; a batch is sent when it is full, or after ``interval`` seconds. Raises ValueError."""
        if not target.url.startswith(("http://", "https://")):
            raise ValueError(f"tracing endpoint '{target.url}' is not supported")
        self.source, self.target = source, target
        self.waiting: deque[Any] = deque(maxlen=max(backlog, 1))
        self.batch = max(batch, 1)
        self.interval = interval
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="trace", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Sends what there is, and ends."""
        self.stopping.set()

    def finish(self) -> None:
        """`stop`, and wait for it."""
        self.stop()
        if self.thread.ident is not None:
            self.thread.join(FINISH)

    def _run(self) -> None:
        rest = self.interval
        while True:
            last = self.stopping.wait(min(LOOK, self.interval))
            rest -= min(LOOK, self.interval)
            for query in self.source.take():
                self.waiting.extend(self.target.spans(query, self.source.below(query[-2])))
            while len(self.waiting) >= self.batch or (self.waiting and (rest <= 0 or last)):
                if not self._send():
                    break
            if rest <= 0:
                rest = self.interval
            if last:
                return

    def _send(self) -> bool:
        """One batch; where that fails it is lost, as with Zipkin's own reporters."""
        spans = [self.waiting.popleft() for _ in range(min(self.batch, len(self.waiting)))]
        body, fields = self.target.body(spans)
        fields["Content-Type"] = self.target.kind
        request = urllib.request.Request(self.target.url, body, fields, method=self.target.method)  # noqa: S310  http or https
        try:
            with self.opener.open(request, timeout=TIMEOUT) as reply:
                reply.read(65536)
        except urllib.error.HTTPError as error:
            error.close()
            log.warning(f"failed the request with status code {error.code}")
            return False
        except (OSError, ValueError) as error:
            log.warning(f'failed to send the request: {self.target.method.title()} "{self.target.url}": {getattr(error, "reason", error)}')
            return False
        return True
