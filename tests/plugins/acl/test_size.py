"""acl: what tables take."""

from __future__ import annotations

import pytest

from fastdns.plugins.acl._table import PolicyTable
from fastdns.plugins.acl.rules import EVERYWHERE, TABLE_MAX, Policy

#: Octets: of a set at most, and of a policy without its values.
SET, LINE = 608, 64
#: Sets of networks and types that are combined, and those of all types.
PAIRS, CLASSES = 8192, 300


def network(number: int, bits: int) -> tuple[bytes, int]:
    return (10 << 24 | number << 8).to_bytes(4, "big"), bits


@pytest.mark.parametrize("types", [1, 3, 100])
def test_size_is_bounded(types: int) -> None:
    """Each policy has a zone of its own. Every second one is for all networks, so the set of each network has all words."""
    own = [(network(number, 24), network(number, 8 + number % 16)) for number in range(TABLE_MAX)]
    policies = [Policy("block", (number % types + 1,), EVERYWHERE if number % 2 else own[number]) for number in range(TABLE_MAX)]
    table = PolicyTable([(number, number, policy) for number, policy in enumerate(policies)], [{number} for number in range(TABLE_MAX)], [])
    networks = {network for policy in policies for network in policy.networks}
    assert table.size < SET * (PAIRS + TABLE_MAX + 2 * len(networks) + CLASSES) + LINE * TABLE_MAX < 16_000_000


def test_what_is_not_combined() -> None:
    """Where there are more networks and types than a table combines, it has a set for each of them."""
    sizes = []
    for count in (80, 200):
        policies = [Policy("block", (number % count + 1,), (network(number, 24),)) for number in range(count)]
        sizes.append(PolicyTable([(number, 0, policy) for number, policy in enumerate(policies)], [{0}], []).size)
    assert sizes[1] < sizes[0]
