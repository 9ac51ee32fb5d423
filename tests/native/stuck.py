"""A handler that keeps its worker busy until it is told to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native import compiled

if TYPE_CHECKING:
    from tests.native._stuck import Stuck as Stuck
else:
    Stuck = compiled("_stuck").Stuck
