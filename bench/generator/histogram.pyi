"""Latencies counted in log-linear buckets of 1/128: from nanoseconds to two minutes with at most 0.8 % of error."""

from typing import Any, Self

class Histogram:
    """How often something took how long. All histograms have the same buckets, so that adding loses nothing."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float:
        """Seconds, exact; 0 for an empty histogram."""

    @property
    def minimum(self) -> float:
        """Seconds, exact; 0 for an empty histogram."""

    @property
    def maximum(self) -> float:
        """Seconds, exact; 0 for an empty histogram."""

    def record(self, seconds: float, times: int = 1) -> None:
        """ValueError for what is not a length of time."""

    def add(self, other: Histogram) -> None:
        """Count everything that another one counted, too."""

    def percentile(self, p: float) -> float:
        """Seconds that `p` percent took at most, p from 0 (the minimum) to 100 (the maximum); 0 for an empty histogram."""

    def buckets(self) -> list[tuple[float, float, int]]:
        """Begin and end in seconds, and count, of the buckets that are not empty."""

    def to_json(self) -> dict[str, Any]:
        """What JSON can hold; only buckets that are not empty."""

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The same histogram again. ValueError or KeyError when it is none."""

    def __eq__(self, other: object) -> bool: ...
