"""The table at the end of a run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from fastdns.bench.report.matrix import matrix

HEADINGS = ("server", "rate", "answers/s", "CPU us", "spread", "ratio", "p50 us", "p99 us", "p99.9 us", "lost", "wrong", "MB", "peak", "ready s")


def table(document: dict[str, Any]) -> str:
    """What was measured, for a terminal."""
    runs = document["runs"]
    machine = document["machine"]
    lines = [title(document), f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, noise of the machine {machine['noise']:.1%}"]
    lines += [text for text in (void(document),) if text]
    lines += document["notes"]
    lines += ["", *columns([HEADINGS, *map(cells, runs)])]
    lines += [line for line in (*map(changes, runs), *map(losses, runs)) if line]
    lines += skipped(document)
    baseline = runs[0]["baseline"]
    if baseline:
        noises = [run["noise"] for run in runs if run.get("noise") is not None]
        spread = f"; its own rounds differ by up to {max(noises):.1%}" if noises else ""
        lines.append(f"ratio: CPU for an answer to that of the {baseline} of this run at the same rate{spread}")
    return "\n".join([*lines, *matrix(runs)]) + "\n"


def void(document: dict[str, Any]) -> str:
    """Why the figures say nothing about the servers; empty where they do, and where no bound was set."""
    noise = max([document["machine"]["noise"], *(run["noise"] for run in document["runs"] if run.get("noise") is not None)])
    bound = document.get("max_noise")
    return f"void: noise {noise * 100:.0f} %, at most {bound * 100:g} % are allowed" if bound is not None and noise > bound else ""


def skipped(document: dict[str, Any]) -> list[str]:
    """Who could not take part in what, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in document["skipped"]:
        found.setdefault((each["subject"], each["why"]), []).append(each["variant"])
    return [f"skipped: {' '.join(filter(None, (subject, ', '.join(variants))))}: {why}" for (subject, why), variants in found.items()]


def title(document: dict[str, Any]) -> str:
    runs = document["runs"]
    works, workloads = ("; ".join(dict.fromkeys(run[what] for run in runs)) for what in ("work", "workload"))
    return f"{runs[-1]['scenario']}: {works}, {workloads} over {', '.join(dict.fromkeys(run['transport'] for run in runs))}"


def cells(run: dict[str, Any]) -> tuple[str, ...]:
    result, latency = run["result"], run["latency_s"]
    return (
        run["subject"],
        rate_text(run["rate"]),
        f"{run['answers_per_s']:,.0f}",
        f"{run['cpu_us_per_answer']:.2f}",
        spread(run["rounds"]),
        ratio_text(run),
        *(f"{latency[key] * 1e6:,.0f}" if latency["max"] else "" for key in ("p50", "p99", "p999")),
        str(result["lost"] + result["unsent"]),
        str(sum(result["wrong"].values())),
        f"{run['rss_mb']:.0f}",
        f"{run['rss_peak_mb']:.0f}",
        f"{run['ready_s']:.2f}",
    )


def spread(rounds: Sequence[dict[str, float]]) -> str:
    """How far the CPU for an answer of a server's rounds lies apart, as a share of the median; empty for a single round."""
    costs = [each["cpu_us_per_answer"] for each in rounds]
    middle = statistics.median(costs)
    return f"{(max(costs) - min(costs)) / middle:.1%}" if len(costs) > 1 and middle else ""


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate else "max"


def ratio(run: dict[str, Any]) -> float | None:
    """CPU for an answer as a multiple of the baseline's."""
    found: float | None = run.get(f"ratio_to_{run['baseline']}")
    return found


def ratio_text(run: dict[str, Any]) -> str:
    found = ratio(run)
    return "" if found is None else f"{found:.2f}"


def changes(run: dict[str, Any]) -> str:
    """How soon changes were answered; empty where nothing was changed."""
    times = run.get("propagation_s")
    if times is None:
        return ""
    if not times:
        return f"{run['subject']}: {run['changes']} changes, none seen before the load ended"
    seen = f"{times[len(times) // 2] * 1e3:,.1f} ms (median), {times[-1] * 1e3:,.1f} ms at most"
    return f"{run['subject']}: {run['changes']} changes, answered after {seen}"


def losses(run: dict[str, Any]) -> str:
    """Where queries were lost as far as the kernel tells; empty where it does not."""
    overrun, dropped = run["overrun"], run["result"]["dropped"]
    notes = [f"{overrun:,} queries found its queue full"] if overrun else []
    notes += [f"{dropped:,} replies found the generator's queues full"] if dropped else []
    return f"{run['subject']} at {rate_text(run['rate'])}: {', '.join(notes)}" if notes else ""


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
