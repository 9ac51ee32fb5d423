"""What one headless service may take of a cluster's zone: SRV records are the product of endpoints and ports."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone.changes import Changes
from fastdns.plugins.transfer.journal import Row
from tests.plugins.kubernetes.objects import Object, give_events, give_list, namespace, service, slice_of
from tests.plugins.kubernetes.test_journal import KINDS, ZONE, Replica

#: Bounds of zone/selection.pxd.
ENDPOINTS_MOST, SRV_FREE, SRV_EACH = 15_000, 4_096, 4
TYPE_A, TYPE_SRV = 1, 33
#: Records of one type at one name that an index holds.
RRSET_MOST = 65_535
BIG = (0, b"\x03big\x04evil")


def slices(count: int, endpoints: int, ports: int, one_name: bool = False, seed: int | None = None) -> list[Object]:
    """Slices of evil/big; a seed shuffles what has no order in the API."""
    names = ["p" if one_name else f"p{number}" for number in range(ports)]
    made = [
        slice_of(
            f"evil/big-{number}",
            "big",
            *(f"10.{number}.{host >> 8}.{host & 255}" for host in range(endpoints)),
            ports=[f"{name}:TCP:{1000 + at}" for at, name in enumerate(names)],
            version=1 + number,
        )
        for number in range(count)
    ]
    if seed is not None:
        order = random.Random(seed)
        for one in made:
            order.shuffle(one["endpoints"])
            order.shuffle(one["ports"])
        order.shuffle(made)
    return made


def filled(*items: Object) -> Store:
    store = Store()
    give_list(store, Kind.NAMESPACE, namespace("evil"), namespace("shop"))
    give_list(store, Kind.SERVICE, service("evil/big", "None"), service("shop/web", "10.96.0.1"))
    give_list(store, Kind.SLICE, *items)
    return store


def changes_of(store: Store) -> Changes:
    return Changes(Kubernetes("kubernetes", store, ["cluster.local."], "cluster.local.", kinds=KINDS), ZONE)


def names(rows: Iterable[Row]) -> Counter[tuple[bytes, int]]:
    return Counter((owner, kind) for owner, kind, _, _ in rows)


@pytest.mark.parametrize("one_name", [False, True])
@pytest.mark.parametrize(("count", "endpoints", "ports"), [(1, 2, 4_000), (3, 200, 100), (16, 1_000, 20)])
def test_a_product_is_bounded(count: int, endpoints: int, ports: int, one_name: bool) -> None:
    changes = changes_of(filled(*slices(count, endpoints, ports, one_name)))
    rows = Replica(changes).rows
    shown = min(count * endpoints, ENDPOINTS_MOST)
    kept = Counter(kind for owner, kind, _, _ in rows if b"\x03big\x04evil" in owner)
    assert kept[TYPE_A] == 2 * shown
    assert kept[TYPE_SRV] + shown > SRV_FREE
    assert kept[TYPE_SRV] <= SRV_FREE + SRV_EACH * shown
    left_out = 2 * (count * endpoints - shown) + shown * ports - kept[TYPE_SRV]
    assert changes.left_out() == {BIG: left_out}
    assert max(names(rows).values()) <= RRSET_MOST
    if not one_name and count * endpoints <= ENDPOINTS_MOST:
        complete = {number for (_, kind), number in names(rows).items() if kind == TYPE_SRV and number > 1}
        assert complete <= {shown}, "the names of the ports that are there have all endpoints"
    changes.close()


def test_a_service_within_the_bound_is_whole() -> None:
    changes = changes_of(filled(*slices(2, 500, 8)))
    assert Counter(row[1] for row in Replica(changes).rows if b"\x03big" in row[0])[TYPE_SRV] == 8_000
    assert changes.left_out() is None
    changes.close()


@pytest.mark.parametrize(("count", "endpoints", "ports"), [(3, 200, 100), (16, 1_000, 6)])
def test_objects_alone_decide(count: int, endpoints: int, ports: int) -> None:
    """Two servers that have the same objects in another order have the same records, also when they came one after the other."""
    first, second = filled(*slices(count, endpoints, ports)), filled()
    several, other = changes_of(first), changes_of(second)
    other.advance()
    for one in slices(count, endpoints, ports, seed=7):
        give_events(second, Kind.SLICE, ("ADDED", one))
        other.advance()
    assert Replica.of(other).rows == Replica(several).rows
    assert several.zonemd[3][6:] == other.zonemd[3][6:]
    several.close()
    other.close()


def test_changes_of_others_go_on() -> None:
    """A version that changes more than a journal keeps has a digest and no differences; later ones have them."""
    store = filled()
    changes = changes_of(store)
    replica = Replica(changes)
    for one in slices(16, 1_000, 10):
        give_events(store, Kind.SLICE, ("ADDED", one))
    give_events(store, Kind.SERVICE, ("MODIFIED", service("shop/web", "10.96.0.2")))
    assert changes.advance() == (None, None)
    assert changes.too_large
    replica = Replica.of(changes)
    give_events(store, Kind.SERVICE, ("MODIFIED", service("shop/web", "10.96.0.3")))
    give_events(store, Kind.SLICE, ("DELETED", slices(16, 1_000, 10)[3]))
    replica.follow()
    assert not changes.too_large
    changes.close()
