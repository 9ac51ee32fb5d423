"""Counters, gauges and histograms; the native side is in ``metrics.pxd``."""

from collections.abc import Callable, Sequence
from typing import Literal

#: Every metric by name.
registry: dict[str, Metric]

class Metric:
    """A metric and its children, one for each set of label values.

    A second Metric with the same name uses the same cells; ValueError when kind, labels or buckets differ.
    Children without an observation are not exposed, except for gauges and metrics without labels.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    #: Upper bounds of a histogram's buckets, in the exposed unit, without +Inf.
    bounds: tuple[float, ...]
    #: Raw units in one exposed unit: 1e9 for seconds stored as nanoseconds.
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
        """The first cell of a child, allocated when it is new. ``zero``: expose it before its first observation. MemoryError when no cell is left."""

    def table(self, axes: tuple[str | tuple[str, ...], ...]) -> int:
        """The first cell of a table of children in row-major order: each axis is one label's value or a tuple of values. MemoryError as `cell`."""

    def add(self, values: tuple[str, ...], n: int = 1) -> None:
        """Add n raw units to a child."""

    def set(self, values: tuple[str, ...], value: float) -> None:
        """Set a gauge."""

    def observe(self, values: tuple[str, ...], value: float) -> None:
        """Add one observation to a histogram, in its exposed unit. ValueError for other kinds."""

    def watch(self, values: tuple[str, ...], function: Callable[[], float]) -> None:
        """Register a function that returns the child's value whenever the metric is read. When it raises, the sample is left out."""

    def forget(self, values: tuple[str, ...] | None = None) -> None:
        """Remove what `set` and `watch` gave a child, or all children (None)."""

    def collect(self) -> list[tuple[tuple[str, ...], float | tuple[list[int], float]]]:
        """Label values and value of each exposed child, sorted; for histograms the count of each bucket (+Inf last) and the sum."""

def prepare(workers: int) -> None:
    """Map the rows of this many workers. ValueError above 64, OSError without address space."""

def workers() -> int:
    """The workers whose rows are mapped: those of the process, once it has started."""

def cells() -> int:
    """The number of cells in use."""
