"""A wheel of timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native import compiled

if TYPE_CHECKING:
    from tests.native._timers import Timers as Timers
else:
    Timers = compiled("_timers").Timers
