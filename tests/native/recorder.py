"""A sink of objects for tests of *kubernetes*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native import compiled

if TYPE_CHECKING:
    from tests.native._recorder import Recorder as Recorder
else:
    Recorder = compiled("_recorder").Recorder
