"""Questions and their sequence."""

from __future__ import annotations

from array import array

import pytest

from fastdns.bench.workload import Collector, Question, Workload, WorkloadError

ONE, TWO = Question("a.", 1), Question("a.", 28, 0, frozenset())


def test_a_question_asked_again_is_kept_once() -> None:
    collector = Collector()
    collector.extend([[ONE], [TWO], [Question("a.", 1)], [Question("a.", 28, 3)]])
    made = collector.workload("x")
    assert made == Workload("x", (ONE, TWO, Question("a.", 28, 3)), array("I", [0, 1, 0, 2]), None)
    assert len(collector) == 4


def test_bursts_are_kept() -> None:
    collector = Collector()
    collector.extend([[ONE], [ONE, TWO]])
    made = collector.workload("x")
    assert (made.order, made.bursts) == (array("I", [0, 0, 1]), array("I", [1, 2]))


@pytest.mark.parametrize(
    ("order", "bursts", "complaint"),
    [
        ([], None, "x: no questions"),
        ([0, 1], None, "x: the sequence names a question that is not there"),
        ([0, 0], [1], "x: the bursts do not add up to the sequence"),
        ([0], [1, 0], "x: the bursts do not add up to the sequence"),
    ],
)
def test_what_does_not_fit_is_refused(order: list[int], bursts: list[int] | None, complaint: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{complaint}$"):
        Workload("x", (ONE,), array("I", order), None if bursts is None else array("I", bursts))
