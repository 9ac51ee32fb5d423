"""``fastdns-bench sizes``: runs of ``fastdns-bench pods`` side by side, as a table in Markdown and a picture of memory over size."""

from __future__ import annotations

import argparse
import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from fastdns.bench.report.plots import HEIGHT, LEFT, TOP, Line, lines

#: Of the lines, in the order of the servers' names.
COLOURS = ("#2563a8", "#b4531f", "#2f7d4f", "#7a4a9c")
STYLE = "svg { font: 12px sans-serif; background: #fff } text { fill: #444 } polyline { fill: none; stroke-width: 2 } "
STYLE += ".grid { stroke: #ddd } .axis { stroke: #888 } "
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
    """SVG with a style of its own: the most memory that each server took, by the number of pods."""
    names = sorted({one["server"] for one in found})
    drawn, rules, key = [], STYLE, ""
    for at, name in enumerate(names):
        colour = COLOURS[at % len(COLOURS)]
        drawn.append(Line(name, f"s{at}", [(one["cluster"]["pods"], one["relist"]["peak_mb"]) for one in found if one["server"] == name]))
        rules += f".s{at} {{ stroke: {colour} }} circle.s{at}, text.s{at} {{ fill: {colour}; stroke: none }} "
        key += f'<text class="s{at}" x="{LEFT + 12}" y="{TOP + 14 + 16 * at}">{escape(name)}</text>'
    plot = lines(drawn, "pods", "peak of memory, MB")
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="560" height="{HEIGHT}"'
    return plot.replace("<svg", opening, 1).replace(">", f"><style>{rules}</style>", 1).replace("</svg>", f"{key}</svg>")
