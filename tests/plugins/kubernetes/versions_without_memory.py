"""Memory ends while versions of a zone are made: ``python -m tests.plugins.kubernetes.versions_without_memory FOLDER``, under allocations.c of that folder.

A client goes on from what it has: by differences where there are some, else by the whole zone. Whichever allocation fails, it has what the zone has.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path

from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone import journal
from fastdns.plugins.transfer.journal import Row
from fastdns.plugins.transfer.version import Version, digest_of
from fastdns.protocol.parameters import TYPE_SOA, TYPE_ZONEMD
from tests.plugins.kubernetes.objects import give_events, give_list, namespace, service, slice_of
from tests.robustness.allocations import Allocations

#: Wire form of the zone.
ZONE = b"\x07cluster\x05local\x00"
#: Seconds until the next version that nobody asks for: none comes.
journal.WINDOW = 3600.0
numbers = count(1)


class Client:
    """Has a version, and goes on from it."""

    def __init__(self, zone: journal.ZoneJournal) -> None:
        self.zone = zone
        self.records: set[Row] = set()
        self.version: Version | None = None
        self.whole = self.differences = 0

    def follow(self) -> None:
        self.zone.advance()
        changes = self.zone.transfer_changes(self.version) if self.version is not None else None
        rows = list(self.zone.transfer() if changes is None else changes)
        if len(rows) == 1:
            return
        if rows[1][1] != TYPE_SOA:
            self.whole += 1
            self.records = content(rows)
        else:
            self.differences += 1
            second = next(at for at, row in enumerate(rows) if row[1] == TYPE_SOA and at > 1)
            deleted, added = content(rows[2:second]), content(rows[second:-1])
            assert deleted <= self.records, "deletes what is not there"
            assert not added & self.records, "adds what is there"
            self.records = self.records - deleted | added
        zonemd = [row for row in rows if row[1] == TYPE_ZONEMD][-1][3]
        self.version = Version(int.from_bytes(zonemd[:4], "big"), digest_of(zonemd))


def content(rows: list[Row]) -> set[Row]:
    return {row for row in rows if row[1] not in (TYPE_SOA, TYPE_ZONEMD)}


def change(store: Store) -> None:
    number = next(numbers)
    name = f"shop/new-{number % 20}"  # the zone does not grow, so that its allocations come to an end
    give_events(store, Kind.SERVICE, ("MODIFIED", service(name, f"10.1.{number >> 8 & 255}.{number & 255}")))
    give_events(store, Kind.SLICE, ("MODIFIED", slice_of("shop/db-1", "db", *(f"172.{number % 200}.0.{i + 1}" for i in range(40)))))


def main(folder: str) -> None:
    allocations = Allocations(Path(folder), own=True)
    store = Store()
    give_list(store, Kind.NAMESPACE, namespace("shop"))
    give_list(store, Kind.SERVICE, service("shop/db", "None"), *(service(f"shop/s{i}", f"10.0.0.{i}") for i in range(30)))
    give_list(store, Kind.SLICE, slice_of("shop/db-1", "db", *(f"172.16.0.{i + 1}" for i in range(40))))
    kinds = sum(1 << kind for kind in (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE))
    handler = Kubernetes("kubernetes", store, ["cluster.local."], "cluster.local.", kinds=kinds)
    zone = journal.ZoneJournal(handler, ZONE, None)
    zone.start()
    client = Client(zone)
    client.follow()
    met = 0
    # The writer notes a change, a version is made, the whole zone is given to somebody else.
    for step in (lambda: change(store), zone.advance, lambda: zone.transfer()):
        skip = 0
        while True:
            change(store)
            allocations.arm(skip=skip, fail=1)
            try:
                step()
            except MemoryError:
                pass
            failed = allocations.disarm()
            met += failed
            for _ in range(2):
                change(store)
                zone.advance()
                client.follow()
                assert client.records == content(list(zone.transfer())), f"allocation {skip}"
            if not failed:
                break
            skip += 1
            assert skip < 1000
    zone.stop()
    print(json.dumps({"met": met, "whole": client.whole, "differences": client.differences}))


if __name__ == "__main__":
    main(sys.argv[1])
