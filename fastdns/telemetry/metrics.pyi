"""Counters, gauges and histograms; native code writes them through the .pxd."""

from collections.abc import Callable, Sequence
from typing import Literal

#: Every metric by name.
registry: dict[str, Metric]

class Metric:
    """A metric and its children, one for each set of label values.

    A name that exists gives another view of the standing metric; ValueError when kind, labels or buckets differ.
    Children never observed are not exposed, but for gauges and for metrics without labels.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    #: Upper bounds of a histogram's buckets, in the exposed unit, without +Inf.
    bounds: tuple[float, ...]
    #: Raw units in one exposed unit: 1e9 for seconds kept as nanoseconds.
    scale: float

    def __init__(
        self,
        name: str,
        help: str,  # noqa: A002
        kind: str,
        labels: Sequence[str] = (),
        bounds: Sequence[float] = (),
        scale: float = 1.0,
    ) -> None: ...
    def cell(self, values: tuple[str, ...], zero: bool = False) -> int:
        """The first cell of a child, made when new; ``zero`` exposes it before its first observation. MemoryError when cells run out."""

    def table(self, axes: tuple[str | tuple[str, ...], ...]) -> int:
        """The first cell of a run of children: each axis is one label's value or a tuple of values, the last one the fastest."""

    def add(self, values: tuple[str, ...], n: int = 1) -> None:
        """Count n (raw units) on a child."""

    def set(self, values: tuple[str, ...], value: float) -> None:
        """Set a gauge."""

    def observe(self, values: tuple[str, ...], value: float) -> None:
        """One observation of a histogram, in its exposed unit. ValueError for other kinds."""

    def watch(self, values: tuple[str, ...], function: Callable[[], float]) -> None:
        """Let a function give the child's value whenever the page is read; when it raises, the sample is missing."""

    def forget(self, values: tuple[str, ...] | None = None) -> None:
        """Drop what `set` and `watch` gave a child, or all children."""

    def collect(self) -> list[tuple[tuple[str, ...], float | tuple[list[int], float]]]:
        """Label values and value of each exposed child, sorted; for histograms the count of each bucket (+Inf last) and the sum."""

def prepare(workers: int) -> None:
    """Map the rows of this many workers. ValueError above 64, OSError without address space."""

def cells() -> int:
    """How many cells are in use."""
