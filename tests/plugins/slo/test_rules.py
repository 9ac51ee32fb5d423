"""`fastdns slo rules`: each alert fires by promtool where its budget burns, and where it does not burn, or does no more, it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fastdns.server import commands
from tests.programs import program
from tests.server import Server
from tests.waiting import LIMIT

COREFILE = """
.:5300 cluster.local:5300 {
    slo 99% 5ms
    shed
    whoami
}
slow.example:5300 {
    slo 90% 50ms
    whoami
}
"""
SLOW = '{job="kube-dns",server="dns://:5300",zone="slow.example.",view=""'
FAST = '{job="kube-dns",server="dns://:5300",zone="cluster.local.",view=""'
SHED = 'coredns_shed_dropped_total{job="kube-dns",server="dns://:5300",reason="age"}'

#: Window, the share of bad queries from which on an objective's alert fires (none for 14.4 times 10 %), the minutes of the long window, and those between
#: two samples: some of them are in the short window.
BURNS = {"1h": (0.144, None, 60, 1), "6h": (0.06, 0.6, 360, 6), "1d": (0.03, 0.3, 1440, 20), "3d": (0.01, 0.1, 4320, 60)}


def rules(folder: Path, *words: str, corefile: str = COREFILE) -> str:
    (folder / "Corefile").write_text(corefile)
    done = subprocess.run([sys.executable, "-m", "fastdns", "slo", "rules", *words, str(folder / "Corefile")], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def promtool(*words: object) -> None:
    done = subprocess.run([program("promtool"), *map(str, words)], capture_output=True, text=True, timeout=LIMIT * 3)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def evaluate(folder: Path, text: str, step: int, tests: list[dict[str, Any]]) -> None:
    """Recordings come first, or alerts would see those of a step before, which are too old."""
    (folder / "rules.yaml").write_text(text)
    order = [group["name"] for group in yaml.safe_load(text)["groups"]]
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{step}m", "group_eval_order": order, "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", folder / "tests.yaml")


def test_promtool_finds_no_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    for corefile in (COREFILE, COREFILE.replace("    slo 90% 50ms\n", ""), COREFILE.replace("    shed\n", "")):
        path.write_text(rules(tmp_path, corefile=corefile))
        promtool("check", "rules", path)


def test_for_the_operator(tmp_path: Path) -> None:
    document = yaml.safe_load(rules(tmp_path, "-operator", "-job", "dns"))
    assert (document["apiVersion"], document["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert document["spec"] == yaml.safe_load(rules(tmp_path, "-job=dns"))
    assert 'job="dns"' in json.dumps(document).replace('\\"', '"')


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Corefile").write_text(".:5300 {\n whoami\n}\n")
    assert commands.run(["slo", "rules", str(tmp_path / "Corefile")]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/Corefile has no slo\n"
    assert commands.run(["slo", "show"]) == 2


def series(labels: str, share: float, first: int, then: int) -> list[dict[str, str]]:
    """1,000 queries at each step of which a share is late: for so many steps, and none for as many more."""
    late = round(1000 * share)
    return [
        {"series": f'fastdns_slo_queries_total{labels},result="within"}}', "values": f"0+{1000 - late}x{first} {(1000 - late) * first}+1000x{then}"},
        {"series": f'fastdns_slo_queries_total{labels},result="late"}}', "values": f"0+{late}x{first} {late * first}+0x{then}"},
    ]


def fires(alert: str, window: str, zone: str, at: int) -> dict[str, Any]:
    """That it fires at that minute is what `exp_samples` says."""
    matchers = f'alertname="{alert}",alertstate="firing",window="{window}"' + (f',zone="{zone}"' if zone else "")
    return {"expr": f"count(ALERTS{{{matchers}}}) > bool 0", "eval_time": f"{at}m"}


def case(inputs: list[dict[str, str]], asked: list[tuple[dict[str, Any], bool]], step: int) -> dict[str, Any]:
    tests = [{**test, "exp_samples": [{"labels": "{}", "value": 1}] if wanted else []} for test, wanted in asked]
    return {"interval": f"{step}m", "input_series": inputs, "promql_expr_test": tests}


@pytest.mark.parametrize("window", BURNS)
def test_each_alert_fires_for_its_burn_rate_and_ends_with_it(window: str, tmp_path: Path) -> None:
    fast, slow, minutes, step = BURNS[window]
    after = minutes // 3
    first, then = minutes // step, after // step
    tests = []
    for share, over in ((fast * 1.2, True), (fast * 0.8, False)):
        # Of the other block, and of a quiet zone of this one, no query is late.
        inputs = series(FAST, share, first, then) + series(SLOW, 0.0, first, then)
        asked = [
            (fires("FastDNSObjectiveMissed", window, "cluster.local.", minutes), over),
            (fires("FastDNSObjectiveMissed", window, "slow.example.", minutes), False),
            (fires("FastDNSObjectiveMissed", window, "cluster.local.", minutes + after), False),
        ]
        tests.append(case(inputs, asked, step))
    # Where 10 % may be late, what is too much for 99 % burns too slowly; 14.4 times as much cannot be.
    inputs = series(SLOW, fast * 0.9 if slow is None else slow * 1.2, first, then)
    asked = [
        (fires("FastDNSObjectiveMissed", window, "slow.example.", minutes), slow is not None),
        (fires("FastDNSObjectiveMissed", window, "slow.example.", minutes + after), False),
    ]
    tests.append(case(inputs, asked, step))
    for share, over in ((fast * 1.2, True), (fast * 0.8, False)):
        shed = round(1000 * share / (1 - share))
        inputs = [*series(FAST, 0.0, first, then), {"series": SHED, "values": f"0+{shed}x{first} {shed * first}+0x{then}"}]
        asked = [(fires("FastDNSShedding", window, "", minutes), over), (fires("FastDNSShedding", window, "", minutes + after), False)]
        tests.append(case(inputs, asked, step))
    evaluate(tmp_path, rules(tmp_path), step, tests)


SERVED = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    slo 99% 200ms
    shed
    template IN A late.example {
        answer "{{ .Name }} 5 IN CNAME late"
    }
    template IN A bad.example {
        rcode SERVFAIL
    }
    whoami
}
"""


