"""top: which names, clients and causes are most frequent, for `fastdns top` and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastdns.plugins.top._top import TopHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry import status
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.plugins.top.windows import Windows

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: Of clients' search domains, where the block names none.
SEARCH = ("cluster.local.",)
#: Series of the metric.
NAMESPACES_MAX = 20

QUERIES = Metric("fastdns_top_queries", "Queries of the last minute by namespace of the client's pod, of those with the most.", "gauge", ("client_namespace",))

_windows: Windows | None = None


def setup(controller: Controller) -> None:
    """Add the block's handler. All blocks share what is remembered."""
    search, exposes = parse(controller)
    config = controller.config
    handler = TopHandler("top", search)
    config.add_handler(handler)

    def connect() -> None:
        namespace = config.client_label("client-namespace")
        if namespace is not None:
            handler.use(namespace, config.client_label("client-pod-name"), config.client_label("client-node-name"))

    acquired = False

    def start() -> None:
        nonlocal acquired
        windows = _process_windows()
        windows.acquire()
        acquired = True
        if exposes:
            windows.listeners.append(expose)

    def begin() -> None:
        _process_windows().begin()
        status.provide("top", _section)

    def stop() -> None:
        if not acquired:
            return
        windows = _process_windows()
        if exposes:
            windows.listeners.remove(expose)
            if not windows.listeners:
                QUERIES.forget()
        if windows.release():
            status.withdraw("top", _section)

    controller.on_complete(connect)
    controller.on_startup(start)
    controller.on_started(begin)
    controller.on_shutdown(stop)


def parse(controller: Controller) -> tuple[list[str], bool]:
    """Zones of search domains, and whether there are metrics. Raises CorefileError."""
    search: list[str] = []
    exposes = False
    while controller.once():
        if controller.remaining_args():
            raise controller.arg_err()
        while controller.next_block():
            word = controller.val()
            if word == "search":
                search += controller.zones(controller.args(1))
            elif word == "metrics":
                controller.no_args()
                exposes = True
            else:
                raise controller.err(f"unknown property '{word}'")
    return search or list(SEARCH), exposes


def _process_windows() -> Windows:
    global _windows
    if _windows is None:
        from fastdns.plugins.top.windows import Windows

        _windows = Windows()
    return _windows


def _section(request: Mapping[str, Any]) -> dict[str, Any]:
    from fastdns.plugins.top.report import report

    return report(_process_windows(), request)


def expose() -> None:
    """Set the metric anew. Series of namespaces that are no longer among the first go."""
    from fastdns.plugins.top.report import namespaces

    try:
        _, _, tables = _process_windows().read(60)
    except ValueError:  # it has ended meanwhile
        return
    found = namespaces(tables["clients"], NAMESPACES_MAX)
    for values, _ in QUERIES.collect():
        if values[0] not in found:
            QUERIES.forget(values)
    for namespace, count in found.items():
        QUERIES.set((namespace,), count)
