"""Rules for Prometheus: alerts on how fast the budget of errors of each objective burns, by several windows (chapter 5 of Google's SRE workbook)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from fastdns.plugins.slo import Objective

__all__ = ["Target", "document"]


class Target(NamedTuple):
    """An objective and what it is for, as the metrics' labels name it."""

    server: str
    zone: str
    view: str
    objective: Objective
    #: Whether the server sheds queries, which no zone counts.
    sheds: bool


class Alert(NamedTuple):
    """The budget of 30 days burns so many times as fast as it may, over both windows: the long one for what it costs, the short one so that the alert ends."""

    severity: str
    burn: float
    long: str
    short: str
    #: What is used of the budget where it goes on so long.
    used: str


#: Of the workbook's table 5-8: two for who is on call, two that can wait until the morning.
ALERTS = (
    Alert("critical", 14.4, "1h", "5m", "2 % of the budget of 30 days in an hour"),
    Alert("critical", 6, "6h", "30m", "5 % of the budget of 30 days in six hours"),
    Alert("warning", 3, "1d", "2h", "10 % of the budget of 30 days in a day"),
    Alert("warning", 1, "3d", "6h", "10 % of the budget of 30 days in three days"),
)
WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
ZONE = "server, zone, view"


def document(targets: Iterable[Target], job: str, operator: bool) -> str:
    """The rules as YAML: a file of `rule_files`, or for Prometheus's operator the object that holds it."""
    targets = list(targets)
    lines = ["groups:"]
    lines += _group("fastdns-slo", _recordings(targets, job))
    for objective in dict.fromkeys(target.objective for target in targets):
        having = [target for target in targets if target.objective == objective]
        alone = len(having) == len(targets)
        lines += _group(f"fastdns-slo-{objective.percent}-{objective.time}", _alerts(objective, having, alone))
    if operator:
        lines = [
            "apiVersion: monitoring.coreos.com/v1",
            "kind: PrometheusRule",
            "metadata:",
            "  name: fastdns-slo",
            "spec:",
            *(f"  {line}" for line in lines),
        ]
    return "".join(f"{line}\n" for line in lines)


def _group(name: str, rules: list[str]) -> list[str]:
    return [f"- name: {json.dumps(name)}", "  rules:", *(f"  {line}" for line in rules)]


def _recordings(targets: list[Target], job: str) -> list[str]:
    """The share of queries that missed the objective, for each window."""
    lines: list[str] = []
    for window in WINDOWS:
        counted = f"fastdns_slo_queries_total{{job={json.dumps(job)}"
        missed = f'sum by ({ZONE}) (rate({counted},result!="within"}}[{window}]))'
        lines += _recording(f"fastdns:slo_errors:ratio_rate{window}", f"{missed} / sum by ({ZONE}) (rate({counted}}}[{window}]))")
        if any(target.sheds for target in targets):
            shed = f'sum by (server) (rate(coredns_shed_dropped_total{{job={json.dumps(job)},reason=~"age|query"}}[{window}]))'
            whole = f"({shed} + sum by (server) (rate({counted}}}[{window}])))"
            lines += _recording(f"fastdns:slo_shed:ratio_rate{window}", f"{shed} / {whole}")
    return lines


def _recording(name: str, expression: str) -> list[str]:
    return [f"- record: {name}", f"  expr: {_quoted(expression)}"]


def _alerts(objective: Objective, targets: list[Target], alone: bool) -> list[str]:
    """Those of one objective. ``alone``: all that is counted has it, so that no labels need to be compared."""
    text = f"{objective.percent} % within {objective.time}"
    zones = [] if alone else [_matchers(server=target.server, zone=target.zone, view=target.view) for target in targets]
    servers = [] if alone else list(dict.fromkeys(_matchers(server=target.server) for target in targets if target.sheds))
    lines: list[str] = []
    for alert in ALERTS:
        lines += _alert(
            "FastDNSObjectiveMissed",
            ("fastdns:slo_errors:ratio_rate", zones),
            objective,
            alert,
            f"Fewer queries than {text}",
            "{{ $value | humanizePercentage }} of the queries for {{ $labels.zone }} at {{ $labels.server }} failed or took longer",
        )
        if any(target.sheds for target in targets):
            lines += _alert(
                "FastDNSShedding",
                ("fastdns:slo_shed:ratio_rate", servers),
                objective,
                alert,
                f"More queries are shed than {text} allows",
                "{{ $value | humanizePercentage }} of the queries at {{ $labels.server }} were dropped because it is overloaded",
            )
    return lines


def _alert(name: str, recorded: tuple[str, list[str]], objective: Objective, alert: Alert, summary: str, description: str) -> list[str]:
    """An alert on a recording, whose name lacks the window, with the labels that are to be looked at; none: all."""
    # 1 - 0.99 is 0.010000000000000009.
    threshold = float(f"{alert.burn * (1 - objective.share):.10g}")
    if threshold >= 1:
        return [f"# {name}: the budget of {objective.percent} % cannot burn {alert.burn:g} times as fast as it may."]
    prefix, chosen = recorded
    both = [" or ".join(f"{prefix}{window}{matchers}" for matchers in chosen or [""]) for window in (alert.long, alert.short)]
    expression = " and ".join(f"({series}) > {threshold:.10g}" if len(chosen) > 1 else f"{series} > {threshold:.10g}" for series in both)
    return [
        f"- alert: {name}",
        f"  expr: {_quoted(expression)}",
        "  labels:",
        f"    severity: {alert.severity}",
        f"    objective: {objective.percent}% {objective.time}",
        f"    window: {alert.long}",
        "  annotations:",
        f"    summary: {_quoted(summary)}",
        f"    description: {_quoted(f'{description}, over {alert.long}; that uses {alert.used}.')}",
    ]


def _matchers(**labels: str) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"


def _quoted(text: str) -> str:
    """As a YAML scalar, on one line."""
    return "'" + text.replace("'", "''") + "'"
