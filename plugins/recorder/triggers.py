"""When recordings are written by themselves: rules over the metrics, looked at each second."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from fastdns.telemetry import metrics
from fastdns.telemetry.log import Log
from fastdns.telemetry.quantile import quantile

__all__ = ["Rule", "Triggers", "parse_rule"]

log = Log("plugin/recorder")

OVER_DEFAULT = 10.0
OVER_MOST = 3600.0
#: Queries below which a percentile or a share says nothing.
QUERIES_LEAST = 20
#: Share of the limit below which a rule that has held may hold again.
CALM = 0.8
#: Seconds between two recordings of one rule.
PAUSE = 60.0
PERIOD = 1.0

DURATIONS = "coredns_dns_request_duration_seconds"
RESPONSES = "coredns_dns_responses_total"
METRIC = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="[^"]*",?)*)\})?')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')


class Rule(NamedTuple):
    """``when SUBJECT > LIMIT over SECONDS``."""

    #: p99, servfail, or a metric.
    subject: str
    #: Seconds, a share, or what the metric counts.
    limit: float
    over: float
    #: The limit as it was written.
    text: str
    #: Of a metric: labels that a child must have.
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.subject} > {self.text}"


def parse_rule(words: list[str], seconds: Callable[[str], float]) -> Rule:
    """Of the words behind ``when``; ``seconds`` reads a duration. Raises ValueError."""
    if len(words) not in (3, 5) or words[1] != ">" or (len(words) == 5 and words[3] != "over"):
        raise ValueError("a rule is 'when SUBJECT > LIMIT [over DURATION]'")
    subject, text = words[0], words[2]
    over = seconds(words[4]) if len(words) == 5 else OVER_DEFAULT
    if not PERIOD <= over <= OVER_MOST:
        raise ValueError(f"a rule looks at a second to an hour: {words[4]}")
    if subject == "p99":
        limit = seconds(text)
        if limit <= 0:
            raise ValueError("p99 is compared with a duration")
        return Rule(subject, limit, over, text)
    if subject == "servfail":
        share = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
        if share is None or not 0 < float(share[1]) < 100:
            raise ValueError(f"servfail is compared with a share such as 5%, not '{text}'")
        return Rule(subject, float(share[1]) / 100, over, text)
    found = METRIC.fullmatch(subject)
    if found is None:
        raise ValueError(f"'{subject}' is neither p99 nor servfail nor the name of a metric")
    try:
        return Rule(found[1], float(text), over, text, tuple(LABEL.findall(found[2] or "")))
    except ValueError:
        raise ValueError(f"a metric is compared with a number, not '{text}'") from None


# ---- what rules look at ----

#: Numbers that only grow: their difference is what happened meanwhile.
Counts = tuple[float, ...]


def counts_of(rule: Rule) -> Counts:
    """Of a rule, now."""
    match rule.subject:
        case "p99":
            sums: list[float] = []
            for _, (buckets, _) in _children(DURATIONS):
                sums = [a + b for a, b in zip(sums, buckets, strict=True)] if sums else list(buckets)
            return tuple(sums)
        case "servfail":
            metric = metrics.registry.get(RESPONSES)
            place = metric.labels.index("rcode") if metric is not None else 0
            responses = _children(RESPONSES)
            return sum(value for labels, value in responses if labels[place] == "SERVFAIL"), sum(value for _, value in responses)
    metric = metrics.registry.get(rule.subject)
    if metric is None:
        return ()
    wanted = [(metric.labels.index(name), value) for name, value in rule.labels if name in metric.labels]
    if len(wanted) < len(rule.labels):
        return ()
    chosen = [value for labels, value in _children(rule.subject) if all(labels[place] == value_ for place, value_ in wanted)]
    return (sum(sum(value[0]) if isinstance(value, tuple) else value for value in chosen),)


def _children(name: str) -> list[Any]:
    metric = metrics.registry.get(name)
    return [] if metric is None else metric.collect()


def value_of(rule: Rule, now: Counts, before: Counts, seconds: float) -> float | None:
    """What the rule compares; None: there is too little to say. Of a counter or histogram the rate a second."""
    if len(now) != len(before) or not now:
        return None
    grown = [a - b for a, b in zip(now, before, strict=True)]
    match rule.subject:
        case "p99":
            return quantile(0.99, metrics.registry[DURATIONS].bounds, grown) if sum(grown) >= QUERIES_LEAST else None
        case "servfail":
            return grown[0] / grown[1] if grown[1] >= QUERIES_LEAST else None
    return now[0] if metrics.registry[rule.subject].kind == "gauge" else grown[0] / seconds


# ---- the watch ----


class Watch:
    """One rule: whether it holds now and did not before."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._counts: deque[tuple[float, Counts]] = deque()
        self._armed = True
        self._last = float("-inf")

    def look(self, now: float) -> float | None:
        """The value that exceeds the limit, if a recording is to be made of it. ``now``: seconds of a monotonic clock."""
        counts = counts_of(self.rule)
        while len(self._counts) > 1 and self._counts[1][0] <= now - self.rule.over:
            self._counts.popleft()
        before = self._counts[0] if self._counts else None
        self._counts.append((now, counts))
        if before is None:
            return None
        value = value_of(self.rule, counts, before[1], now - before[0])
        if value is None:
            return None
        if value <= self.rule.limit:
            self._armed = self._armed or value < CALM * self.rule.limit
            return None
        if not self._armed or now - self._last < PAUSE:
            return None
        self._armed, self._last = False, now
        return value


class Triggers:
    """Looks at rules each second, on a thread of its own, and has what is recorded written."""

    def __init__(self, rules: tuple[Rule, ...], write: Callable[[str, str], object]) -> None:
        """``write`` gets the rule's subject and the cause."""
        self._watches = [Watch(rule) for rule in rules]
        self._write = write
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        if self._watches:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        from time import monotonic

        while not self._stopping.wait(PERIOD):
            for watch in self._watches:
                try:
                    value = watch.look(monotonic())
                    if value is not None:
                        self._write(watch.rule.subject, f"{watch.rule} over {watch.rule.over:g}s: {value:.6g}")
                except Exception as error:  # a rule that fails leaves the others and later ones
                    log.error(f"{watch.rule}: {error}")
