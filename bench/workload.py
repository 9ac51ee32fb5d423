"""What is asked: the distinct questions of a run with the replies that they must get, and the sequence to send them in."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Collector", "Question", "Workload", "WorkloadError"]


class WorkloadError(ValueError):
    """A workload that cannot be made; the text says what of it and, for a file, on which line."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question of class IN and what is known of the right reply."""

    #: Absolute, in presentation form (RFC 1035 5.1), with the final dot.
    name: str
    #: Number of the record type.
    type: int
    #: Response code that the reply must have; None: any.
    rcode: int | None = None
    #: Rdata that the answer section must have of records of this type, whoever owns them: wire form, names expanded, in any
    #: order and each once. None: anything; empty: no record of this type (there may be a CNAME). Names in it are compared
    #: without regard to case. A truncated reply (TC) may have a part of them.
    answers: frozenset[bytes] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Questions and their sequence."""

    label: str
    #: The distinct ones.
    questions: Sequence[Question]
    #: Typecode ``I``: indexes into `questions`, the sequence to send; a run that is longer starts again.
    order: array[int]
    #: Typecode ``I``: lengths of the runs of `order` that leave at the same moment, as a resolver asks for A and AAAA; their
    #: sum is the length of `order`. None: each question leaves by itself.
    bursts: array[int] | None = None

    def __post_init__(self) -> None:
        if not self.order:
            raise WorkloadError(f"{self.label}: no questions")
        if max(self.order) >= len(self.questions):
            raise WorkloadError(f"{self.label}: the sequence names a question that is not there")
        if self.bursts is not None and (sum(self.bursts) != len(self.order) or 0 in self.bursts):
            raise WorkloadError(f"{self.label}: the bursts do not add up to the sequence")


class Collector:
    """Gathers a sequence of questions; one that is asked again is kept once."""

    def __init__(self) -> None:
        self.order = array("I")
        self._numbers: dict[Question, int] = {}
        self._bursts = array("I")

    def __len__(self) -> int:
        return len(self.order)

    def add(self, *burst: Question) -> None:
        """Questions that leave at the same moment."""
        for question in burst:
            self.order.append(self._numbers.setdefault(question, len(self._numbers)))
        self._bursts.append(len(burst))

    def extend(self, bursts: Iterable[Sequence[Question]]) -> None:
        for burst in bursts:
            self.add(*burst)

    def workload(self, label: str) -> Workload:
        """Everything gathered so far. WorkloadError when that is nothing."""
        alone = len(self._bursts) == len(self.order)
        return Workload(label, tuple(self._numbers), self.order[:], None if alone else self._bursts[:])
