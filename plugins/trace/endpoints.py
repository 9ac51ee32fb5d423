"""Spans as Zipkin (https://zipkin.io/zipkin-api) and Datadog's agent take them."""

from __future__ import annotations

import ipaddress
import json
import secrets
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from fastdns.protocol.parameters import rcode_text, type_text
from fastdns.telemetry.log import Log

__all__ = ["ROOT", "TIMEOUT", "Datadog", "Query", "Zipkin", "tags"]

log = Log("plugin/trace")

ROOT = "servedns"
#: Seconds for a request.
TIMEOUT = 5.0

#: A span: the upper and the lower half of the trace's id, its own id, those of the client's span and of that one's parent. 0: none.
Span = tuple[int, int, int, int, int]
Query = tuple[Span, int, int, str, int, int, bool, str, int, str]


def tags(query: Query, separator: str) -> dict[str, str]:
    _, _, _, name, qtype, rcode, udp, client, _, _ = query
    values = {"name": name, "type": type_text(qtype), "rcode": rcode_text(rcode), "proto": "udp" if udp else "tcp", "remote": client}
    return {f"coredns.io{separator}{key}": value for key, value in values.items()}


class HttpEndpoint(ABC):
    """Takes spans by HTTP requests, each of which is sent once."""

    method = kind = url = ""

    def __init__(self, url: str) -> None:
        """Raises ValueError."""
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"tracing endpoint '{url}' is not supported")
        self.url = url
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @abstractmethod
    def body(self, spans: list[Any]) -> tuple[bytes, dict[str, str]]:
        """A request's body and header fields."""

    def send(self, spans: list[Any]) -> bool:
        """Whether the endpoint took them. What it did not take is in the log."""
        body, fields = self.body(spans)
        fields["Content-Type"] = self.kind
        request = urllib.request.Request(self.url, body, fields, method=self.method)  # noqa: S310  http or https
        try:
            with self.opener.open(request, timeout=TIMEOUT) as reply:
                reply.read(65536)
        except urllib.error.HTTPError as error:
            error.close()
            log.warning(f"failed the request with status code {error.code}")
            return False
        except (OSError, ValueError) as error:
            log.warning(f'failed to send the request: {self.method.title()} "{self.url}": {getattr(error, "reason", error)}')
            return False
        return True


class Zipkin(HttpEndpoint):
    """Spans in JSON, version 2."""

    method, kind = "POST", "application/json"

    def __init__(self, url: str, service: str, host: str, port: int, shared: bool = False) -> None:
        """shared: the query's span is that of its client, if it has one, and not a child of it."""
        super().__init__(url)
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


class Datadog(HttpEndpoint):
    """Traces in MessagePack, version 0.4 of the agent's API."""

    method, kind = "PUT", "application/msgpack"

    def __init__(self, endpoint: str, service: str, rate: float) -> None:
        url = endpoint if "://" in endpoint else f"http://{endpoint}"
        super().__init__(url.rstrip("/") + "/v0.4/traces")
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
