"""What the machine costs by itself: other numbers of the same run are judged by these."""

from __future__ import annotations

from fastdns.bench.micro.conftest import Timed
from fastdns.bench.micro.loops import Walk, yardstick

PLACES = 1 << 20


def test_clock(timed: Timed) -> None:
    assert timed(1_000_000, yardstick, 1_000_000) in (0, 1)


def test_memory(timed: Timed) -> None:
    """4 MiB: more than a core has for itself, and less than what all share."""
    assert timed(PLACES, Walk(PLACES).steps, PLACES) == 0
