"""A page of one run or of several over time: tables and pictures in one HTML file that loads nothing else."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from html import escape
from typing import Any

from fastdns.bench.report import plots
from fastdns.bench.report.plots import Line
from fastdns.bench.report.table import HEADINGS, cells, changes, losses, rate_text, ratio, skipped, title, void

Document = dict[str, Any]

#: Colours that are told apart with defective colour vision, too, on light and dark ground; floors are grey.
COLOURS = (
    ("0072b2", "56b4e9"),
    ("d55e00", "f08a3c"),
    ("009e73", "2fc79b"),
    ("b0588e", "dd8fbf"),
    ("8a6d00", "e6c229"),
    ("5b4bb5", "a79bf0"),
    ("333333", "dddddd"),
)
FLOORS = {"floor", "relay", "nghttpd"}
#: That lines and bars of one server are told apart by.
VARIANTS = 4

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --soft: #667; --rule: #dde1e6; --grey: #8a9099; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --text: #e8eaed; --soft: #9aa3ad; --rule: #2c3238; --grey: #7b838c; DARK } }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1.5em; }
h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.15em; margin: 2.2em 0 0.2em; } h3 { font-size: 0.95em; margin: 0 0 0.4em; }
p { margin: 0.3em 0; } .soft { color: var(--soft); } code { font-size: 0.9em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.8em 0; }
th, td { padding: 0.2em 0.7em; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { font-weight: 600; color: var(--soft); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1.6em 2em; margin-top: 1em; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
.key { display: flex; flex-wrap: wrap; gap: 0.2em 1.2em; margin: 0.6em 0; padding: 0; list-style: none; font-size: 0.9em; }
.key span { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em; }
svg text { fill: var(--soft); font-size: 12px; paint-order: stroke; stroke: var(--ground); stroke-width: 3px; } svg .label { fill: var(--text); }
svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); } svg .reference { stroke: var(--text); stroke-dasharray: 3 3; }
svg polyline { fill: none; stroke-width: 2; } polyline.v1 { stroke-dasharray: 7 4; } polyline.v2 { stroke-dasharray: 2 4; }
polyline.v3 { stroke-dasharray: 9 3 2 3; } rect.v1, .key .v1 { opacity: 0.6; } rect.v2, .key .v2 { opacity: 0.4; } rect.v3, .key .v3 { opacity: 0.25; }
 .wrong { color: #c62828; font-weight: 600; }
"""

COLOURED = """polyline.NAME, circle.NAME { stroke: var(--NAME); }
rect.NAME, circle.NAME, .key .NAME { fill: var(--NAME); background: var(--NAME); }
"""


def page(documents: Sequence[Document]) -> str:
    """The whole page, the newest run first. Documents are in the order of their time."""
    colours = colours_of(documents)
    heading = f"fastdns-bench: {documents[-1]['runs'][-1]['scenario']}"
    body = [f"<h1>{escape(heading)}</h1>"]
    if len(documents) > 1:
        body.append(over_time(documents, colours))
    body += [one(document, colours) for document in reversed(documents)]
    names = ["grey", *(f"c{i}" for i in range(len(COLOURS)))]
    style = STYLE + "".join(COLOURED.replace("NAME", name) for name in names)
    for i, mode in enumerate(("LIGHT", "DARK")):
        style = style.replace(mode, " ".join(f"--c{n}: #{pair[i]};" for n, pair in enumerate(COLOURS)))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(heading)}</title>
<style>{style}</style></head>
<body>{"".join(body)}</body></html>
"""


def colours_of(documents: Sequence[Document]) -> dict[str, str]:
    """Subject -> classes of its colour, which is its server's, and of its variant, the same in all pictures."""
    subjects = dict.fromkeys(run["subject"] for document in documents for run in document["runs"])
    named = [name for name in dict.fromkeys(map(server_of, subjects)) if name not in FLOORS]
    servers = {name: f"c{i % len(COLOURS)}" for i, name in enumerate(named)}
    found: dict[str, str] = {}
    for subject in subjects:
        before = sum(server_of(each) == server_of(subject) for each in found)
        found[subject] = f"{servers.get(server_of(subject), 'grey')} v{min(before, VARIANTS - 1)}"
    return found


