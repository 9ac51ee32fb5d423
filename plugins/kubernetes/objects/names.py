"""Which records a name has, of all objects that want it.

What objects claim is kept, also where it does not count: it may once others are gone. When the records of a shared claim change, its names are looked at some
at a time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from itertools import chain

from fastdns._wire import name_text, name_wire
from fastdns.plugins.kubernetes.objects.claims import ALIASES, RECORDS_MOST, Change, Claim, Owner, Row, SharedClaim
from fastdns.protocol.parameters import TYPE_SOA, type_number

__all__ = ["Names", "Zones", "address_row", "shared_most"]

TYPE_A, TYPE_AAAA = type_number("A"), type_number("AAAA")
#: Types that are the zone's own, or that no zone has: SOA, those of DNSSEC, and meta types (128 to 255, OPT).
FORBIDDEN = {TYPE_SOA, 0, 41, *(type_number(name) for name in ("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "DS", "DNAME")), *range(128, 256)}
#: Names of an object, and records of an object at all its names.
NAMES_MOST = 1_000
OBJECT_MOST = 20_000
#: What it costs to ask the source of a shared claim, in names.
READ_COST = 16

HOSTNAME = re.compile(r"(?:\*\.)?[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?|\*\.?")


@lru_cache(maxsize=1024)
def address_row(text: str, ttl: int) -> Row | None:
    """An A or AAAA record; None where the text is no address. An IPv4-mapped one has family 4, as in Go's net.ParseIP."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if address.version == 6:
        if address.scope_id is not None:
            return None
        if address.ipv4_mapped is not None:
            return TYPE_A, ttl, address.ipv4_mapped.packed
        return TYPE_AAAA, ttl, address.packed
    return TYPE_A, ttl, address.packed


class Zones:
    """Where names belong."""

    def __init__(self, origins: Sequence[str]) -> None:
        self.wires = [name_wire(origin.lower()) for origin in origins]
        self._by_text = {origin.lower().rstrip("."): place for place, origin in enumerate(origins)}

    def places(self, hostname: str) -> list[tuple[int, bytes]]:
        """Zone and owner for each place of a host name: one in its zone, else one below each of the zones; it is not where it is too long.

        Raises ValueError where it is no host name: labels of letters, digits, ``-`` and ``_``, the first of them perhaps ``*``.
        """
        text = hostname.lower()
        if len(text) > 254 or not HOSTNAME.fullmatch(text):
            raise ValueError(f"no host name: {hostname[:300]!r}")
        labels = text.rstrip(".").split(".")
        for at in range(len(labels) + 1):
            place = self._by_text.get(".".join(labels[at:]))
            if place is not None:
                return self._owners([place], labels[:at])
        return [] if text.endswith(".") else self._owners(range(len(self.wires)), labels)

    def _owners(self, places: Iterable[int], labels: list[str]) -> list[tuple[int, bytes]]:
        octets = b"".join(b"%c%b" % (len(label), label.encode()) for label in labels)
        return [(place, octets + self.wires[place]) for place in places if len(octets) + len(self.wires[place]) <= 255]


