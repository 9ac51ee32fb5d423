"""Gauges of what the stores hold, summed over all of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from fastdns.plugins.kubernetes.store.store import KINDS, Store
from fastdns.telemetry.metrics import Metric

__all__ = ["make_store"]

objects = Metric("coredns_kubernetes_objects", "Number of objects that names are answered from, by kind.", "gauge", ("kind",))
octets = Metric("coredns_kubernetes_store_bytes", "Memory of the records of all objects: taken from the system, and in use.", "gauge", ("state",))

stores: weakref.WeakSet[Store] = weakref.WeakSet()


def make_store(*, places: bool = False) -> Store:
    """A store whose content the metrics show."""
    if not stores:
        for kind in KINDS:
            objects.watch((kind,), count(kind))
        for index, state in enumerate(("held", "used")):
            octets.watch((state,), size(index))
    store = Store(places=places)
    stores.add(store)
    return store


def count(kind: str) -> Callable[[], float]:
    return lambda: sum(store.counts()[kind] for store in list(stores))


def size(index: int) -> Callable[[], float]:
    return lambda: sum(store.memory()[index] for store in list(stores))
