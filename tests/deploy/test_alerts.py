"""Every alert fires for its fault, and not without it: what a server exposes before and after the fault is given to promtool, which evaluates the rules."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.conftest import DEPLOY
from tests.deploy.faults import FAULTS, Scene
from tests.deploy.test_monitoring import RULES, SCRAPED
from tests.programs import program
from tests.server import Server
from tests.waiting import LIMIT

pytestmark = [
    pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here"),
    pytest.mark.timeout(600),
    # A process may have more than 150 MiB with the sanitizers, and an upstream's answers take long.
    pytest.mark.memory,
]

#: What Prometheus adds to a sample of a pod.
LABELS = {"job": "kube-dns", "namespace": "kube-system", "pod": "dns-1", "instance": "192.0.2.9:9153"}
#: Minutes: the fault begins, and an alert that waits for it to last is looked at. Others have to fire within a minute.
BEGINS, LASTED = 20, 50


class Sample(NamedTuple):
    value: float
    counts: bool


def parsed(page: str) -> dict[str, Sample]:
    """Series of a page as promtool writes them, with the labels of a scrape."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{name}={json.dumps(value)}" for name, value in (sample.labels | LABELS).items())
            found[f"{sample.name}{{{labels}}}"] = Sample(sample.value, family.type in ("counter", "histogram"))
    return found


def values(before: Sample | None, after: Sample | None, lasts: bool) -> str:
    """The values of a series by minutes: as before, then as after. A fault that lasts adds to a counter each minute what it has added once."""
    first = f"_x{BEGINS - 1}" if before is None else f"{before.value!r}x{BEGINS - 1}"
    rest = LASTED - BEGINS
    if after is None:
        return f"{first} stale _x{rest}"
    grown = after.value - (before.value if before else 0.0) if after.counts and lasts else 0.0
    return f"{first} {after.value!r}+{max(grown, 0.0)!r}x{rest}"


def case(rule: dict[str, Any], before: str, after: str, fires: bool) -> dict[str, Any]:
    """A case of `promtool test rules`: the metrics of a rule change from one page to another."""
    first, second = parsed(before), parsed(after)
    names = set(re.findall(r"\b(\w+)\{", rule["expr"])) | set(re.findall(r"\((coredns_\w+)\[", rule["expr"]))
    assert names
    taken = [series for series in first | second if series.partition("{")[0] in names]
    assert not fires or {series.partition("{")[0] for series in taken} == names, "the server exposes what the rule asks for"
    lasts = rule["for"] != "0m"
    inputs = [{"series": series, "values": values(first.get(series), second.get(series), lasts)} for series in taken]
    # Labels that the alert's text names have to be there.
    shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    matchers = [f'alertname="{rule["alert"]}"', 'alertstate="firing"', *(f'{label}!=""' for label in sorted(shown))]
    asked = {
        "expr": f"count(ALERTS{{{','.join(matchers)}}}) > bool 0",
        "eval_time": f"{LASTED if lasts else BEGINS + 1}m",
        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
    }
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": [asked]}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_fires_for_its_fault_alone(rule: dict[str, Any], serve: Callable[..., Server], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    promtool = program("promtool")
    before, ordinary, fault = FAULTS[rule["alert"]](Scene(serve, tmp_path, request.getfixturevalue))
    document = {
        "rule_files": [str(DEPLOY / "prometheus" / "rules.yaml")],
        "evaluation_interval": "1m",
        "tests": [case(rule, before, ordinary, False), case(rule, ordinary, fault, True)],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_alert_has_its_fault() -> None:
    assert list(FAULTS) == [rule["alert"] for rule in RULES]
    assert set(LABELS) <= SCRAPED


def test_promtool_finds_no_error_in_the_rules() -> None:
    done = subprocess.run([program("promtool"), "check", "rules", str(DEPLOY / "prometheus" / "rules.yaml")], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
