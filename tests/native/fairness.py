"""A fair queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native import compiled

if TYPE_CHECKING:
    from tests.native._fairness import LEVELS as LEVELS
    from tests.native._fairness import Entries as Entries
else:
    LEVELS = compiled("_fairness").LEVELS
    Entries = compiled("_fairness").Entries
