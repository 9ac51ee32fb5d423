"""Latencies in buckets: error, exact sums, JSON."""

from __future__ import annotations

import json
import random

import pytest

from fastdns.bench.generator.histogram import Histogram


def filled(times: list[float]) -> Histogram:
    made = Histogram()
    for seconds in times:
        made.record(seconds)
    return made


@pytest.mark.parametrize("seconds", [1e-9, 127e-9, 128e-9, 255e-9, 256e-9, 1e-6, 3.3e-6, 49.9e-6, 1e-3, 0.0255, 0.2, 1.0, 9.99, 60.0])
def test_a_bucket_is_less_than_one_part_in_125_wide(seconds: float) -> None:
    one = Histogram()
    one.record(seconds / 2)
    one.record(seconds)
    one.record(seconds * 2)
    assert one.percentile(50) == pytest.approx(seconds, rel=0.008, abs=0.5e-9)


def test_percentiles_are_those_of_the_sorted_list() -> None:
    choice = random.Random(7)
    times = [choice.lognormvariate(-8, 2) for _ in range(20_000)]
    made = filled(times)
    times.sort()
    for p in (1, 10, 50, 90, 99, 99.9, 99.99):
        assert made.percentile(p) == pytest.approx(times[max(0, -int(-len(times) * p // 100) - 1)], rel=0.008), p
    assert made.percentile(0) == made.minimum == pytest.approx(times[0], abs=1e-9)
    assert made.percentile(100) == made.maximum == pytest.approx(times[-1], abs=1e-9)
    assert made.mean == pytest.approx(sum(times) / len(times), abs=1e-9)
    assert sum(count for _, _, count in made.buckets()) == made.count == len(times)


def test_adding_is_exact() -> None:
    choice = random.Random(3)
    times = [choice.expovariate(1000) for _ in range(9000)]
    parts = [filled(times[i::7]) for i in range(7)]
    whole = Histogram()
    for part in parts:
        whole.add(Histogram.from_json(json.loads(json.dumps(part.to_json()))))
    assert whole == filled(times)
    whole.add(Histogram())
    assert whole == filled(times)
    whole.record(1)
    assert whole != filled(times)


def test_longer_than_the_last_bucket() -> None:
    made = filled([500.0, 1000.0])
    assert made.percentile(50) == made.maximum == 1000.0


@pytest.mark.parametrize("p", [-1, 100.1])
def test_no_such_percentile(p: float) -> None:
    with pytest.raises(ValueError):
        Histogram().percentile(p)


@pytest.mark.parametrize("stored", [{"bits": 5, "buckets": []}, {"bits": 7, "buckets": [[4000, 1]]}])
def test_json_that_is_no_histogram(stored: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Histogram.from_json(stored)
