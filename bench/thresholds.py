"""Conditions on a result, as in ``p99>2ms`` or ``lost>0.1%``: for exit statuses, and for what a rate must hold to count."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from fastdns.bench.result import Result

__all__ = ["Threshold", "ThresholdError", "parse", "parse_all"]

FORM = re.compile(r"\s*(?P<what>[A-Za-z][\w.]*)\s*(?P<how>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|µs|ms|s|%|)\s*")
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
PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
RCODE = re.compile(r"[A-Z][A-Z0-9]+")


class ThresholdError(ValueError):
    """A condition that says nothing that can be measured."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition."""

    text: str
    #: What is compared: seconds, a count, a share (0 to 1) or queries per second.
    value: Callable[[Result], float]
    how: str
    bound: float
    #: How the value is written: "s", "%" or "".
    unit: str

    def holds(self, result: Result) -> bool:
        """A latency of nothing at all is beyond every bound: without answers ``p99<…`` does not hold and ``p99>…`` does."""
        if self.unit == "s" and not result.latency.count:
            return self.how.startswith(">")
        return COMPARED[self.how](self.value(result), self.bound)

    def measured(self, result: Result) -> str:
        """The value, for people."""
        if self.unit == "s" and not result.latency.count:
            return "no answers"
        value = self.value(result)
        if self.unit == "s":
            return f"{value * 1e3:.3f} ms"
        return f"{value * 100:.4g} %" if self.unit == "%" else f"{value:.6g}"


def parse(text: str) -> Threshold:
    """``p99.9>2ms``, ``max``, ``mean``, ``min``; ``lost``, ``wrong``, ``unsent``… and rcodes (``SERVFAIL``), counted or in %; ``rate``, in answers a second.

    ThresholdError.
    """
    found = FORM.fullmatch(text)
    if not found:
        raise ThresholdError(f"{text!r} is no condition like 'p99>2ms' or 'lost>0.1%'")
    what, unit, number = found["what"], found["unit"], float(found["number"])
    if percentile := PERCENTILE.fullmatch(what):
        p = float(percentile[1])
        return timed(text, found, lambda result: result.latency.percentile(p))
    if what in TIMES:
        return timed(text, found, TIMES[what])
    if what in PLAIN:
        if unit:
            raise ThresholdError(f"{text!r}: {what} has no unit")
        return Threshold(text.strip(), PLAIN[what], found["how"], number, "")
    if what in COUNTS:
        count = COUNTS[what]
    elif RCODE.fullmatch(what):
        count = rcodes(what)
    else:
        raise ThresholdError(f"{text!r}: nothing called {what} is measured; there are pN, {', '.join([*TIMES, *PLAIN, *COUNTS])} and rcodes")
    if unit not in ("", "%"):
        raise ThresholdError(f"{text!r}: {what} is a count, or a share in %")
    if not unit:
        return Threshold(text.strip(), count, found["how"], number, "")
    return Threshold(text.strip(), lambda result: share(count(result), result), found["how"], number / 100, "%")


def rcodes(name: str) -> Callable[[Result], int]:
    return lambda result: result.rcodes.get(name, 0)


def share(count: int, result: Result) -> float:
    return count / max(1, result.sent + result.unsent)


def timed(text: str, found: re.Match[str], value: Callable[[Result], float]) -> Threshold:
    if found["unit"] not in SECONDS:
        raise ThresholdError(f"{text!r}: {found['what']} is a time, in us, ms or s")
    return Threshold(text.strip(), value, found["how"], float(found["number"]) * SECONDS[found["unit"]], "s")


def parse_all(text: str) -> list[Threshold]:
    """Several with commas between. ThresholdError."""
    return [parse(part) for part in text.split(",")]
