"""Quantiles of histograms, as Prometheus's `histogram_quantile` estimates them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["quantile"]


def quantile(share: float, bounds: Sequence[float], counts: Sequence[float]) -> float | None:
    """The value below which ``share`` (0 to 1) of the observations are, in the unit of ``bounds``; linear within a bucket. None without observations.

    ``counts`` has a count for each bucket, of those above the last bound at its end; these count as the last bound.
    """
    wanted = share * sum(counts)
    if not bounds or not sum(counts):
        return None
    below, lower = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= wanted:
            return lower + (bound - lower) * (wanted - below) / count
        below += count
        lower = bound
    return bounds[-1]
