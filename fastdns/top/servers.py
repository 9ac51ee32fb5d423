"""Several servers read at the same time, and their reports as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastdns.telemetry.difference import between, combined
from fastdns.top.sources import Source, SourceError

__all__ = ["Servers"]

#: Servers that are asked at the same time.
PARALLEL = 16
#: Sections that are read each time; those that a server does not have are left out.
SECTIONS = ["server", "rates", "top", "recorder", "events", "slo", "shadow", "canary"]
#: Rows of a merged table.
ROWS_MAX = 100


class Servers:
    """What is known of some servers: the last reports, and the rates since those before."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        #: By source, in their order: the last report, or the text of an error.
        self.reports: list[dict[str, Any] | str] = [""] * len(sources)
        self._before: list[dict[str, Any] | None] = [None] * len(sources)
        #: Of the time between the last two reads; None before there are two.
        self.rates: dict[str, Any] | None = None

    def read(self, request: Mapping[str, Any], sections: Sequence[str] = SECTIONS) -> None:
        """Read all servers. Those that do not answer have an error in place of a report."""
        self.take(self.fetch(request, sections))

    def fetch(self, request: Mapping[str, Any], sections: Sequence[str] = SECTIONS) -> list[dict[str, Any] | str]:
        """The reports of all servers, or errors, for `take`."""
        with ThreadPoolExecutor(min(PARALLEL, len(self.sources))) as pool:
            return list(pool.map(lambda source: _report(source, list(sections), request), self.sources))

    def take(self, reports: list[dict[str, Any] | str]) -> None:
        """Use these reports from now on."""
        before, self.reports = self._before, reports
        totals = [report.get("rates") if isinstance(report, dict) else None for report in self.reports]
        found = [between(old, new) for old, new in zip(before, totals, strict=True) if old is not None and new is not None]
        self.rates = combined(found) if found else None
        self._before = [new or old for old, new in zip(before, totals, strict=True)]

    @property
    def answered(self) -> list[dict[str, Any]]:
        """The reports that there are."""
        return [report for report in self.reports if isinstance(report, dict)]

    def document(self) -> dict[str, Any]:
        """All in one JSON document: what `fastdns top -once -json` prints."""
        return {
            "servers": [
                {"source": source.name, "error": report} if isinstance(report, str) else {"source": source.name, "error": "", **report.get("server", {})}
                for source, report in zip(self.sources, self.reports, strict=True)
            ],
            "rates": self.rates,
            "totals": {"queries": sum(report["rates"]["queries"] for report in self.answered if "rates" in report)},
            **{name: merged for name in ("top", "recorder", "events") if (merged := self.merged(name)) is not None},
            **{name: parts for name in ("slo", "shadow", "canary") if (parts := self.by_source(name))},
        }

    def merged(self, section: str) -> dict[str, Any] | None:
        """A section of all servers; None where none has it."""
        parts = self.by_source(section)
        if not parts:
            return None
        if section == "top":
            return _merged_tables(list(parts.values()))
        rows = "queries" if section == "recorder" else "events"
        several = len(self.sources) > 1
        found = [{**row, "server": name} if several else row for name, part in parts.items() for row in part[rows]]
        found.sort(key=lambda row: row["time"])
        return {rows: found}

    def by_source(self, section: str) -> dict[str, Any]:
        """A section of each server that has it, by the name of its source."""
        return {
            source.name: report[section] for source, report in zip(self.sources, self.reports, strict=True) if isinstance(report, dict) and report.get(section)
        }


def _report(source: Source, sections: list[str], request: Mapping[str, Any]) -> dict[str, Any] | str:
    try:
        return source.report(sections, request)
    except SourceError as error:
        return str(error)


def _merged_tables(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The tables of `top` of several servers: counts and errors of the same key are added. A key that one of them does not list may be there, too."""
    tables: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part["tables"]):
        some = [part["tables"][name] for part in parts if name in part["tables"]]
        absent = sum(table["absent"] for table in some)
        rows: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
        for table in some:
            for row in table["rows"]:
                key = tuple(sorted(row["key"].items()))
                standing = rows.setdefault(key, {**row, "count": absent, "error": absent})
                standing["count"] += row["count"] - table["absent"]
                standing["error"] += row["error"] - table["absent"]
        ordered = sorted(rows.values(), key=lambda row: row["error"] - row["count"])
        absent = max([absent, *(row["count"] for row in ordered[ROWS_MAX:])])
        sums = {member: sum(table[member] for table in some) for member in ("total", "error")}
        tables[name] = {**sums, "absent": absent, "rows": ordered[:ROWS_MAX]}
    return {**parts[0], "tables": tables, "sampled": min(part.get("sampled", 1) for part in parts)}
