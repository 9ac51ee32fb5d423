"""Two ends of a TLS connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.native import compiled

if TYPE_CHECKING:
    from tests.native._tls import Pair as Pair
else:
    Pair = compiled("_tls").Pair
