"""Counters that workers write and a scrape sums."""

from __future__ import annotations

import itertools

import pytest

from fastdns.telemetry import metrics
from fastdns.telemetry.metrics import Metric

numbers = itertools.count()


def fresh(kind: str = "counter", labels: tuple[str, ...] = (), **options: object) -> Metric:
    return Metric(f"test_{next(numbers)}", "", kind, labels, **options)  # type: ignore[arg-type]


def test_a_child_appears_with_its_first_observation() -> None:
    metric = fresh(labels=("zone", "proto"))
    metric.cell(("a.", "udp"))
    metric.cell(("b.", "udp"), True)
    assert metric.collect() == [(("b.", "udp"), 0.0)]
    metric.add(("a.", "udp"), 3)
    assert metric.collect() == [(("a.", "udp"), 3.0), (("b.", "udp"), 0.0)]


def test_metrics_without_labels_and_gauges_are_there_from_the_start() -> None:
    assert fresh().collect() == [((), 0.0)]
    assert fresh("gauge").collect() == [((), 0.0)]
    gauge = fresh("gauge", ("server",))
    gauge.cell(("x",))
    assert gauge.collect() == [(("x",), 0.0)]


def test_cells_stay_with_the_name_and_its_labels() -> None:
    first = fresh(labels=("zone",))
    second = Metric(first.name, "", "counter", ("zone",))
    assert first.cell(("a.",)) == second.cell(("a.",)) != first.cell(("b.",))
    second.add(("a.",))
    assert first.collect() == [(("a.",), 1.0)]
    assert metrics.registry[first.name] is first


@pytest.mark.parametrize(
    ("kind", "labels", "options"),
    [
        ("counter", ("server",), {}),
        ("gauge", ("zone",), {}),
        ("counter", ("zone",), {"scale": 2.0}),
        ("summary", ("zone",), {}),
        ("counter", ("zone",), {"bounds": (1,)}),
        ("histogram", ("zone",), {}),
        ("histogram", ("zone",), {"bounds": (2, 1)}),
        ("histogram", ("zone",), {"bounds": (1, 1)}),
        ("histogram", ("zone",), {"bounds": tuple(range(25))}),
    ],
)
def test_a_metric_that_differs_is_refused(kind: str, labels: tuple[str, ...], options: dict[str, object]) -> None:
    standing = fresh(labels=("zone",))
    with pytest.raises(ValueError, match=standing.name):
        Metric(standing.name, "", kind, labels, **options)  # type: ignore[arg-type]


def test_labels_are_counted() -> None:
    metric = fresh("gauge", ("a", "b"))
    for call in (metric.cell, metric.table, lambda values: metric.set(values, 1), lambda values: metric.watch(values, float)):
        with pytest.raises(ValueError, match="has labels"):
            call(("one",))


def test_a_histogram_counts_buckets_and_sums() -> None:
    metric = fresh("histogram", ("zone",), bounds=(0.001, 0.01), scale=1e9)
    for value in (0.0005, 0.001, 0.002, 5.0):
        metric.observe(("a.",), value)
    [(values, (counts, total))] = metric.collect()
    assert (values, counts) == (("a.",), [2, 1, 1])
    assert total == pytest.approx(5.0035)
    with pytest.raises(ValueError, match="no histogram"):
        fresh().observe((), 1)


def test_a_table_names_its_children() -> None:
    metric = fresh(labels=("zone", "proto", "type"))
    first = metric.table(("a.", ("udp", "tcp"), ("A", "AAAA", "other")))
    assert metric.table(("a.", ("udp", "tcp"), ("A", "AAAA", "other"))) == first
    assert metric.collect() == []
    after = metric.cell(("b.", "udp", "A"))
    assert after == first + 6
    metric.add(("a.", "udp", "A"), 2)  # a child and a table's cell with the same labels are one sample
    metric.table(("a.", "udp", "A"))
    assert metric.collect() == [(("a.", "udp", "A"), 2.0)]


def test_gauges_are_set_watched_and_forgotten() -> None:
    gauge = fresh("gauge", ("name",))
    gauge.set(("a",), 2.5)
    gauge.watch(("b",), lambda: 7)
    gauge.watch(("broken",), lambda: 1 / 0)
    assert gauge.collect() == [(("a",), 2.5), (("b",), 7.0)]
    gauge.forget(("a",))
    assert gauge.collect() == [(("b",), 7.0)]
    gauge.forget()
    assert gauge.collect() == []


def test_gauge_cells_are_signed() -> None:
    gauge = fresh("gauge", ("name",))
    gauge.add(("a",), 2**64 - 3)
    assert gauge.collect() == [(("a",), -3.0)]


def test_children_are_sorted_by_the_names_of_their_labels() -> None:
    metric = fresh(labels=("zone", "proto"))
    for values in [("a.", "udp"), ("b.", "tcp")]:
        metric.add(values)
    assert [values for values, _ in metric.collect()] == [("b.", "tcp"), ("a.", "udp")]


def test_rows_are_mapped_for_as_many_workers_as_there_are() -> None:
    metrics.prepare(2)
    metrics.prepare(1)
    with pytest.raises(ValueError, match="64"):
        metrics.prepare(65)
