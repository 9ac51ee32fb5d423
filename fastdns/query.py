"""What a Python plugin sees of a query, and what it may return."""

from __future__ import annotations

from fastdns.executor.cluster import Cluster, Endpoint, Pod, Port, Service
from fastdns.executor.query import DROP, PASS, Answer, Failure, Metadata, Packable, Query, Record, Remembered, Reply, Result, Verdict, Writable

__all__ = [
    "DROP",
    "PASS",
    "Answer",
    "Cluster",
    "Endpoint",
    "Failure",
    "Metadata",
    "Packable",
    "Pod",
    "Port",
    "Query",
    "Record",
    "Remembered",
    "Reply",
    "Result",
    "Service",
    "Verdict",
    "Writable",
]
