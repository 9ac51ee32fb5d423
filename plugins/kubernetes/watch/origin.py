"""What all that asks API servers has in common; `address`, `connection` and `client` are imported where one is asked."""

from __future__ import annotations

from typing import NamedTuple


class ApiConfigError(Exception):
    """The way to the API server is not usable as it is written; the text is what the operator sees."""


class Limits(NamedTuple):
    """What the apiserver_* properties set: requests a second, how many at once after a pause, and how many may wait for a reply at once; 0
    takes client-go's default (5, 10, no limit)."""

    qps: float = 0.0
    burst: int = 0
    inflight: int = 0
