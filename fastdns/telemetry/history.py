"""Time series of the last hour, one sample each ten seconds, in memory that does not grow.

Somebody who wants them calls `sample` each `STEP` seconds: the plugin *console*. A series has a ring of `SAMPLES` numbers, and there are at most
`SERIES_MAX` of them; one that is new when all are taken replaces the one that has had no number for longest, if that is an hour, or is left out.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Mapping
from typing import Any

__all__ = ["SAMPLES", "SERIES_MAX", "STEP", "clear", "sample", "since"]

#: Seconds between two samples.
STEP = 10.0
SAMPLES = 360
SERIES_MAX = 64

_lock = threading.Lock()
_rings: dict[str, array[float]] = {}
#: By name the number of the sample in which a series last had a value.
_seen: dict[str, int] = {}
_left_out = 0
#: Number of the newest sample, from 1, and its time.
_last = 0
_time = 0.0


def sample(values: Mapping[str, float | None]) -> None:
    """Add a sample of all series; a series that is not named has a gap."""
    global _last, _time, _left_out
    with _lock:
        _last += 1
        _time = time.time()
        _left_out = 0
        for name, value in values.items():
            if value is None or not math.isfinite(value):
                continue
            if name not in _rings and not _make_room(name):
                _left_out += 1
                continue
            _seen[name] = _last
        for name, ring in _rings.items():
            value = values.get(name)
            ring[_last % SAMPLES] = math.nan if value is None else value


def _make_room(name: str) -> bool:
    """A ring of gaps for a new series."""
    if len(_rings) >= SERIES_MAX:
        oldest = min(_seen, key=_seen.__getitem__)
        if _last - _seen[oldest] < SAMPLES:
            return False
        del _rings[oldest], _seen[oldest]
    _rings[name] = array("d", [math.nan]) * SAMPLES
    return True


def since(number: int) -> dict[str, Any]:
    """The samples after this number, at most `SAMPLES`: ``step`` in seconds, numbers of the ``first`` and ``last`` one, and the ``time`` of the last."""
    with _lock:
        first = max(number + 1, _last - SAMPLES + 1, 1)
        if number > _last:  # of a process before this one
            first = max(1, _last - SAMPLES + 1)
        series = {name: [_shown(ring[at % SAMPLES]) for at in range(first, _last + 1)] for name, ring in sorted(_rings.items())}
        return {"step": STEP, "first": first, "last": _last, "time": _time, "series": series, "left_out": _left_out}


def _shown(value: float) -> float | None:
    """Four digits are enough for a picture, and JSON has no NaN."""
    return None if math.isnan(value) else float(f"{value:.4g}")


def clear() -> None:
    """Forget all, and give the memory back."""
    global _last, _time, _left_out
    with _lock:
        _rings.clear()
        _seen.clear()
        _last, _time, _left_out = 0, 0.0, 0
