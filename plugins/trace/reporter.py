"""Sends spans by a thread, in batches."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol

from fastdns.plugins.trace.endpoints import Query
from fastdns.telemetry.metrics import Metric

__all__ = ["Reporter"]

#: Seconds that the process's end waits for what is left.
FINISH = 2.0
#: Seconds between two looks at what the workers have, so that their rings stay empty.
LOOK = 0.2

DROPPED = Metric("fastdns_trace_dropped_spans_total", "Spans that had no place in the backlog, or that the endpoint did not take.", "counter")


class Source(Protocol):
    """Where traced queries come from: a `TraceHandler`."""

    def take(self) -> list[Query]: ...
    def below(self, deepest: int) -> list[str]: ...


class Endpoint(Protocol):
    """Where spans go. A batch that it does not take is lost, as with Zipkin's own reporters."""

    def spans(self, query: Query, names: list[str]) -> list[Any]: ...
    def send(self, spans: list[Any]) -> bool: ...


class Reporter:
    """Takes what is finished, and sends it in batches."""

    def __init__(self, source: Source, endpoint: Endpoint, backlog: int = 1000, batch: int = 100, interval: float = 1.0) -> None:
        """At most ``backlog`` spans wait, the oldest go first; a batch is sent when it is full, or after ``interval`` seconds."""
        self.source, self.endpoint = source, endpoint
        self.waiting: deque[Any] = deque(maxlen=max(backlog, 1))
        self.batch = max(batch, 1)
        self.interval = interval
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
                self._queue(self.endpoint.spans(query, self.source.below(query[-2])))
            while len(self.waiting) >= self.batch or (self.waiting and (rest <= 0 or last)):
                if not self._send():
                    break
            if rest <= 0:
                rest = self.interval
            if last:
                return

    def _queue(self, spans: list[Any]) -> None:
        before = len(self.waiting)
        self.waiting.extend(spans)
        if lost := before + len(spans) - len(self.waiting):
            DROPPED.add((), lost)

    def _send(self) -> bool:
        """One batch, whether it was taken."""
        spans = [self.waiting.popleft() for _ in range(min(self.batch, len(self.waiting)))]
        taken = self.endpoint.send(spans)
        if not taken:
            DROPPED.add((), len(spans))
        return taken
