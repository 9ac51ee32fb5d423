"""The highest rate at which a server still does as it should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fastdns.bench.result import Plan, Result
from fastdns.bench.thresholds import Threshold

__all__ = ["Search", "find"]

#: A server is asked this much faster each time, until it fails,
GROWTH = 2.0
#: and then in between, until the bounds are so near.
PRECISION = 0.05


@dataclass(slots=True)
class Search:
    """What was found: the highest rate that held (0: none did), its result, and all that was tried."""

    rate: float = 0
    best: Result | None = None
    tried: list[tuple[float, bool, Result]] = field(default_factory=list)
    #: Why nothing faster was tried, when that is not the server.
    limit: str = ""


def find(
    run: Callable[[Plan], Result],
    plan: Plan,
    conditions: Sequence[Threshold],
    *,
    first: float = 1000,
    highest: float = 5_000_000,
    precision: float = PRECISION,
    progress: Callable[[float, bool, Result], None] | None = None,
) -> Search:
    """Runs `plan` at rates from `first` on, twice the last until a condition does not hold, then between what held and what did not.

    A rate that did not hold is tried a second time before it counts: a machine's hiccup is not the server's limit.
    """
    found = Search()

    def holds(rate: float) -> bool:
        for _ in range(2):
            result = run(dataclasses.replace(plan, rate=rate, steps=[]))
            good = all(condition.holds(result) for condition in conditions) and not result.wrongs
            found.tried.append((rate, good, result))
            if progress is not None:
                progress(rate, good, result)
            if good:
                found.rate, found.best = rate, result
                return True
        return False

    low, high = 0.0, first
    while holds(high):
        low, high = high, high * GROWTH
        if high > highest:
            found.limit = f"nothing above {highest:g} queries per second was tried"
            return found
    if not low:
        low = high / GROWTH
        while not holds(low):
            high, low = low, low / GROWTH
            if low < 1:
                return found
    while high - low > precision * high:
        middle = (low * high) ** 0.5
        if holds(middle):
            low = middle
        else:
            high = middle
    return found
