"""The smallest zone that shows a difference: records are left out while it remains."""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.run import BATCH, Class, Example, Found, compare_zones
from tests.differential.zones import APEX, Zone


def shrink(one: Class, example: Example) -> Example:
    """The example with records left out. Each round serves the zones with one record less at once."""
    while True:
        smaller = list(candidates(example.zone))[:BATCH]
        # Found keeps one example of a class: each candidate is looked for by itself.
        kept = [found for found in compared(smaller, example) if any(same(one, other) for other in found.classes)]
        if not kept:
            return example
        found = min(kept, key=lambda found: min(len(example.zone.records) for example in found.examples.values()))
        example = next(example for other, example in found.examples.items() if same(one, other))


def same(one: Class, other: Class) -> bool:
    """The same difference; the look-up may have become simpler."""
    return one.part == other.part and set(one.unexplained()) <= set(other.unexplained())


def candidates(zone: Zone) -> Iterator[Zone]:
    """Without the first or the second half of the records, a name, and a record; SOA and NS of the apex stay."""
    head = tuple(record for record in zone.records if record.owner == APEX and record.type in ("SOA", "NS"))
    rest = tuple(record for record in zone.records if record not in head)
    half = len(rest) // 2
    found = [rest[half:], rest[:half]]
    found += [tuple(record for record in rest if record.owner != owner) for owner in sorted({record.owner for record in rest})]
    found += [rest[:at] + rest[at + 1 :] for at in range(len(rest))]
    for kept in dict.fromkeys(found):
        if len(kept) < len(rest):
            yield zone._replace(records=head + kept)


def compared(zones: list[Zone], example: Example) -> list[Found]:
    founds = [Found() for _ in zones]
    compare_zones([(zone, [example.question], found) for zone, found in zip(zones, founds, strict=True)])
    return founds
