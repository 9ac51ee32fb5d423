"""``fastdns-bench sizes``: runs of ``fastdns-bench pods`` side by side, as a table in Markdown and a picture of memory over size."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fastdns.bench.report import plots
from fastdns.bench.report.plots import Line, lines

HEADS = (
    "server",
    "pods",
    "list by curl",
    "ready",
    "CPU a pod",
    "memory",
    "peak, and after a second list",
    "p99 of queries, with changes",
    "change to answer, p99",
)


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("sizes", help="what `pods` has found for several sizes or servers, as a table and a picture")
    parser.add_argument("file", nargs="+", type=Path, help="what `pods --json` wrote")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write memory over pods as a picture")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    try:
        found = sorted((read(path) for path in given.file), key=lambda one: (one["server"], one["cluster"]["pods"]))
        print(table(found))
        if given.svg is not None:
            given.svg.write_text(picture(found) + "\n")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"fastdns-bench: {error!r}", file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> dict[str, Any]:
    """What one run wrote. Raises OSError, ValueError, and KeyError for what is from another command."""
    found: dict[str, Any] = json.loads(path.read_text())
    return {name: found[name] for name in ("server", "cluster", "curl", "ready", "relist", "quiet", "changing")}


def table(found: list[dict[str, Any]]) -> str:
    rows = [HEADS, ("---",) * len(HEADS), *map(row, found)]
    return "\n".join(f"| {' | '.join(one)} |" for one in rows)


def row(one: dict[str, Any]) -> tuple[str, ...]:
    ready, again, changes = one["ready"], one["relist"], one["changing"]["changes"]
    return (
        one["server"],
        f"{one['cluster']['pods']:,}",
        f"{one['curl']['seconds']:.2f} s",
        f"{ready['seconds']:.2f} s",
        f"{ready['cpu_s'] / one['cluster']['pods'] * 1e6:.1f} us",
        f"{ready['rss_mb']:,.0f} MB",
        f"{again['peak_before_mb']:,.0f}, {again['peak_mb']:,.0f} MB",
        f"{milliseconds(one['quiet']['latency_s'])}, {milliseconds(one['changing']['latency_s'])}",
        f"{milliseconds(changes['endpointslices_s'])} endpoints, {milliseconds(changes['pods_s'])} pods",
    )


def milliseconds(latency: dict[str, float]) -> str:
    return f"{latency['p99'] * 1e3:.1f} ms"


def picture(found: list[dict[str, Any]]) -> str:
    """SVG: the most memory that each server took, by the number of pods."""
    names = sorted({one["server"] for one in found})
    drawn = [
        Line(name, f"s{at}", [(one["cluster"]["pods"], one["relist"]["peak_mb"]) for one in found if one["server"] == name]) for at, name in enumerate(names)
    ]
    return plots.picture(lines(drawn, "pods", "peak of memory, MB"), names)
