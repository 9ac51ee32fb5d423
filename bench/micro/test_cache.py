"""What the cache's store costs: a hit, a miss, an insert."""

from __future__ import annotations

import dns.message
import dns.rrset
import pytest

from fastdns._wire import name_wire
from fastdns.bench.micro.conftest import Timed
from fastdns.bench.micro.loops import CacheStore, Names

NAMES = 1000


def names(prefix: str, count: int = NAMES) -> Names:
    return Names([name_wire(f"{prefix}-{i}.example.org.") for i in range(count)])


@pytest.fixture
def store() -> CacheStore:
    message = dns.message.make_response(dns.message.make_query("www.example.org.", "A"))
    message.answer = [dns.rrset.from_text("www.example.org.", 300, "IN", "A", "192.0.2.1")]
    return CacheStore(9984, message.to_wire())


@pytest.mark.parametrize("what", ["hit", "miss"])
def test_find(timed: Timed, store: CacheStore, what: str) -> None:
    stored = names("host")
    assert store.put(stored, 1) == NAMES
    asked = stored if what == "hit" else names("none")
    assert timed(100 * NAMES, store.find, asked, 100) == (100 * NAMES if what == "hit" else 0)


@pytest.mark.parametrize("what", ["renew", "evict"])
def test_insert(timed: Timed, store: CacheStore, what: str) -> None:
    """In place of the same name's entry, and in a full store, in place of another's."""
    count = NAMES if what == "renew" else 30 * NAMES
    asked = names("host", count)
    store.put(asked, 1)
    assert timed(30 * NAMES, store.put, asked, 30 * NAMES // count) == 30 * NAMES
