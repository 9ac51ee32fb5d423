"""Judges a canary by its clients, so that no single client decides about all others.

Sums of answers would let one client that asks for broken names end every canary, and one that asks for good names hide a broken one. Therefore each client
counts by the share of its answers that fail, the worst client of each side is left out, and a canary fails a condition only if more fails than in the
configuration that serves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["LEAST", "LEAST_BAD", "LEAST_CLIENTS", "ClientCount", "Side", "exceeds", "side_of"]

#: Answers of which a condition takes a share at least: with fewer, those that are missing count as good ones.
LEAST = 100
#: Answers that fail a condition at least, however small its share is.
LEAST_BAD = 2
#: Clients that fail a condition at least.
LEAST_CLIENTS = 2
#: Standard deviations by which the shares of failing clients differ at least, where clients of the serving configuration fail, too: for one of these, for
#: each further one, and at most. Many looks are taken, and many forged addresses make small differences certain.
DEVIATIONS, DEVIATIONS_EACH, DEVIATIONS_MOST = 1.4, 0.1, 3.0

#: Network, client, whether its address is proven, answers that fail, all answers: of one worker.
ClientCount = tuple[int, int, bool, int, int]


class Side(NamedTuple):
    """The clients of one configuration, for one condition."""

    #: Clients with answers.
    clients: int
    #: Clients of whose own answers more than the condition's share fail.
    failing: int
    #: Answers that fail.
    bad: int
    #: The share that fails, for all clients but the worst one: of all answers, and the mean of clients and of networks.
    means: tuple[float, float, float]


def exceeds(share: float, canary: Iterable[ClientCount], serving: Iterable[ClientCount]) -> bool:
    """Whether the canary fails a condition: for all clients, or for those whose address is proven, whom no forged address hides."""
    canary, serving = list(canary), list(serving)
    return any(_exceeds(share, side_of(share, canary, proven), side_of(share, serving, proven)) for proven in (False, True))


def _exceeds(share: float, canary: Side, serving: Side) -> bool:
    if canary.failing < LEAST_CLIENTS or canary.bad < LEAST_BAD or canary.bad <= share * LEAST:
        return False
    if all(own - other <= share for own, other in zip(canary.means, serving.means, strict=True)):
        return False
    return not serving.failing or _deviations(canary, serving) >= min(DEVIATIONS + DEVIATIONS_EACH * (serving.failing - 1), DEVIATIONS_MOST)


def _deviations(canary: Side, serving: Side) -> float:
    """By how many standard deviations the share of failing clients exceeds that of the serving configuration (test of two proportions)."""
    pooled = (canary.failing + serving.failing) / (canary.clients + serving.clients)
    variance = pooled * (1 - pooled) * (1 / canary.clients + 1 / serving.clients)
    difference = canary.failing / canary.clients - serving.failing / serving.clients
    return difference / math.sqrt(variance) if variance else 0.0


def side_of(share: float, rows: Iterable[ClientCount], proven_only: bool = False) -> Side:
    """The clients of one configuration, whose counts of several workers are added."""
    merged: dict[int, list[int]] = {}
    for network, client, proven, bad, total in rows:
        if total and (proven or not proven_only):
            own = merged.setdefault(client, [network, 0, 0])
            own[1] += bad
            own[2] += total
    shares = sorted((bad / total, bad, total, network) for network, bad, total in merged.values())
    rest = shares[:-1]
    networks: dict[int, list[float]] = {}
    for own_share, _, _, network in rest:
        networks.setdefault(network, []).append(own_share)
    means = (
        sum(bad for _, bad, _, _ in rest) / max(1, sum(total for _, _, total, _ in rest)),
        _mean([own_share for own_share, *_ in rest]),
        _mean([_mean(own_shares) for own_shares in networks.values()]),
    )
    return Side(len(shares), sum(own_share > share for own_share, *_ in shares), sum(bad for _, bad, _, _ in shares), means)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