class Names:
    """The names of some zones, with their records. ``refused(text)`` is told what is left out."""

    def __init__(self, zones: Zones, protected: Iterable[bytes], refused: Callable[[str], object]) -> None:
        self.zones = zones
        #: Names of zones and of their servers: they can be no aliases, and delegations neither.
        self.protected = frozenset(protected)
        self.refused = refused
        #: By zone and owner, those that anybody claims or that serve.
        self._owners: dict[tuple[int, bytes], Owner] = {}
        #: The names of each object.
        self._of_object: dict[Hashable, list[Owner]] = {}
        #: The number of names that have records.
        self.serving = 0
        #: Names to look at, and shared claims whose names wait for their turn.
        self._touched: set[Owner] = set()
        self._queue: deque[SharedClaim] = deque()

    # ---- what objects say ----

    def put(self, key: Hashable, rank: int, records: Iterable[tuple[str, Row]]) -> None:
        """Replace what an object says; nothing: it is gone."""
        found: dict[tuple[int, bytes], list[Row]] = {}
        hostnames: dict[str, list[tuple[int, bytes]]] = {}
        count = 0
        for hostname, row in records:
            places = hostnames.get(hostname)
            if places is None:
                if len(hostnames) == NAMES_MOST:
                    self.refused(f"{key} has more than {NAMES_MOST} names: the others are left out")
                    break
                places = hostnames[hostname] = self._places(key, hostname)
            if row[0] in FORBIDDEN:
                self.refused(f"{key}: a record of type {row[0]} is left out")
                continue
            count += 1
            if count > OBJECT_MOST:
                self.refused(f"{key} has more than {OBJECT_MOST} records: the others are left out")
                break
            for place in places:
                if row[0] in ALIASES and place[1] in self.protected:
                    self.refused(f"{key}: an alias or delegation at {hostname} is left out")
                else:
                    found.setdefault(place, []).append(row)
        self._claim(key, {place: Claim(rank, tuple(rows)) for place, rows in found.items()})

    def share(self, key: Hashable, claim: SharedClaim, hostnames: Iterable[str]) -> None:
        """Replace what an object says by a claim that others share, and whose `most` is that of `shared_most`."""
        found: dict[tuple[int, bytes], Claim] = {}
        for number, hostname in enumerate(dict.fromkeys(hostnames)):
            if number == NAMES_MOST:
                self.refused(f"{key} has more than {NAMES_MOST} names: the others are left out")
                break
            for place in self._places(key, hostname):
                found[place] = claim
        if not claim.queued:
            self._read(claim)
        self._claim(key, found)
        self._refuse_aliases(str(key), claim, self._of_object.get(key, ()))

    def renew(self, claim: SharedClaim) -> None:
        """The source of a shared claim may give other records now: it is asked in its turn."""
        claim.stale = True
        if not claim.queued:
            claim.queued = True
            self._queue.append(claim)

    def _read(self, claim: SharedClaim) -> None:
        """Ask the source, if need be. Other records than before are for all names."""
        if not claim.stale:
            return
        claim.stale = False
        kept: list[Row] = []
        for row in dict.fromkeys(claim.source()):
            if row[0] in FORBIDDEN:
                self.refused(f"{claim.about}: a record of type {row[0]} is left out")
            elif len(kept) == claim.most:
                self.refused(f"{claim.about}: more than {claim.most} records: the others are left out")
                break
            else:
                kept.append(row)
        if tuple(kept) != claim.rows:
            claim.set(tuple(kept))
            claim.rest = list(claim.owners)
            self._refuse_aliases(claim.about, claim, claim.rest)

    def _refuse_aliases(self, about: str, claim: SharedClaim, owners: Iterable[Owner]) -> None:
        if claim.aliases:
            for owner in owners:
                if owner.protected:
                    self.refused(f"{about}: an alias or delegation at {name_text(owner.name)} is left out")

    def _claim(self, key: Hashable, found: Mapping[tuple[int, bytes], Claim]) -> None:
        for owner in self._of_object.pop(key, ()):
            if (owner.zone, owner.name) not in found:
                self._leave(owner, key)
        owners = []
        for place, claim in found.items():
            if place not in self._owners:
                self._owners[place] = Owner(*place, place[1] in self.protected)
            owner = self._owners[place]
            owners.append(owner)
            before = owner.claims.get(key)
            if before is None or not before.says(claim):
                self._leave(owner, key)
                owner.claim(key, claim)
                if isinstance(claim, SharedClaim):
                    claim.claimed(owner, 1)
        if owners:
            self._of_object[key] = owners

    def _leave(self, owner: Owner, key: Hashable) -> None:
        before = owner.claims.get(key)
        if isinstance(before, SharedClaim):
            before.claimed(owner, -1)
        if before is not None:
            owner.claim(key, None)
        self._touched.add(owner)

    def _places(self, key: Hashable, hostname: str) -> list[tuple[int, bytes]]:
        try:
            return self.zones.places(hostname)
        except ValueError as error:
            self.refused(f"{key}: {error}")
            return []

    # ---- what serves ----

    def changes(self, most: int | None = None) -> list[Change]:
        """The names whose records are others now, which count as served. Of shared claims at most so many names are looked at; None: all."""
        changes: dict[tuple[int, int, int], Change] = {}
        touched, self._touched = self._touched, set()
        for owner in chain(touched, self._take(most)):
            before = owner.served
            after = owner.records() if owner.alone is None else owner.alone.merged
            if before is not after and before != after:
                owner.served = after
                self.serving += bool(after) - bool(before)
                change = changes.get((owner.zone, id(before), id(after)))
                if change is None:  # from now on it holds what the key stands for
                    change = changes[owner.zone, id(before), id(after)] = Change(owner.zone, before, after, [])
                change.owners.append(owner.name)
            if not after and not owner.claims and self._owners.get((owner.zone, owner.name)) is owner:
                del self._owners[owner.zone, owner.name]
        return list(changes.values())

    def _take(self, most: int | None) -> list[Owner]:
        """The next names of shared claims, some of each in turn."""
        taken: list[Owner] = []
        cost = 0
        while self._queue and (most is None or cost < most):
            claim = self._queue.popleft()
            if not claim.rest:
                self._read(claim)
                cost += READ_COST
            room = len(claim.rest) if most is None else max(0, most - cost)
            taken += claim.rest[:room]
            cost += len(claim.rest[:room])
            del claim.rest[:room]
            claim.queued = bool(claim.rest) or claim.stale
            if claim.queued:
                self._queue.append(claim)
        return taken

    @property
    def pending(self) -> bool:
        """Whether names of shared claims wait for another call of `changes`."""
        return bool(self._queue)

    def records(self, zone: int) -> list[tuple[bytes, tuple[Row, ...]]]:
        """The names of a zone with the records that serve."""
        return [(owner.name, owner.served) for owner in self._owners.values() if owner.zone == zone and owner.served]


def shared_most(names: int) -> int:
    """Records that a shared claim may have when objects of so many names share it."""
    return max(1, min(RECORDS_MOST, OBJECT_MOST // max(1, min(names, NAMES_MOST))))
