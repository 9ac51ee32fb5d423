"""Which records a name has, of all objects that want it.

Kinds have ranks. Of the objects that have records for a name those of the lowest rank count, together; records of higher ranks are kept for the time when
these are gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address

from fastdns._wire import name_wire
from fastdns.protocol.parameters import TYPE_SOA, type_number

__all__ = ["Names", "Row", "Zones", "address_row"]

#: Type, TTL in seconds, rdata in uncompressed wire form.
Row = tuple[int, int, bytes]

TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS = (type_number(name) for name in ("A", "AAAA", "CNAME", "NS"))
#: Types that are the zone's own, or that no zone has: SOA, those of DNSSEC, and meta types (128 to 255, OPT).
FORBIDDEN = {TYPE_SOA, 0, 41, *(type_number(name) for name in ("RRSIG", "NSEC", "NSEC3", "NSEC3PARAM", "DNSKEY", "DS", "DNAME")), *range(128, 256)}
#: Records of a name, types of a name, and names of an object.
RECORDS_MOST = 1_000
TYPES_MOST = 32
NAMES_MOST = 1_000
#: Records of an object at all its names.
OBJECT_MOST = 20_000

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
        #: By zone and owner: what each object says, with its rank.
        self._claims: dict[tuple[int, bytes], dict[Hashable, tuple[int, tuple[Row, ...]]]] = {}
        #: The names of each object.
        self._of_object: dict[Hashable, list[tuple[int, bytes]]] = {}
        #: The records that serve.
        self.served: dict[tuple[int, bytes], tuple[Row, ...]] = {}
        #: Names to look at.
        self._touched: set[tuple[int, bytes]] = set()

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
                if row[0] in (TYPE_CNAME, TYPE_NS) and place[1] in self.protected:
                    self.refused(f"{key}: an alias or delegation at {hostname} is left out")
                else:
                    found.setdefault(place, []).append(row)
        for place in self._of_object.pop(key, ()):
            if place not in found:
                claims = self._claims[place]
                del claims[key]
                if not claims:
                    del self._claims[place]
                self._touched.add(place)
        for place, rows in found.items():
            claim = (rank, tuple(rows))
            claims = self._claims.setdefault(place, {})
            if claims.get(key) != claim:
                claims[key] = claim
                self._touched.add(place)
        if found:
            self._of_object[key] = list(found)

    def _places(self, key: Hashable, hostname: str) -> list[tuple[int, bytes]]:
        try:
            return self.zones.places(hostname)
        except ValueError as error:
            self.refused(f"{key}: {error}")
            return []

    def changes(self) -> dict[tuple[int, bytes], tuple[tuple[Row, ...], tuple[Row, ...]]]:
        """The names whose records are others now, with those before and after; they count as served."""
        changed = {}
        for place in self._touched:
            before, after = self.served.get(place, ()), self._merged(place)
            if before != after:
                changed[place] = (before, after)
                if after:
                    self.served[place] = after
                else:
                    del self.served[place]
        self._touched.clear()
        return changed

    def _merged(self, place: tuple[int, bytes]) -> tuple[Row, ...]:
        """Records of the lowest rank, each once; those of a type with the least TTL of these (RFC 2181 5.2). An alias only where nothing else is."""
        claims = self._claims.get(place)
        if not claims:
            return ()
        lowest = min([rank for rank, _ in claims.values()])
        rows = [row for rank, claim in claims.values() if rank == lowest for row in claim]
        least: dict[int, int] = {}
        for kind, ttl, _ in rows:
            if ttl < least.get(kind, ttl + 1):
                least[kind] = ttl
        if TYPE_CNAME in least and len(least) == 1:
            return ((TYPE_CNAME, least[TYPE_CNAME], min(rdata for _, _, rdata in rows)),)
        kinds = set(sorted(least.keys() - {TYPE_CNAME})[:TYPES_MOST])
        merged = {(kind, least[kind], rdata) for kind, _, rdata in rows if kind in kinds}
        return tuple(sorted(merged)[:RECORDS_MOST])
