"""What the page of `fastdns top` shows: a view of the last reports as tables of rich."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fastdns.top.servers import Servers
from fastdns.top.state import VIEWS, State
from fastdns.top.texts import age, bar, clock, key, octets, percent, plain, rate, seconds, spark

__all__ = ["screen"]

STYLES = {"NOERROR": "green", "NXDOMAIN": "yellow", "SERVFAIL": "bold red", "REFUSED": "magenta"}
HELP = "1-7 view   up/down row   enter open   esc back   tab table   w window   space pause   q quit"


def screen(servers: Servers, state: State, height: int) -> RenderableType:
    """The whole page, in this many lines."""
    body = {
        "overview": overview,
        "zones": zones,
        "upstreams": upstreams,
        "who asks": clients,
        "queries": queries,
        "events": events,
        "servers": machines,
    }[VIEWS[state.view]](servers, state)
    return Group(head(servers, state), Text(""), body, Text(""), Text(HELP, "bright_black"))


def head(servers: Servers, state: State) -> RenderableType:
    """Who answers, and the names of the views."""
    one = [report["server"] for report in servers.answered if "server" in report]
    silent = len(servers.sources) - len(one)
    title = Text("fastdns top", "bold").append("  ")
    if len(one) == 1:
        title.append_text(plain(f"{one[0]['host']}  {one[0]['version']}  up {age(one[0]['uptime'])}"))
    else:
        title.append(f"{len(one)} servers")
    if silent:
        title.append(f"  {silent} without an answer", "bold red")
    if state.paused:
        title.append("  paused", "bold yellow")
    tabs = Text("")
    for number, name in enumerate(VIEWS):
        tabs.append(f" {number + 1} {name} ", "reverse" if number == state.view else "").append(" ")
    return Group(title, tabs)


def grid(titles: Sequence[str], rows: Iterable[Sequence[Any]], state: State | None = None, right: Sequence[int] = ()) -> Table:
    """A table; with a state its chosen row is marked, and the rows around it are shown."""
    found = Table(box=None, pad_edge=False, header_style="bright_black", expand=False, show_header=any(titles))
    for number, title in enumerate(titles):
        found.add_column(title, justify="right" if number in right else "left", no_wrap=number in right, overflow="fold")
    rows = list(rows)
    first = 0
    if state is not None:
        state.rows = len(rows)
        state.row = min(state.row, max(0, len(rows) - 1))
        first = max(0, state.row - state.page + 1)
        rows = rows[first : first + state.page]
    for number, row in enumerate(rows):
        found.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row), style="reverse" if state and first + number == state.row else "")
    return found


def overview(servers: Servers, state: State) -> RenderableType:
    """Rates, latencies, the cache and bounds."""
    rates = servers.rates
    if rates is None:
        return Text("reading") if servers.answered else Group(*map(plain, servers.reports))
    failed = rates["rcodes"].get("SERVFAIL", 0) / rates["queries"] if rates["queries"] else None
    figures = grid(
        ["", "", ""],
        [
            ("queries a second", rate(rates["queries"]), spark(state.queries)),
            ("latency p50", seconds(rates["latency"]["p50"]), ""),
            ("latency p99", seconds(rates["latency"]["p99"]), spark(state.latencies)),
            ("SERVFAIL", Text(percent(failed), "bold red" if failed and failed > 0.01 else ""), ""),
            ("cache hits", percent(rates["cache"]["hit_share"]), ""),
            ("cache entries", f"{rates['cache']['entries']:.0f}", ""),
        ],
        right=[1],
    )
    parts: list[RenderableType] = [
        Panel(figures, title="now"),
        Panel(shares(rates["rcodes"]), title="rcodes"),
        Panel(histogram(rates["latency"]), title="latency"),
    ]
    parts.append(Panel(bounds(servers), title="bounds"))
    if not any(report["rates"]["counted"] for report in servers.answered if "rates" in report):
        parts.insert(0, Text("No server block counts its queries: that needs the plugin prometheus or console."))
    for title, draw in (("slo", objectives), ("canary", canaries), ("shadow", shadows)):
        sections = list(servers.by_source(title).values())
        if sections:
            parts.append(Panel(draw(sections), title=title))
    return Columns(parts)


def shares(counts: Mapping[str, float]) -> Table:
    """Counts by rcode or the like."""
    found = sorted(((name, value) for name, value in counts.items() if value), key=lambda item: -item[1])[:8]
    return grid(["", "a second", ""], [(plain(name), rate(value), bar(value, found[0][1], 14, STYLES.get(name, "cyan"))) for name, value in found], right=[1])


def histogram(latency: Mapping[str, Any]) -> Table:
    """Latencies by bucket, the empty ones at both ends left out."""
    counts, limits = latency["counts"], [f"to {seconds(bound)}" for bound in latency["bounds"]] + ["above"]
    used = [number for number, count in enumerate(counts) if count]
    if not used:
        return grid([""], [("no queries",)])
    chosen = range(used[0], used[-1] + 1)
    most = max(counts)
    return grid(["", "", ""], [(limits[number], percent(counts[number] / sum(counts)), bar(counts[number], most, 14)) for number in chosen], right=[0, 1])


def bounds(servers: Servers) -> Table:
    """What is used of each bound, by the server that uses most of it."""
    worst: dict[str, Mapping[str, Any]] = {}
    for report in servers.answered:
        for bound in report.get("server", {}).get("bounds", ()):
            standing = worst.get(bound["name"])
            if standing is None or bound["used"] > standing["used"]:
                worst[bound["name"]] = bound
    rows = []
    for name, bound in worst.items():
        text: Callable[[float], str] = octets if bound["unit"] == "octets" else lambda value: f"{value:,.0f}"
        rows.append((name, text(bound["used"]), text(bound["most"]) if bound["most"] else "–", bar(bound["used"], bound["most"], 10) if bound["most"] else ""))
    return grid(["", "used", "at most", ""], rows, right=[1, 2])


def objectives(sections: Sequence[Mapping[str, Any]]) -> Table:
    """What *slo* has counted since the start, on all servers; the share is red where the objective is missed."""
    found: dict[tuple[Any, ...], Counter[str]] = {}
    for row in (row for section in sections for row in section["objectives"]):
        key = (row["zone"], row["view"], row["server"], row["share"], row["seconds"])
        found.setdefault(key, Counter()).update({result: row[result] for result in ("within", "late", "failed")})
    rows = []
    for (zone, view, server, share, limit), counts in found.items():
        within = counts["within"] / counts.total() if counts.total() else None
        missed = within is not None and within < share
        figures = Text("–" if within is None else f"{within * 100:.2f} %", "bold red" if missed else ""), f"{counts['late']:,.0f}", f"{counts['failed']:,.0f}"
        rows.append((f"{zone} {view}".strip(), server, f"{share * 100:g} % in {seconds(limit)}", *figures))
    return grid(["zone", "server", "objective", "within", "late", "failed"], rows, right=[3, 4, 5])


def canaries(sections: Sequence[Mapping[str, Any]]) -> Table:
    """The canary of each server that has one, and what both configurations have answered."""
    rows = []
    for section in sections:
        rows += [("clients", percent(section["share"])), ("left", age(section["left"])), ("fails if", section["conditions"] or "told so")]
        rows += [(name, "  ".join(f"{rcode} {count:,}" for rcode, count in counts.items()) or "no answers") for name, counts in section["replies"].items()]
    return grid(["", ""], rows)


def shadows(sections: Sequence[Mapping[str, Any]]) -> Table:
    """The servers that *shadow* asks, and how many answers differ."""
    rows = []
    for target in (target for section in sections for target in section["targets"]):
        differences = sum(target["differences"].values())
        rows.append((target["servers"][1], target["state"], f"{target['questions']:,}", Text(f"{differences:,}", "bold red" if differences else "")))
    return grid(["server", "state", "questions", "differences"], rows, right=[2, 3])


def zones(servers: Servers, state: State) -> RenderableType:
    """Zones with most queries first; one that is open has its rcodes and latencies."""
    rows = servers.rates["zones"] if servers.rates else []
    if state.opened and state.row < len(rows):
        row = rows[state.row]
        return detail(row, servers.rates["latency"]["bounds"], f"{row['zone']} {row['server']}")  # type: ignore[index]
    return grid(
        ["zone", "server", "q/s", "SERVFAIL", "NXDOMAIN", "p50", "p99"],
        [
            (
                f"{row['zone']} {row['view']}".strip(),
                row["server"],
                rate(row["queries"]),
                rate(row["rcodes"].get("SERVFAIL", 0)),
                rate(row["rcodes"].get("NXDOMAIN", 0)),
                seconds(row["p50"]),
                seconds(row["p99"]),
            )
            for row in rows
        ],
        state,
        range(2, 7),
    )


def upstreams(servers: Servers, state: State) -> RenderableType:
    """Upstreams; one that is open has its rcodes and latencies."""
    rows = servers.rates["upstreams"] if servers.rates else []
    if state.opened and state.row < len(rows):
        return detail(rows[state.row], servers.rates["upstream_bounds"], rows[state.row]["to"])  # type: ignore[index]
    return grid(
        ["upstream", "plugin", "q/s", "SERVFAIL", "p50", "p99", "failed checks"],
        [
            (
                row["to"],
                row["plugin"],
                rate(row["queries"]),
                rate(row["rcodes"].get("SERVFAIL", 0)),
                seconds(row["p50"]),
                seconds(row["p99"]),
                str(row["check_failures"]),
            )
            for row in rows
        ],
        state,
        range(2, 7),
    )


def detail(row: Mapping[str, Any], bounds: Sequence[float], title: str) -> RenderableType:
    """A zone or an upstream that is open."""
    parts = [Panel(shares(row["rcodes"]), title="rcodes"), Panel(histogram({"counts": row["counts"], "bounds": bounds}), title="latency")]
    return Group(plain(title, "bold"), Columns(parts))


def clients(servers: Servers, state: State) -> RenderableType:
    """A table of *top*."""
    top = servers.merged("top")
    if top is None:
        return Text("Nobody counts: the Corefile has no top.")
    names = list(top["tables"])
    state.tables = len(names)
    state.table %= max(1, len(names))
    name = names[state.table]
    table = top["tables"][name]
    state.keys = [row["key"] for row in table["rows"]]
    # Of slow names the counts are microseconds.
    text: Callable[[float], str] = (lambda value: seconds(value / 1e6)) if name == "slow_upstream_names" else lambda value: f"{value:,.0f}"
    total = f"{state.window_name}, {text(table['total'])} in all, error at most {text(table['error'])}"
    title = plain(f"{name.replace('_', ' ')}  ", "bold").append(total, "bright_black")
    most = table["rows"][0]["count"] if table["rows"] else 1
    rows = [(key(row["key"]), text(row["count"]), f"± {text(row['error'])}" if row["error"] else "", bar(row["count"], most)) for row in table["rows"]]
    return Group(title, grid(["", "count", "", ""], rows, state, [1, 2]))


def queries(servers: Servers, state: State) -> RenderableType:
    """What *recorder* holds of what was chosen; one that is open has its way."""
    recorder = servers.merged("recorder")
    if recorder is None:
        return Text("Nothing is recorded: the Corefile has no recorder.")
    rows = recorder["queries"][::-1]
    if state.opened and state.row < len(rows):
        row = rows[state.row]
        return Panel(Group(*(plain(f"{name:<10} {value}") for name, value in row.items() if value not in ("", None, []))), title=plain(row["name"]))
    found = []
    for row in rows:
        rcode = plain(row["rcode"], STYLES.get(row["rcode"], ""))
        found.append((clock(row["time"]), row["name"], row["type"], rcode, seconds(row["took"]), row["client"], row.get("upstream") or ""))
    chosen = plain("  ".join(f"{name} {value}" for name, value in state.filter.items()), "bright_black")
    return Group(chosen, grid(["time", "name", "type", "rcode", "took", "client", "upstream"], found, state, [4]))


def events(servers: Servers, state: State) -> RenderableType:
    """The newest first."""
    rows = (servers.merged("events") or {"events": []})["events"][::-1]
    return grid(["time", "what", "of", "cause"], [(clock(row["time"]), row["kind"].replace("_", " "), row["subject"], row["cause"]) for row in rows], state)


def machines(servers: Servers, state: State) -> RenderableType:
    """Each server by itself."""
    rows = []
    for source, report in zip(servers.sources, servers.reports, strict=True):
        if isinstance(report, str) or "server" not in report:
            rows.append((source.name, plain(report if isinstance(report, str) else "", "red"), "", "", "", ""))
            continue
        server = report["server"]
        rows.append((source.name, server["host"], server["version"], age(server["uptime"]), octets(server["rss"]), f"{report['rates']['queries']:,}"))
    return grid(["server", "host", "version", "up", "memory", "queries"], rows, state, [3, 4, 5])
