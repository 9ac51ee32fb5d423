"""The highest rate at which a server still does as it should."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fastdns.bench.result import Plan, Result
from fastdns.bench.thresholds import Threshold

__all__ = ["Search", "find"]

#: A server is asked this much faster each time, until it fails,
GROWTH = 2.0
#: and then in between, until the bounds are so near.
PRECISION = 0.05
#: Queries of the run that tells a server that answers nothing from one that is asked too much.
FEW = 10


@dataclass(slots=True)
class Search:
    """What was found: the highest rate that held (0: none did), its result, and all that was tried."""

    rate: float = 0
    best: Result | None = None
    tried: list[tuple[float, bool, Result]] = field(default_factory=list)
    #: Why no other rate was tried, when that is not the conditions.
    limit: str = ""

    def silent(self) -> bool:
        """Whether no query has been answered at any rate."""
        return not any(result.answered or result.wrong for _, _, result in self.tried)


def find(
    run: Callable[[Plan], Result],
    plan: Plan,
    conditions: Sequence[Threshold],
    *,
    first: float = 1000,
    highest: float = 5_000_000,
    precision: float = PRECISION,
    progress: Callable[[float, bool, Result], None] | None = None,
    stop: threading.Event | None = None,
) -> Search:
    """Runs `plan` at rates from `first` on, twice the last until a condition does not hold, then between what held and what did not.

    A rate that did not hold is tried a second time before it counts: a machine's hiccup is not the server's limit. A server that answers nothing is
    asked once more, slowly, and no further. `stop` ends the search with what it has; the run under way then does not count.
    """
    found = Search()

    def holds(rate: float) -> bool:
        for _ in range(2):
            result = run(dataclasses.replace(plan, rate=rate, steps=[]))
            if stop is not None and stop.is_set():
                raise Stopped
            good = all(condition.holds(result) for condition in conditions) and not result.wrongs
            found.tried.append((rate, good, result))
            if progress is not None:
                progress(rate, good, result)
            if good:
                found.rate, found.best = rate, result
                return True
        return False

    try:
        low, high = 0.0, first
        while holds(high):
            low, high = high, high * GROWTH
            if high > highest:
                found.limit = f"nothing above {highest:g} queries per second was tried"
                return found
        if not low and found.silent():
            low = min(high, max(1.0, FEW / plan.seconds))
            if not holds(low):
                if found.silent():
                    found.limit = "nothing answers"
                    return found
                high, low = low, 0.0
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
    except Stopped:
        found.limit = "stopped"
    return found


class Stopped(Exception):
    """The search was stopped."""
