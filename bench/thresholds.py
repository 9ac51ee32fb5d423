"""Conditions on what was measured, as in ``p99>2ms``, ``lost>0.1%`` or ``ratio>1.3``: for exit statuses, and for what a rate must hold to count."""

from __future__ import annotations

import argparse
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from fastdns.bench.result import Result

__all__ = ["Record", "Threshold", "ThresholdError", "condition", "conditions", "parse", "parse_all", "run_condition"]

T = TypeVar("T")
#: What a scenario measured of a server at one rate, as it stands in the JSON of a run.
Record = Mapping[str, Any]

FORM = re.compile(r"\s*(?P<what>[A-Za-z][\w.]*)\s*(?P<how>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|µs|ms|s|%|MB|)\s*")
COMPARED: dict[str, Callable[[float, float], bool]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

#: Counts and their share of what was due.
COUNTS: dict[str, Callable[[Result], int]] = {
    "sent": lambda result: result.sent,
    "answered": lambda result: result.answered,
    "lost": lambda result: result.lost + result.unsent,
    "unsent": lambda result: result.unsent,
    "wrong": lambda result: result.wrongs,
    "late": lambda result: result.late,
    "refused": lambda result: result.refused,
    "truncated": lambda result: result.truncated,
    "dropped": lambda result: result.dropped,
}
TIMES: dict[str, Callable[[Result], float]] = {
    "mean": lambda result: result.latency.mean,
    "min": lambda result: result.latency.minimum,
    "max": lambda result: result.latency.maximum,
}
PLAIN: dict[str, Callable[[Result], float]] = {"rate": lambda result: result.rate}
#: Of a run's record: the figure, and its unit. None: not measured.
FIGURES: dict[str, tuple[Callable[[Record], float | None], str]] = {
    "cpu": (lambda record: record["cpu_us_per_answer"] * 1e-6, "s"),
    "ratio": (lambda record: record.get(f"ratio_to_{record['baseline']}"), ""),
    "rss": (lambda record: record["rss_mb"], "MB"),
    "peak": (lambda record: record["rss_peak_mb"], "MB"),
    "ready": (lambda record: record["ready_s"], "s"),
    "propagation": (lambda record: max(record.get("propagation_s") or [0]) or None, "s"),
    "overrun": (lambda record: record["overrun"], ""),
}
PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
RCODE = re.compile(r"[A-Z][A-Z0-9]+")


class ThresholdError(ValueError):
    """A condition that says nothing that can be measured."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition."""

    text: str
    #: What is compared: seconds, a count, a share (0 to 1), MB or queries per second. None: it was not measured.
    value: Callable[[Result, Record], float | None]
    how: str
    bound: float
    #: How the value is written: "s", "%", "MB" or "".
    unit: str

    def holds(self, result: Result, record: Record = MappingProxyType({})) -> bool:
        """What was not measured is beyond every bound: without answers ``p99<…`` does not hold and ``p99>…`` does."""
        value = self.value(result, record)
        return self.how.startswith(">") if value is None else COMPARED[self.how](value, self.bound)

    def measured(self, result: Result, record: Record = MappingProxyType({})) -> str:
        """The value, for people."""
        value = self.value(result, record)
        if value is None:
            return "not measured"
        if self.unit == "s":
            return f"{value * 1e3:.4g} ms"
        return f"{value * 100:.4g} %" if self.unit == "%" else f"{value:.6g} {self.unit}".rstrip()


def parse(text: str, figures: Mapping[str, tuple[Callable[[Record], float | None], str]] = MappingProxyType({})) -> Threshold:
    """``p99.9>2ms``, ``max``, ``mean``, ``min``; ``lost``, ``wrong``, ``unsent``… and rcodes (``SERVFAIL``), counted or in %; ``rate``, in answers a second.

    `figures`: what else is measured. ThresholdError.
    """
    found = FORM.fullmatch(text)
    if not found:
        raise ThresholdError(f"{text!r} is no condition like 'p99>2ms' or 'lost>0.1%'")
    what, unit = found["what"], found["unit"]
    if what in figures:
        figure, kind = figures[what]
        return made(text, found, lambda result, record: figure(record), kind)
    if percentile := PERCENTILE.fullmatch(what):
        p = float(percentile[1])
        return made(text, found, answered(lambda result: result.latency.percentile(p)), "s")
    if what in TIMES:
        return made(text, found, answered(TIMES[what]), "s")
    if what in PLAIN:
        plain = PLAIN[what]
        return made(text, found, lambda result, record: plain(result), "")
    if what in COUNTS:
        count = COUNTS[what]
    elif RCODE.fullmatch(what):
        count = rcodes(what)
    else:
        raise ThresholdError(f"{text!r}: nothing called {what} is measured; there are pN, {', '.join([*TIMES, *PLAIN, *COUNTS, *figures])} and rcodes")
    if unit == "%":
        return made(text, found, lambda result, record: count(result) / max(1, result.sent + result.unsent), "%")
    return made(text, found, lambda result, record: count(result), "")


def made(text: str, found: re.Match[str], value: Callable[[Result, Record], float | None], kind: str) -> Threshold:
    """The condition, if its unit is one for that kind of value. ThresholdError."""
    unit = found["unit"]
    if kind == "s":
        if unit not in SECONDS:
            raise ThresholdError(f"{text!r}: {found['what']} is a time, in us, ms or s")
    elif unit != kind:
        wanted = {"": "a plain number", "MB": "in MB"}[kind]
        raise ThresholdError(f"{text!r}: {found['what']} is {wanted}" + (", or a share in %" if found["what"] in COUNTS else ""))
    factor = {"%": 0.01, **SECONDS}.get(unit, 1.0)
    return Threshold(text.strip(), value, found["how"], float(found["number"]) * factor, kind)


def rcodes(name: str) -> Callable[[Result], int]:
    return lambda result: result.rcodes.get(name, 0)


def answered(value: Callable[[Result], float]) -> Callable[[Result, Record], float | None]:
    """A latency, which nothing at all does not have."""
    return lambda result, record: value(result) if result.latency.count else None


def parse_all(text: str) -> list[Threshold]:
    """Several with commas between. ThresholdError."""
    return [parse(part) for part in text.split(",")]


# ---- for argparse, which wants errors of its own ----


def condition(text: str) -> Threshold:
    return argument(parse, text)


def conditions(text: str) -> list[Threshold]:
    return argument(parse_all, text)


def run_condition(text: str) -> Threshold:
    """Of a scenario: FIGURES, too."""
    return argument(lambda given: parse(given, FIGURES), text)


def argument(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ThresholdError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
