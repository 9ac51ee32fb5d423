"""What happened between two readings of `rates`: queries a second, shares and quantiles. `fastdns top` and the samples of the last hour share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastdns.telemetry.quantile import quantile

__all__ = ["QUANTILES", "between", "combined", "series"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Totals = Mapping[str, Any]


def between(before: Totals, after: Totals) -> dict[str, Any]:
    """The rates of the time between two totals: counts become numbers a second, latencies seconds (None without a query).

    A server that was started between them begins at 0.
    """
    seconds = max(after["time"] - before["time"], 1e-3)
    if after["queries"] < before["queries"]:
        before = {}
    zones = {_zone(row): row for row in before.get("zones", ())}
    upstreams = {_upstream(row): row for row in before.get("upstreams", {}).get("rows", ())}
    bounds, upstream_bounds = after["latency"]["bounds"], after["upstreams"]["bounds"]
    cache = _rates(before.get("cache", {}), after["cache"], seconds)
    return {
        "seconds": seconds,
        "queries": max(0, after["queries"] - before.get("queries", 0)) / seconds,
        **{kind: _rates(before.get(kind, {}), after[kind], seconds) for kind in ("rcodes", "types", "transports", "plugins")},
        "latency": _latency(before.get("latency", {}).get("counts", ()), after["latency"]["counts"], bounds),
        "zones": sorted((_row(zones.get(_zone(row), {}), row, bounds, seconds) for row in after["zones"]), key=lambda row: -row["queries"]),
        "cache": {**cache, "entries": after["cache"]["entries"], "hit_share": cache["hits"] / cache["requests"] if cache["requests"] else None},
        "upstreams": [_row(upstreams.get(_upstream(row), {}), row, upstream_bounds, seconds) for row in after["upstreams"]["rows"]],
        "upstream_bounds": upstream_bounds,
    }


def combined(rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rates of several servers added up; quantiles are those of all their queries. Of histograms with other buckets those like the first's count."""
    first = rates[0]
    caches = [some["cache"] for some in rates]
    cache: dict[str, Any] = {key: sum(cache[key] for cache in caches) for key in caches[0] if key != "hit_share"}
    bounds: list[float] = first["latency"]["bounds"] or next((some["latency"]["bounds"] for some in rates if some["latency"]["bounds"]), [])
    upstream_bounds: list[float] = next((some["upstream_bounds"] for some in rates if some["upstream_bounds"]), [])
    return {
        "seconds": max(some["seconds"] for some in rates),
        "queries": sum(some["queries"] for some in rates),
        **{kind: _sums([some[kind] for some in rates]) for kind in ("rcodes", "types", "transports", "plugins")},
        "latency": _latency((), _added([some["latency"]["counts"] for some in rates if some["latency"]["bounds"] == bounds]), bounds),
        "zones": _grouped([row for some in rates for row in some["zones"]], _zone, bounds),
        "cache": cache | {"hit_share": cache["hits"] / cache["requests"] if cache["requests"] else None},
        "upstreams": _grouped([row for some in rates for row in some["upstreams"]], _upstream, upstream_bounds),
        "upstream_bounds": upstream_bounds,
    }


def _grouped(rows: Sequence[dict[str, Any]], key: Callable[[Mapping[str, Any]], object], bounds: Sequence[float]) -> list[dict[str, Any]]:
    """Rows of zones or upstreams, each once, those with most queries first."""
    groups: dict[object, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    found = []
    for group in groups.values():
        row = dict(group[0])
        row["queries"] = sum(some["queries"] for some in group)
        row["rcodes"] = _sums([some["rcodes"] for some in group])
        row["counts"] = _added([some["counts"] for some in group if len(some["counts"]) == len(bounds) + 1])
        if "check_failures" in row:
            row["check_failures"] = sum(some["check_failures"] for some in group)
        row |= {name: quantile(share, bounds, row["counts"]) for name, share in QUANTILES.items()}
        found.append(row)
    return sorted(found, key=lambda row: -row["queries"])


def _sums(counts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: sum(some.get(key, 0) for some in counts) for key in dict.fromkeys(key for some in counts for key in some)}


def _added(lists: Sequence[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*filter(None, lists), strict=True)]


def series(rates: Mapping[str, Any]) -> dict[str, float | None]:
    """The rates as values of time series by name (see `history`): those of the busiest zones and upstreams only."""
    rcodes = dict(rates["rcodes"])
    values: dict[str, float | None] = {"queries": rates["queries"], "cache.hit_share": rates["cache"]["hit_share"]}
    values |= {f"rcode.{name}": rcodes.pop(name, 0.0) for name in ("NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED")}
    values["rcode.other"] = sum(rcodes.values())
    values |= {f"latency.{name}": rates["latency"][name] for name in QUANTILES}
    zones = [row for row in rates["zones"] if row["queries"]][:16]
    values |= {f"zone.{row['server']} {row['zone']}{' ' + row['view'] if row['view'] else ''}": row["queries"] for row in zones}
    for row in [row for row in rates["upstreams"] if row["queries"]][:16]:
        values |= {f"upstream.{row['to']}": row["queries"], f"upstream_p99.{row['to']}": row["p99"]}
    return values


def _row(before: Mapping[str, Any], after: Mapping[str, Any], bounds: Sequence[float], seconds: float) -> dict[str, Any]:
    """A zone or an upstream."""
    return {
        **{key: value for key, value in after.items() if key not in ("latency", "seconds", "rcodes", "queries")},
        "queries": max(0, after["queries"] - before.get("queries", 0)) / seconds,
        "rcodes": _rates(before.get("rcodes", {}), after["rcodes"], seconds),
        **{key: value for key, value in _latency(before.get("latency", ()), after["latency"], bounds).items() if key != "bounds"},
    }


def _latency(before: Sequence[int], after: Sequence[int], bounds: Sequence[float]) -> dict[str, Any]:
    counts = [max(0, now - then) for now, then in zip(after, before, strict=True)] if before else list(after)
    return {"bounds": list(bounds), "counts": counts, **{name: quantile(share, bounds, counts) for name, share in QUANTILES.items()}}


def _rates(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    return {key: max(0.0, (value - before.get(key, 0)) / seconds) for key, value in after.items()}


def _zone(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["server"], row["zone"], row["view"]


def _upstream(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["plugin"], row["to"]
