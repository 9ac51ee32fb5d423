"""What objects claim of names, and the records that come of it.

Of the objects that have records for a name those of the lowest rank count, together. Objects that have the same records for the same reason, as routes have
those of their Gateway, share one claim.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from fastdns.protocol.parameters import type_number

__all__ = ["ALIASES", "RECORDS_MOST", "TYPE_CNAME", "Change", "Claim", "Owner", "Row", "SharedClaim", "merge"]

#: Type, TTL in seconds, rdata in uncompressed wire form.
Row = tuple[int, int, bytes]

TYPE_CNAME, TYPE_NS = type_number("CNAME"), type_number("NS")
ALIASES = frozenset((TYPE_CNAME, TYPE_NS))
#: Records of a name, types of a name.
RECORDS_MOST = 1_000
TYPES_MOST = 32


class Claim:
    """What one object says of a name."""

    __slots__ = ("merged", "rank", "rows")

    def __init__(self, rank: int, rows: tuple[Row, ...]) -> None:
        self.rank = rank
        self.set(rows)

    def set(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        #: The records of a name that nobody else claims.
        self.merged = merge(rows)

    def says(self, other: Claim) -> bool:
        return other is self or (self.rank == other.rank and self.rows == other.rows)


class SharedClaim(Claim):
    """What many objects say of their names: at most ``most`` of the records that ``source`` gives. ``about`` names them where some are left out."""

    __slots__ = ("about", "most", "owners", "queued", "rest", "source", "stale")

    def __init__(self, rank: int, most: int, source: Callable[[], Iterable[Row]], about: str) -> None:
        super().__init__(rank, ())
        self.most = most
        self.source = source
        self.about = about
        #: How many objects claim each name.
        self.owners: dict[Owner, int] = {}
        #: The source may give others now.
        self.stale = True
        #: Names that are still to be looked at since the records have changed. It is queued while there are some, or while it is stale.
        self.rest: list[Owner] = []
        self.queued = False

    @property
    def aliases(self) -> bool:
        """Whether there are records that a protected name may not have."""
        return any(row[0] in ALIASES for row in self.rows)

    def says(self, other: Claim) -> bool:
        return other is self

    def claimed(self, owner: Owner, objects: int) -> None:
        """So many objects more claim a name."""
        self.owners[owner] = self.owners.get(owner, 0) + objects
        if not self.owners[owner]:
            del self.owners[owner]


class Owner:
    """A name of a zone: what each object claims of it, and the records that serve."""

    __slots__ = ("alone", "claims", "name", "protected", "served", "zone")

    def __init__(self, zone: int, name: bytes, protected: bool) -> None:
        #: The zone's number.
        self.zone = zone
        self.name = name
        #: It can be no alias, and no delegation.
        self.protected = protected
        self.claims: dict[Hashable, Claim] = {}
        #: The claim whose records are those of the name as they stand, if there is such a one.
        self.alone: Claim | None = None
        self.served: tuple[Row, ...] = ()

    def claim(self, key: Hashable, claim: Claim | None) -> None:
        """What an object says from now on; None: nothing."""
        if claim is not None:
            self.claims[key] = claim
        else:
            del self.claims[key]
        alone = len(self.claims) == 1 and not self.protected
        self.alone = next(iter(self.claims.values())) if alone else None

    def records(self) -> tuple[Row, ...]:
        """Those that the name should have."""
        found = {id(claim): claim for claim in self.claims.values() if claim.rows}
        lowest = min((claim.rank for claim in found.values()), default=0)
        claims = [claim for claim in found.values() if claim.rank == lowest]
        if len(claims) == 1 and not self.protected:
            return claims[0].merged
        rows = [row for claim in claims for row in claim.rows]
        return merge([row for row in rows if row[0] not in ALIASES] if self.protected else rows)


class Change(NamedTuple):
    """The records that some names of a zone have, and those that they had."""

    zone: int
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    owners: list[bytes]


def merge(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Records in order, each once, those of a type with the least TTL of these (RFC 2181 5.2). An alias only where nothing else is."""
    least: dict[int, int] = {}
    for kind, ttl, _ in rows:
        if ttl < least.get(kind, ttl + 1):
            least[kind] = ttl
    if TYPE_CNAME in least and len(least) == 1:
        return ((TYPE_CNAME, least[TYPE_CNAME], min(rdata for _, _, rdata in rows)),)
    kinds = set(sorted(least.keys() - {TYPE_CNAME})[:TYPES_MOST])
    merged = {(kind, least[kind], rdata) for kind, _, rdata in rows if kind in kinds}
    return tuple(sorted(merged)[:RECORDS_MOST])
