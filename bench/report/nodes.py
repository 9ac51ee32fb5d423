"""``fastdns-bench nodes-report``: what ``fastdns-bench nodes`` has found, as a table in Markdown and as pictures."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdns.bench.report import plots
from fastdns.bench.report.plots import Line, lines

KINDS = {"new": "a new Service", "changed": "a changed endpoint of a headless Service", "deleted": "a deleted Service"}
OUTAGES = {
    "centre": "the cluster's DNS is away",
    "api": "the API server is away",
    "both": "both are away",
    "restart": "both are away, and the node's server starts again",
}
UNMEASURED = "not measured"

Found = dict[str, Any]


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("nodes-report", help="what `nodes` has found for one or several sizes, as a table and pictures")
    parser.add_argument("file", nargs="+", type=Path, help="what `nodes --json` wrote; the table is of the first one")
    parser.add_argument("--staleness", type=Path, metavar="FILE", help="write the share of old answers over the time since a change as a picture (SVG)")
    parser.add_argument("--kind", choices=KINDS, default="changed", help="of changes in that picture (%(default)s)")
    parser.add_argument("--memory", type=Path, metavar="FILE", help="write memory over the number of endpoints as a picture (SVG)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    try:
        found = [read(path) for path in given.file]
        print(table(found[0]))
        if given.staleness is not None:
            given.staleness.write_text(staleness(found[0], given.kind) + "\n")
        if given.memory is not None:
            given.memory.write_text(memory(found) + "\n")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"fastdns-bench: {error!r}", file=sys.stderr)
        return 1
    return 0


def read(path: Path) -> Found:
    """What one run wrote. Raises OSError, ValueError, and KeyError for what is from another command."""
    found: Found = json.loads(path.read_text())
    return {**{name: found[name] for name in ("cluster", "conditions", "ways", "api")}, "outages": found.get("outages", {})}


# ---- the table: a column for each way ----


def table(found: Found) -> str:
    ways = found["ways"]
    rows = [["", *(way["title"] for way in ways.values())], ["---"] * (len(ways) + 1), *body(found)]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def body(found: Found) -> Iterator[list[str]]:
    ways, conditions = found["ways"], found["conditions"]
    yield ["network hops of an answer", *(way["hops"] for way in ways.values())]
    for kind, text in KINDS.items():
        yield [f"old answers after {text}: median, p99, longest", *(old(way, kind) for way in ways.values())]
    yield ["CPU of an answer on the node", *(cpu(way) for way in ways.values())]
    yield ["memory on the node", *(f"{way['rss_mb']:.0f} MB" for way in ways.values())]
    loads = [found["api"].get(way["title"], {"watches": 0, "octets": 0, "octets_per_change": 0}) for way in ways.values()]
    yield ["watches that a node has on the API server", *(f"{load['watches']:.0f}" for load in loads)]
    yield ["read from the API server by a node that starts", *(f"{load['octets'] / 1e6:.1f} MB" if load["octets"] else "0" for load in loads)]
    yield ["and for each change", *(f"{load['octets_per_change']:.0f} octets" if load.get("octets_per_change") else "0" for load in loads)]
    for outage, text in OUTAGES.items():
        yield [f"{text}: names answered after 1 s, {conditions['later']:.0f} s", *(left(found["outages"].get(outage, {}).get(name)) for name in ways)]


def old(way: Found, kind: str) -> str:
    if "staleness" not in way:
        return UNMEASURED
    one = way["staleness"][kind]
    values = one["s"]
    if not values:
        return "never answered"
    text = ", ".join(seconds(value) for value in (statistics.median(values), p99(values), values[-1]))
    return text + f"; {one['missing']} not answered" * bool(one["missing"])


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.0f} ms"


def p99(values: list[float]) -> float:
    """Of sorted values the least that 99 % of them do not exceed."""
    return values[-(-99 * len(values) // 100) - 1]


def cpu(way: Found) -> str:
    return f"{statistics.median(way['cpu_us']):.1f} us" if way.get("cpu_us") else UNMEASURED


def left(one: Found | None) -> str:
    """Of names that were asked for right before, and of others."""
    if one is None:
        return UNMEASURED
    asked, others = ([share(one[when][which]) for when in ("soon", "later")] for which in ("asked", "others"))
    return ", ".join(asked) if asked == others else f"{', '.join(asked)}; names not asked for before {', '.join(others)}"


def share(value: float) -> str:
    """Rounded down: 100 % is all."""
    return f"{int(value * 1000) / 10:g} %"


# ---- pictures ----


def staleness(found: Found, kind: str) -> str:
    """SVG: of all names that have changed, the share whose old answer a node still gives, over the time since the change."""
    ways = [way for way in found["ways"].values() if "staleness" in way]
    every = [value for way in ways for value in way["staleness"][kind]["s"]]
    drawn = [Line(way["title"], f"s{at}", steps(way["staleness"][kind], min(every) * 0.8, max(every) * 1.2)) for at, way in enumerate(ways)]
    plot = lines(drawn, f"seconds since the change: {KINDS[kind]}", "old answers, %", log_across=True)
    return plots.picture(plot, [line.label for line in drawn], below=True)


def steps(one: Found, first: float, last: float) -> list[tuple[float, float]]:
    """From `first` to `last` seconds."""
    count = len(one["s"]) + one["missing"]
    points = [(first, 100.0)]
    for number, value in enumerate(one["s"]):
        points += [(value, 100 * (1 - number / count)), (value, 100 * (1 - (number + 1) / count))]
    return [*points, (last, points[-1][1])]


def memory(found: list[Found]) -> str:
    """SVG: memory on a node, by the number of endpoints."""
    names = list(found[0]["ways"])
    drawn = []
    for at, name in enumerate(names):
        points = sorted((one["cluster"]["endpoints"], one["ways"][name]["rss_mb"]) for one in found if name in one["ways"])
        drawn.append(Line(found[0]["ways"][name]["title"], f"s{at}", points))
    return plots.picture(lines(drawn, "endpoints", "memory on a node, MB"), [line.label for line in drawn], below=True)