def server_of(subject: str) -> str:
    return subject.split()[0]


def one(document: Document, colours: dict[str, str]) -> str:
    """A run: what was done, its table, its pictures."""
    machine, runs = document["machine"], document["runs"]
    about = f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['memory_mb'] / 1024:.0f} GB, Linux {machine['kernel']}, Python {machine['python']}"
    pinned = f"server on CPU {listed(machine['server_cpus'])}, load on CPU {listed(machine['load_cpus'])}, noise of the machine {machine['noise']:.1%}"
    parts = [f"<h2>{escape(title(document))}</h2>", f'<p class="soft">{escape(document["made"])} · {escape(about)} · {escape(pinned)}</p>']
    if noisy := void(document):
        parts.append(f'<p class="wrong">{escape(noisy)}</p>')
    parts += [f"<p>{escape(note)}</p>" for note in document["notes"]]
    parts.append(f"<p><code>{escape(document['command'])}</code></p>")
    parts.append(html_table(runs))
    parts += [f"<p>{escape(line)}</p>" for line in (*map(changes, runs), *map(losses, runs)) if line]
    parts += [f'<p class="soft">{escape(line)}</p>' for line in skipped(document)]
    subjects = list(dict.fromkeys(run["subject"] for run in runs))
    parts.append(key(subjects, colours))
    pictures = [*latencies(runs, colours), *curves(runs, colours), *costs(runs, colours), memory(runs, colours), propagation(runs, colours)]
    drawn = (f"<figure><h3>{escape(heading)}</h3>{picture}</figure>" for heading, picture in pictures if picture)
    return "".join(parts) + f'<div class="pictures">{"".join(drawn)}</div>'


def html_table(runs: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(run)) + "</tr>" for run in runs)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def key(subjects: Sequence[str], colours: dict[str, str]) -> str:
    items = "".join(f'<li><span class="{colours[subject]}"></span>{escape(subject)}</li>' for subject in subjects)
    return f'<ul class="key">{items}</ul>'


def listed(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))


# ---- pictures ----


