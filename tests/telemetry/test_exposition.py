"""The text of the metrics page."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import pytest

from fastdns.telemetry import exposition
from fastdns.telemetry.metrics import Metric

numbers = itertools.count()


def shown(metric: Metric) -> list[str]:
    """The lines of a metric, without its serial number."""
    lines = exposition.page().decode().splitlines()
    return [line.replace(metric.name, "x") for line in lines if metric.name in line.replace("{", " ").split(" ")[0] or f" {metric.name} " in line]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1, "1"), (5.0, "5"), (999999, "999999"), (1e6, "1e+06"), (1234567, "1.234567e+06"), (123456789, "1.23456789e+08"),
        (1e20, "1e+20"), (1e22, "1e+22"), (1.5e21, "1.5e+21"), (0.5, "0.5"), (0.0001, "0.0001"), (0.00012345, "0.00012345"),
        (0.00001, "1e-05"), (1e-7, "1e-07"), (0.00025, "0.00025"), (8.192, "8.192"), (1763718000.123, "1.763718000123e+09"),
        (3.0000000000000004, "3.0000000000000004"), (123456.789, "123456.789"), (1234567.891, "1.234567891e+06"), (64000, "64000"),
        (-5, "-5"), (-1234567, "-1.234567e+06"), (-0.00001, "-1e-05"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"),
        (2**64, "1.8446744073709552e+19"), (0.000012345, "1.2345e-05"), (1e100, "1e+100"),
    ],
)  # fmt: skip
def test_numbers_look_as_go_prints_them(value: float, text: str) -> None:
    assert exposition.number(value) == text


def test_labels_are_sorted_and_escaped() -> None:
    metric = Metric(f"exposed_{next(numbers)}_total", 'Back\\slash and "quotes"\nin help.', "counter", ("zone", "family", "aaa"))
    metric.add(('q"\\\n\x1b.', "1", "ä"), 3)
    assert shown(metric) == [
        '# HELP x Back\\\\slash and "quotes"\\nin help.',
        "# TYPE x counter",
        'x{aaa="ä",family="1",zone="q\\"\\\\\\n\x1b."} 3',
    ]


def test_a_histogram_has_its_bound_last() -> None:
    metric = Metric(f"exposed_{next(numbers)}_seconds", "Help.", "histogram", ("zone",), (0.00025, 0.5), 1e9)
    for value in (0.0001, 0.0001, 0.3, 0.75):
        metric.observe((".",), value)
    name = metric.name
    lines = [line for line in exposition.page().decode().splitlines() if name in line]
    assert lines == [
        f"# HELP {name} Help.",
        f"# TYPE {name} histogram",
        f'{name}_bucket{{zone=".",le="0.00025"}} 2',
        f'{name}_bucket{{zone=".",le="0.5"}} 3',
        f'{name}_bucket{{zone=".",le="+Inf"}} 4',
        f'{name}_sum{{zone="."}} 1.0502',
        f'{name}_count{{zone="."}} 4',
    ]


def test_no_series_no_family() -> None:
    metric = Metric(f"exposed_{next(numbers)}_total", "Help.", "counter", ("zone",))
    metric.cell((".",))
    assert metric.name not in exposition.page().decode()


def test_metrics_of_prometheus_client_appear_once_a_plugin_uses_it() -> None:
    """In a process of its own: importing it must stay with whoever wants it."""
    code = """
import sys
from fastdns.telemetry import exposition
exposition.page()
assert "prometheus_client" not in sys.modules
import prometheus_client
counter = prometheus_client.Counter("mine", "My help.", ["b", "a"])
counter.labels(b="2", a="1").inc(3)
prometheus_client.Histogram("took_seconds", "Time.", buckets=(0.5, 1)).observe(0.7)
text = exposition.page().decode()
assert text.splitlines() == [
    "# HELP mine_total My help.", "# TYPE mine_total counter", 'mine_total{a="1",b="2"} 3',
    "# HELP took_seconds Time.", "# TYPE took_seconds histogram", 'took_seconds_bucket{le="0.5"} 0', 'took_seconds_bucket{le="1"} 1',
    'took_seconds_bucket{le="+Inf"} 1', "took_seconds_count 1", "took_seconds_sum 0.7",
], text
"""
    subprocess.run([sys.executable, "-c", code], check=True)
