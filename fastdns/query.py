"""What a Python plugin sees of a query, and the ways in which it may answer."""

from __future__ import annotations

from fastdns.executor.query import DROP, PASS, Answer, Failure, Query, Record, Remembered, Reply, Verdict

__all__ = ["DROP", "PASS", "Answer", "Failure", "Query", "Record", "Remembered", "Reply", "Verdict"]
