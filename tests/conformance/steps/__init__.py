"""What each kind of step does, by its key in a case; README.md describes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.cases import Step
from tests.conformance.run import Run
from tests.conformance.steps import changes, connections, observations, queries

__all__ = ["STEPS"]

STEPS: dict[str, Callable[[Run, int, Step], None]] = {
    "q": queries.query,
    "until": queries.until,
    "spread": queries.spread,
    "burst": queries.burst,
    "raw": queries.raw,
    "stream": connections.stream,
    "dialog": connections.dialog,
    "conns": connections.parallel,
    "xfr": connections.transfer,
    "http": observations.http,
    "metrics": observations.metrics,
    "log": observations.log,
    "nolog": observations.no_log,
    "log_lines": observations.log_lines,
    "count": observations.count,
    "seen": observations.last_query,
    "file_has": observations.file_has,
    "exits": observations.exits,
    "alive": observations.alive,
    "forget": changes.forget,
    "upstream": changes.configure_upstream,
    "write": changes.write,
    "append": changes.append,
    "remove": changes.remove,
    "sleep": changes.sleep,
    "signal": changes.send_signal,
    "kube_apply": changes.kube_apply,
    "kube_delete": changes.kube_delete,
    "kube_down": changes.kube_down,
    "kube_watch": changes.kube_watch,
    "etcd_put": changes.etcd_put,
    "etcd_delete": changes.etcd_delete,
}
