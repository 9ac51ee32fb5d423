"""The records that each key holds in a dynamic zone, so that no key fills the zone for the others.

A record belongs to the key that wrote it last, and to nobody if it is the seed's, the SOA record, or older than the attribution. Half of the room that
records of nobody leave is divided among the keys of the `allow` lines: each is sure of its share. The other half is for those who come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from fastdns._wire import name_text
from fastdns.plugins.dynupdate.content import ContentError, Limits, Row, record_size
from fastdns.protocol.parameters import TYPE_SOA
from fastdns.zonefile.rdata import lower

__all__ = ["Held", "Holdings", "ShareError"]

#: Owner, type, and rdata in canonical form.
RecordKey = tuple[bytes, int, bytes]


class ShareError(ContentError):
    """A key would take what others are sure of."""


class Held(NamedTuple):
    """The records of a key."""

    records: int = 0
    octets: int = 0

    def changed(self, records: int, octets: int) -> Held:
        return Held(self.records + records, self.octets + octets)


class Holdings:
    """The writer of each record of a zone. One thread at a time."""

    def __init__(self, rows: Iterable[Row] = (), writers: Iterable[bytes | None] = ()) -> None:
        """``writers`` are the keys of ``rows``, in lower-case wire form."""
        self._writer: dict[RecordKey, bytes] = {}
        self._held: dict[bytes, Held] = {}
        for row, key in zip(rows, writers, strict=False):
            if key is not None and row[1] != TYPE_SOA:
                # One object for each key.
                self._count(self._held, key, 1, row)
                self._writer[_key(row)] = key

    def of(self, key: bytes) -> Held:
        """The holdings of a key."""
        return self._held.get(key, Held())

    def check(self, deleted: list[Row], added: list[Row], key: bytes, keys: Collection[bytes], total: Held, limits: Limits) -> None:
        """Raise ShareError if a change by ``key`` would leave less than their shares to other ``keys``. ``total`` is that of the zone after the change."""
        after = self._after(deleted, added, key)
        before = self.of(key)
        held = [after.get(other, self.of(other)) for other in keys if other != key]
        own = after.get(key, before)
        for place, (limit, name) in enumerate(((limits.records, "max_records"), (limits.octets, "max_bytes"))):
            if own[place] <= before[place]:
                continue
            free = max(0, limit - (total[place] - own[place] - sum(one[place] for one in held)))
            share = free // (2 * (len(held) + 1))
            reserved = sum(max(0, share - one[place]) for one in held)
            if own[place] > share and total[place] + reserved > limit:
                raise ShareError(f"key {name_text(key)} exceeds its part of {name} ({limit}): {reserved} are kept for other keys")

    def apply(self, deleted: list[Row], added: list[Row], key: bytes) -> None:
        """Attribute a change that was made."""
        self._held.update(self._after(deleted, added, key))
        for row in deleted:
            self._writer.pop(_key(row), None)
        for row in added:
            if row[1] != TYPE_SOA:
                self._writer[_key(row)] = key
        self._held = {other: held for other, held in self._held.items() if held.records}

    def _after(self, deleted: list[Row], added: list[Row], key: bytes) -> dict[bytes, Held]:
        """The holdings that a change alters."""
        after: dict[bytes, Held] = {}
        for row in deleted:
            writer = self._writer.get(_key(row))
            if writer is not None:
                self._count(after, writer, -1, row)
        for row in added:
            if row[1] != TYPE_SOA:
                self._count(after, key, 1, row)
        return after

    def _count(self, held: dict[bytes, Held], key: bytes, records: int, row: Row) -> None:
        held[key] = held.get(key, self.of(key)).changed(records, records * record_size(row[0], row[3]))


def _key(row: Row) -> RecordKey:
    owner, kind, _, rdata = row
    return owner, kind, lower(kind, rdata)
