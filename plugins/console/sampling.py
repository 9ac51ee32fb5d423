"""A sample of the time series each ten seconds, as long as a configuration has a console."""

from __future__ import annotations

import threading
from typing import Any

from fastdns import control
from fastdns.telemetry import difference, history, rates, status

__all__ = ["Samples", "samples"]


class Samples:
    """The timer, which outlasts reloads: those who want it are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._timer: control.Timer | None = None
        self._before: dict[str, Any] | None = None

    def begin(self) -> None:
        """One more wants samples."""
        with self._lock:
            self._users += 1
            if self._timer is None:
                self._before = rates.totals()
                self._timer = control.every(history.STEP, self.take)

    def end(self) -> None:
        """One less; with the last one the series are forgotten."""
        with self._lock:
            self._users -= 1
            if self._users or self._timer is None:
                return
            self._timer.cancel()
            self._timer = None
            history.clear()

    def take(self) -> None:
        """Read the metrics, and keep what has happened since the last time."""
        now = rates.totals()
        before, self._before = self._before, now
        if before is None:
            return
        values = difference.series(difference.between(before, now))
        server = status.report(["server"]).get("server")
        if server is not None:
            values |= {"memory": server["rss"], "waiting": next(bound["used"] for bound in server["bounds"] if bound["name"] == "queries waiting")}
        history.sample(values)


samples = Samples()
