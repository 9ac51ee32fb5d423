"""Spans by OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp), with OpenTelemetry's exporter. Imports it."""

from __future__ import annotations

import logging
import secrets
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from fastdns import __version__
from fastdns.plugins.trace.endpoints import ROOT, TIMEOUT, Query, tags
from fastdns.telemetry.log import Log

__all__ = ["Otlp"]

#: Octets of a response that are read.
RESPONSE_MOST = 65536
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
UNSET = Status(StatusCode.UNSET)


class LogHandler(logging.Handler):
    """What the library warns of, in the log of the process."""

    log = Log("plugin/trace")

    def emit(self, record: logging.LogRecord) -> None:
        self.log.warning(record.getMessage())


logging.getLogger("opentelemetry").addHandler(LogHandler(logging.WARNING))


class BoundedSession(requests.Session):
    """Reads no more of a response than a collector has reason to send, and uses no proxy, as for the other endpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        response = super().send(request, **{**options, "stream": True})
        response.raw.read(RESPONSE_MOST)
        response.close()  # a connection whose response was read to its end is kept
        return response


class Otlp:
    """OpenTelemetry's Collector, or whatever takes OTLP."""

    def __init__(self, url: str, service: str) -> None:
        """Of the environment it takes OTEL_EXPORTER_OTLP_* but for endpoint and timeout, and OTEL_RESOURCE_ATTRIBUTES. Raises ValueError."""
        self.exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT, session=BoundedSession())
        self.resource = Resource.create({SERVICE_NAME: service})
        self.scope = InstrumentationScope("fastdns", __version__)

    def spans(self, query: Query, names: list[str]) -> list[ReadableSpan]:
        """The query, and each plugin that it came to inside of the one before."""
        (high, low, own, client, _), begun, took, *_ = query
        error = query[-1]
        trace = high << 64 | low
        status = Status(StatusCode.ERROR, error) if error else UNSET
        above = SpanContext(trace, client, is_remote=True, trace_flags=SAMPLED) if client else None
        context = SpanContext(trace, own, is_remote=False, trace_flags=SAMPLED)
        times: dict[str, Any] = {"start_time": begun, "end_time": begun + max(took, 1), "resource": self.resource, "instrumentation_scope": self.scope}
        found = [ReadableSpan(ROOT, context, above, kind=SpanKind.SERVER, attributes=tags(query, "/"), status=status, **times)]
        for name in names:
            above, context = context, SpanContext(trace, secrets.randbits(64) or 1, is_remote=False, trace_flags=SAMPLED)
            found.append(ReadableSpan(name, context, above, **times))
        return found

    def send(self, spans: list[ReadableSpan]) -> bool:
        """Whether the endpoint took them, within TIMEOUT. The exporter tries again while it is away or busy, and logs what it gave up."""
        return self.exporter.export(spans) is SpanExportResult.SUCCESS
