"""Metrics of the API client, as client-go's adapter in CoreDNS names them, and ours about the snapshot."""

from __future__ import annotations

from fastdns.telemetry.metrics import Metric

#: Seconds; client_golang's default buckets.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

request_duration = Metric(
    "coredns_kubernetes_rest_client_request_duration_seconds",
    "Request latency in seconds. Broken down by verb and host.",
    "histogram",
    ("verb", "host"),
    BUCKETS,
    1e9,
)
limiter_duration = Metric(
    "coredns_kubernetes_rest_client_rate_limiter_duration_seconds",
    "Client side rate limiter latency in seconds. Broken down by verb and host.",
    "histogram",
    ("verb", "host"),
    BUCKETS,
    1e9,
)
requests = Metric(
    "coredns_kubernetes_rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    "counter",
    ("code", "method", "host"),
)
snapshot_stale = Metric(
    "coredns_kubernetes_snapshot_stale",
    "1 while answers come from a snapshot of an earlier process and the API server has not been heard since, else 0.",
    "gauge",
    ("host",),
)
watch_failing = Metric(
    "fastdns_kubernetes_watch_failing",
    "1 while the list or watch of a kind of objects has failed for longer than 30 seconds, else 0.",
    "gauge",
    ("kind", "host"),
)


def label(host: str) -> str:
    """A host as a label value: valid UTF-8, with U+FFFD for what is not."""
    return host.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
