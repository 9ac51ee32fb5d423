"""How tests wait: for something to happen, never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which what has not happened never will, on the slowest and busiest machine that these tests run on.
LIMIT = 60.0
#: Seconds for the reply to one query, request or connect there.
REPLY = 15.0


def until(condition: Callable[[], T], what: str = "it", limit: float = LIMIT) -> T:
    """The first true value that the condition gives. Raises AssertionError when there is none within the limit."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {limit:g} s"
        time.sleep(0.01)
    return value
