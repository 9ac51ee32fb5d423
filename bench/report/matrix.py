"""Costs as a table in Markdown: a row for each transport or other work, a column for each shape of the load, in a cell the servers side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Run = dict[str, Any]

#: A server that was not measured beside one that was.
ABSENT = "-"
#: Clients differ in whether the latency on a new connection has the handshake in it.
COMPARABLE = ("one", "many")


def matrix(runs: Sequence[Run]) -> list[str]:
    """Lines: CPU for an answer, then the 99th percentile of latencies; none where no run has a shape."""
    shaped = [run for run in runs if run.get("shape")]
    if not shaped:
        return []
    lines = ["", f"CPU in us for an answer, {' / '.join(servers(shaped))}:", "", *markdown(shaped, lambda run: run["cpu_us_per_answer"])]
    timed = [run for run in shaped if run["shape"] in COMPARABLE and run["latency_s"]["max"]]
    if timed:
        lines += ["", f"99th percentile of latencies in us, {' / '.join(servers(timed))}:", "", *markdown(timed, lambda run: run["latency_s"]["p99"] * 1e6)]
    return lines


def markdown(runs: Sequence[Run], value: Callable[[Run], float]) -> list[str]:
    shapes: dict[str, str] = {run["shape"]: heading(run) for run in runs}
    lines = [row(["", *shapes.values()]), row(["---"] * (1 + len(shapes)))]
    for group in groups(runs):
        label = group[0]["row"]
        if stands_alone(group[0]):
            label = f"{group[0]['server']}, {label}"
        found = {(run["server"], run["shape"]): number(value(run)) for run in group}
        names = servers(group) if stands_alone(group[0]) else servers(runs)
        lines.append(row([label, *(cell([found.get((name, shape), ABSENT) for name in names]) for shape in shapes)]))
    return lines


def cell(numbers: Sequence[str]) -> str:
    """Of all servers, or nothing where none was measured."""
    return " / ".join(numbers) if set(numbers) != {ABSENT} else ""


def groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs of each row, those of references apart and last."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run["row"], run["server"] if stands_alone(run) else ""), []).append(run)
    return sorted(found.values(), key=lambda group: stands_alone(group[0]))


def stands_alone(run: Run) -> bool:
    """A reference is the floor of its row, not one of the servers that are compared."""
    return bool(run["reference"] and run["server"] != run["baseline"])


def servers(runs: Iterable[Run]) -> list[str]:
    return list(dict.fromkeys(run["server"] for run in runs if not stands_alone(run))) or list(dict.fromkeys(run["server"] for run in runs))


def heading(run: Run) -> str:
    plan = run["result"]["plan"]
    if plan["new_connection"]:
        return "a new connection for each query"
    if plan["window"] == 1:
        return "one query at a time"
    return f"{plan['window']} queries under way on {plan['clients']} connections"


def number(value: float) -> str:
    """Two digits or all before the point."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
