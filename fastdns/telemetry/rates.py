"""The section `rates`: what has been asked and answered since the start, by server, zone, rcode and upstream, read from the metrics.

All numbers are totals, so a reader of two reports has the rates of the time between, and totals of several servers can be added.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastdns.telemetry import history
from fastdns.telemetry.metrics import registry

__all__ = ["UPSTREAMS_MAX", "ZONES_MAX", "report", "totals"]

#: Rows of zones and of upstreams in a report: those with most queries.
ZONES_MAX = 100
UPSTREAMS_MAX = 100

REQUESTS = "coredns_dns_requests_total"
RESPONSES = "coredns_dns_responses_total"
DURATIONS = "coredns_dns_request_duration_seconds"
UPSTREAM = "coredns_proxy_request_duration_seconds"
#: Members of `cache`, by the rest of the metric's name.
CACHE_PREFIX = "coredns_cache_"
CACHE = {
    "requests_total": "requests",
    "hits_total": "hits",
    "served_stale_total": "stale",
    "prefetch_total": "prefetches",
    "evictions_total": "evictions",
    "entries": "entries",
}


def report(request: Mapping[str, Any]) -> dict[str, Any]:
    """The section. With the member ``history_after``, a number of a sample, it has the later samples of the last hour where these are kept."""
    found = totals()
    after = request.get("history_after")
    if after is not None:
        found["history"] = history.since(int(after))
    return found


def totals() -> dict[str, Any]:
    """All totals. ``counted`` is false where no block of the Corefile counts its queries."""
    zones = _zones()
    latency, upstream = registry.get(DURATIONS), registry.get(UPSTREAM)
    bounds = list(latency.bounds) if latency else []
    kept = sorted(zones.values(), key=lambda zone: (-zone["queries"], zone["server"], zone["zone"]))
    upstreams = _upstreams()
    return {
        "time": time.time(),
        "counted": REQUESTS in registry,
        "queries": sum(zone["queries"] for zone in kept),
        "rcodes": _sums(zone["rcodes"] for zone in kept),
        "types": _by("type"),
        "transports": _by("proto"),
        "plugins": {name or "none": count for name, count in _by("plugin", RESPONSES).items()},
        "latency": {"bounds": bounds, "counts": added([zone["latency"] for zone in kept]), "sum": sum(zone["seconds"] for zone in kept)},
        "zones": kept[:ZONES_MAX],
        "zones_left_out": max(0, len(kept) - ZONES_MAX),
        "cache": {key: sum(value for _, value in _samples(CACHE_PREFIX + name)) for name, key in CACHE.items()},
        "upstreams": {"bounds": list(upstream.bounds) if upstream else [], "rows": upstreams[:UPSTREAMS_MAX]},
        "upstreams_left_out": max(0, len(upstreams) - UPSTREAMS_MAX),
    }


def added(lists: Sequence[Sequence[int]]) -> list[int]:
    """Counts of histograms with the same bounds, added up; empty ones count as nothing."""
    return [sum(counts) for counts in zip(*filter(None, lists), strict=True)]


def _zones() -> dict[tuple[str, ...], dict[str, Any]]:
    """By server, zone and view."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}

    def row(values: tuple[str, ...]) -> dict[str, Any]:
        key = values[:3]
        if key not in found:
            found[key] = {"server": key[0], "zone": key[1], "view": key[2], "queries": 0, "rcodes": {}, "latency": [], "seconds": 0.0}
        return found[key]

    for values, count in _samples(REQUESTS):
        row(values)["queries"] += int(count)
    for values, count in _samples(RESPONSES):
        rcodes = row(values)["rcodes"]
        rcodes[values[3]] = rcodes.get(values[3], 0) + int(count)
    for values, (counts, seconds) in _samples(DURATIONS):
        row(values).update(latency=counts, seconds=seconds)
    return found


def _upstreams() -> list[dict[str, Any]]:
    """By plugin and address, those with most queries first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def row_of(plugin: str, address: str) -> dict[str, Any]:
        new = {"to": address, "plugin": plugin, "queries": 0, "rcodes": {}, "latency": [], "seconds": 0.0, "check_failures": 0}
        return found.setdefault((plugin, address), new)

    for (plugin, address, rcode), (counts, seconds) in _samples(UPSTREAM):
        row = row_of(plugin, address)
        queries = sum(counts)
        row["queries"] += queries
        row["rcodes"][rcode] = row["rcodes"].get(rcode, 0) + queries
        row["latency"] = added([row["latency"], counts])
        row["seconds"] += seconds
    for (plugin, address), count in _samples("coredns_proxy_healthcheck_failures_total"):
        row_of(plugin, address)["check_failures"] = int(count)
    return sorted(found.values(), key=lambda row: (-row["queries"], row["to"]))


def _by(label: str, name: str = REQUESTS) -> dict[str, int]:
    """The counts of a metric by one of its labels."""
    found: dict[str, int] = defaultdict(int)
    metric = registry.get(name)
    if metric is not None:
        place = metric.labels.index(label)
        for values, count in _samples(name):
            found[values[place]] += int(count)
    return dict(sorted(found.items()))


def _samples(name: str) -> list[tuple[tuple[str, ...], Any]]:
    metric = registry.get(name)
    return metric.collect() if metric is not None else []


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for some in counts:
        for key, count in some.items():
            found[key] += count
    return dict(sorted(found.items(), key=lambda item: -item[1]))