def by_subject(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault(run["subject"], []).append(run)
    return found


def latencies(runs: Sequence[dict[str, Any]], colours: dict[str, str]) -> list[tuple[str, str]]:
    """Latency over load, for the median and the 99th percentile; of a single load, the percentile alone."""
    pictures = []
    if len({run["rate"] for run in runs}) < 2:
        drawn_bars = [(run["subject"], colours[run["subject"]], (late := run["latency_s"]["p99"] * 1e6), f"{late:,.0f} us") for run in runs]
        return [("Latency, 99th percentile", plots.bars(drawn_bars))]
    for heading, percentile in (("Latency over load, median", "p50"), ("Latency over load, 99th percentile", "p99")):
        drawn = [
            Line(subject, colours[subject], sorted((run["answers_per_s"], run["latency_s"][percentile] * 1e6) for run in theirs))
            for subject, theirs in by_subject(runs).items()
        ]
        pictures.append((heading, plots.lines(drawn, "answers per second", "microseconds", log=True)))
    return pictures


def curves(runs: Sequence[dict[str, Any]], colours: dict[str, str]) -> list[tuple[str, str]]:
    """Latency by percentile at each rate. The axis counts one in how many queries waits longer, so that the tail has as much room as the rest."""
    pictures = []
    for rate in dict.fromkeys(run["rate"] for run in runs):
        drawn = []
        for run in runs:
            points = [(100 / (100 - p), seconds * 1e6) for p, seconds in run.get("curve", ()) if p < 100 and seconds > 0]
            if run["rate"] == rate and points:
                drawn.append(Line(run["subject"], colours[run["subject"]], points))
        if drawn:
            picture = plots.lines(drawn, "one query in so many waits longer", "microseconds", log=True)
            pictures.append((f"Latency by percentile at {rate_text(rate)} queries per second" if rate else "Latency by percentile, saturated", picture))
    return pictures


def costs(runs: Sequence[dict[str, Any]], colours: dict[str, str]) -> list[tuple[str, str]]:
    """CPU for an answer at each rate that all were asked at; the line is the floor."""
    pictures = []
    rates = list(dict.fromkeys(run["rate"] for run in runs))
    for rate in rates:
        there = [run for run in runs if run["rate"] == rate]
        if len(there) < 2 and len(rates) > 1:
            continue
        floor = next((run["cpu_us_per_answer"] for run in there if run["subject"] == run["baseline"]), None)
        drawn = []
        for run in there:
            beside = ratio(run)
            text = f"{run['cpu_us_per_answer']:.2f} us" + ("" if beside is None else f", {beside:.2f} x")
            drawn.append((run["subject"], colours[run["subject"]], run["cpu_us_per_answer"], text))
        heading = f"CPU for an answer at {rate_text(rate)} queries per second" if rate else "CPU for an answer, saturated"
        pictures.append((heading, plots.bars(drawn, floor)))
    return pictures


def memory(runs: Sequence[dict[str, Any]], colours: dict[str, str]) -> tuple[str, str]:
    """Memory while the loads ran, one after the other."""
    drawn = []
    for subject, theirs in by_subject(runs).items():
        points, since = [], 0.0
        for run in theirs:
            points += [(since + second, megabytes) for second, megabytes in run["memory"]]
            since = points[-1][0] if points else 0.0
        drawn.append(Line(subject, colours[subject], points))
    return "Memory over time, all loads in turn", plots.lines(drawn, "seconds", "MB")


def propagation(runs: Sequence[dict[str, Any]], colours: dict[str, str]) -> tuple[str, str]:
    """What share of changes was answered after how long."""
    drawn = []
    for subject, theirs in by_subject(runs).items():
        times = sorted(seconds for run in theirs for seconds in run.get("propagation_s", ()))
        drawn.append(Line(subject, colours[subject], [(seconds * 1e3, 100 * (i + 1) / len(times)) for i, seconds in enumerate(times)]))
    return "Changes answered within so long", plots.lines([line for line in drawn if line.points], "milliseconds", "percent of changes")


def over_time(documents: Sequence[Document], colours: dict[str, str]) -> str:
    """How the cost beside the floor (or the cost itself) went from run to run, for each scenario and rate."""
    groups: dict[tuple[str, float, bool], dict[str, list[tuple[float, float]]]] = {}
    for document in documents:
        days = datetime.datetime.fromisoformat(document["made"]).timestamp()
        for run in document["runs"]:
            beside = ratio(run)
            value = run["cpu_us_per_answer"] if beside is None else beside
            groups.setdefault((run["scenario"], run["rate"], beside is None), {}).setdefault(run["subject"], []).append((days, value))
    first = min(datetime.datetime.fromisoformat(document["made"]).timestamp() for document in documents)
    figures = []
    for (scenario, rate, absolute), subjects in groups.items():
        drawn = [Line(subject, colours[subject], [(at - first, value) for at, value in points]) for subject, points in subjects.items()]
        unit = "microseconds" if absolute else "times the floor"
        picture = plots.lines(drawn, "time of the run", unit, x_mark=lambda seconds: moment(first + seconds))
        figures.append(f"<figure><h3>{escape(f'{scenario} at {rate_text(rate)}: CPU for an answer')}</h3>{picture}</figure>")
    return f'<h2>{len(documents)} runs over time</h2>{key(list(colours), colours)}<div class="pictures">{"".join(figures)}</div>'


def moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%d %b %H:%M")
