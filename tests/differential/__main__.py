"""Compares fastdns with Knot, NSD and BIND, and CoreDNS where it is on the PATH, on random zones: status 1 if a difference has no reason.

python -m tests.differential --seed 7 --zones 2000
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.differential import resolvers
from tests.differential.run import Found, run
from tests.differential.shrink import shrink

#: Differences without a reason that are shown with the smallest zone.
SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zones", type=int, default=500)
    parser.add_argument("--queries", type=int, default=120, help="of each zone, at most")
    parser.add_argument("--resolvers", action="store_true", help="forward and cache before Unbound, in place of authoritative servers")
    arguments = parser.parse_args()
    if arguments.resolvers:
        return resolvers.main(arguments.seed, arguments.zones, arguments.queries)
    found = Found()
    start = time.monotonic()
    for found in run(arguments.seed, arguments.zones, arguments.queries):
        print(f"{found.zones} zones, {found.questions} queries, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    report(found)
    return bool(explain(found))


def report(found: Found) -> None:
    """What was compared, and the classes of differences."""
    refused = ", ".join(f"{peer} {count}" for peer, count in sorted(found.refused.items()))
    print(f"{found.zones} zones, {found.questions} queries. Refused: {refused or 'none'}.")
    counts = found.explained()
    for (row, peers), count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:7}  {' '.join(peers):24}  {row.rstrip(' |')}")
    print(f"{sum(counts.values())} differences in {len(found.classes)} classes")


def explain(found: Found) -> list[str]:
    """Differences without a reason, each with the smallest zone and query that shows it."""
    texts = []
    for one in found.unexplained()[:SHOWN]:
        texts.append(f"{one.text()} ({found.classes[one]} times)\n{shrink(one, found.examples[one]).text()}")
        print(f"\nno reason for {' '.join(one.unexplained())} in: {texts[-1]}", flush=True)
    return texts


if __name__ == "__main__":
    sys.exit(main())