def page(server: Server) -> dict[str, float]:
    """Series of the page, with the job of a scrape."""
    found = {}
    for family in text_string_to_metric_families(server.get(server.ports["port2"], "/metrics")):
        for sample in family.samples:
            if sample.name.startswith(("fastdns_slo_queries", "coredns_shed")):
                labels = ",".join(f"{name}={json.dumps(value)}" for name, value in ({"job": "kube-dns"} | sample.labels).items())
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


@pytest.mark.parametrize("window", BURNS)
def test_what_a_server_exposes_fires_them(window: str, serve: Callable[..., Server], tmp_path: Path) -> None:
    """Its Corefile makes the rules, its pages are what promtool reads: before, after some answers, and after as many failures."""
    server = serve(SERVED)
    before = page(server)
    for _ in range(5):
        server.query("good.example")
    ordinary = page(server)
    for _ in range(5):
        server.query("bad.example")
    fault = page(server)
    assert set(before) == set(ordinary) == set(fault)
    _, _, minutes, step = BURNS[window]
    tests = []
    for first, second, over in ((before, ordinary, False), (ordinary, fault, True)):
        # Each step adds to a counter what was added once.
        inputs = [{"series": name, "values": f"{first[name]!r}+{second[name] - first[name]!r}x{minutes // step}"} for name in first]
        tests.append(case(inputs, [(fires("FastDNSObjectiveMissed", window, ".", minutes), over)], step))
    evaluate(tmp_path, rules(tmp_path, corefile=server.fill(SERVED)), step, tests)
