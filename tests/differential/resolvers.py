"""forward and cache in front of Unbound, whose own answers ours must be: the first time, and from the cache."""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.differential.questions import AD, CD, RD, Question, names
from tests.differential.replies import AA, RA, Reply, Section, ask
from tests.differential.replies import AD as ANSWER_AD
from tests.differential.replies import CD as ANSWER_CD
from tests.differential.run import BATCH, FIRST, FIRST_ORIGIN, WINDOW, origin_of
from tests.differential.servers import run_server, running, serves, write_zones
from tests.differential.zones import SIGNINGS, Record, Zone, make_zone
from tests.programs import program
from tests.server import Server, free_port
from tests.unbound import SERVER
from tests.waiting import until

UNBOUND = (
    SERVER
    + """\
    num-threads: 1
    do-ip6: no
    do-not-query-localhost: no
    do-not-query-address: 192.0.2.0/24
    local-zone: "test." nodefault
    module-config: "validator iterator"
    qname-minimisation: no
    aggressive-nsec: no
    minimal-responses: no
    rrset-roundrobin: no
    edns-buffer-size: 4096
    max-udp-size: 4096
    {anchors}
{zones}
"""
)
STUB = 'stub-zone:\n    name: "{origin}"\n    stub-addr: 127.0.0.1@{upstream}\n'

COREFILE = """.:{{port}} {{
    bind 127.0.0.1
    forward . 127.0.0.1:{upstream}
}}
.:{{port2}} {{
    bind 127.0.0.1
    cache
    forward . 127.0.0.1:{upstream}
}}
"""


class Difference(NamedTuple):
    """What is not as Unbound has it."""

    #: "forward", "cache" for a first reply, "cached" for a repeated one.
    by: str
    part: str
    #: Kind of Unbound's reply, and the bits of the query.
    where: str


#: Differences with a reason: by, part, where (all searched for) -> the beginning of a row of docs/differences.md.
KNOWN = [
    ("cache", "aa added", "", "AA of a cached reply |"),
    ("cache", "(answer|authority|additional)'s TTL (shorter|raised)", "", "TTLs of a cached reply |"),
]

#: Seconds that *cache* keeps a positive reply at least.
LEAST_TTL = 5


@contextmanager
def run_unbound(folder: Path, upstream: int, origins: list[str], key: str) -> Iterator[int]:
    """Unbound as a resolver that asks one server for all zones, and the root; the port. ``key`` is the DNSKEY of signed zones, which it trusts."""
    folder = folder / "unbound"
    folder.mkdir()
    port = free_port()
    anchors = "\n    ".join(f'trust-anchor: "{origin}. {key}"' for origin in origins if (folder.parent / f"db.{origin}.signed").exists())
    stubs = "".join(STUB.format(origin=origin, upstream=upstream) for origin in (*origins, "."))
    config = folder / "unbound.conf"
    config.write_text(UNBOUND.format(port=port, folder=folder, anchors=anchors, zones=stubs))
    with running([program("unbound"), "-c", str(config)], folder) as log:
        until(lambda: serves(port, FIRST_ORIGIN), f"the start of unbound: {log}")
        yield port


# ---- zones and questions ----


def make_zones(source: random.Random, count: int) -> list[Zone]:
    """Without delegations, which lead elsewhere, and with records that do not fit into a datagram."""
    zones = []
    for _ in range(count):
        zone = make_zone(source, broken=False, signing=source.choice(list(SIGNINGS)) if source.random() < 0.4 else "")
        large = [Record(("big", *"ab"[:number]), "TXT", 300, " ".join(f'"{"x" * 200}"' for _ in range(number * 3 + 2))) for number in range(2)]
        kept = tuple(record for record in zone.records if not (record.owner and record.type in ("NS", "DS")) and not record.rdata.endswith("invalid."))
        apex = Record((), "NS", 300, "ns")
        zones.append(zone._replace(records=(*dict.fromkeys((*kept, apex)), *large)))
    return zones


def make_questions(source: random.Random, zone: Zone, count: int) -> list[Question]:
    around = names(zone)
    types = sorted({record.type for record in zone.records} | {"A", "TXT", "DS", "TYPE65401"})
    found = []
    for _ in range(count):
        name = source.choice(sorted(zone.names())) if source.random() < 0.6 else source.choice(around)
        size = source.choice((None, 512, 1232, 4096))
        flags = RD | source.choice((0, 0, AD, CD, AD | CD))
        found.append(Question(name, source.choice(types), size is not None and source.random() < 0.5, flags, size))
    return found


# ---- comparison ----


def kind_of(reply: Reply) -> str:
    if reply.rcode != "NOERROR":
        return reply.rcode
    return "positive" if reply.answer else "NODATA"


def parts(theirs: Reply, ours: Reply, question: Question, seconds: int) -> Iterator[str]:
    """What differs between Unbound's reply and ours of at most so many seconds before or after it."""
    if ours.rcode != theirs.rcode:
        yield "rcode"
        return
    for bit, name in ((AA, "aa"), (RA, "ra"), (ANSWER_AD, "ad"), (ANSWER_CD, "cd")):
        if (ours.flags ^ theirs.flags) & bit:
            yield f"{name} {'added' if ours.flags & bit else 'missing'}"
    if ours.truncated != theirs.truncated:
        yield f"tc {'added' if ours.truncated else 'missing'}"
    if ours.datagram > question.room():
        yield "larger than the client takes"
    for section in ("answer", "authority", "additional"):
        part = section_part(getattr(theirs, section), getattr(ours, section), seconds)
        if part:
            yield f"{section}{part}"


def section_part(theirs: Section, ours: Section, seconds: int) -> str:
    def rdata(section: Section) -> dict[tuple[bytes, int], set[bytes]]:
        return {key: {data for _, data in records} for key, records in section.items()}

    if rdata(theirs) != rdata(ours):
        return "" if not ours and not theirs else " missing" if not ours else " added" if not theirs else " differs"
    times = [(min(ttl for ttl, _ in ours[key]), min(ttl for ttl, _ in theirs[key])) for key in ours]
    if any(mine > max(other, LEAST_TTL) + seconds for mine, other in times):
        return "'s TTL longer"
    if any(mine > other + seconds for mine, other in times):
        return "'s TTL raised"
    return "'s TTL shorter" if any(mine < other - seconds for mine, other in times) else ""


class Found:
    def __init__(self) -> None:
        self.zones = 0
        self.questions = 0
        #: Questions that Unbound itself answers otherwise afterwards: it has validated more, or followed an endless chain further.
        self.changed = 0
        self.kinds: Counter[str] = Counter()
        self.differences: Counter[Difference] = Counter()
        self.examples: dict[Difference, str] = {}

    def add(self, by: str, question: Question, theirs: Reply, ours: Reply, seconds: int) -> None:
        bits = "".join(f", {name}" for name, on in (("DO", question.do), ("AD", question.flags & AD), ("CD", question.flags & CD)) if on)
        for part in parts(theirs, ours, question, seconds):
            one = Difference(by, part, kind_of(theirs) + bits)
            self.differences[one] += 1
            self.examples.setdefault(one, f"{question.text()}\n unbound {theirs.flags:04x} {theirs}\n ours    {ours.flags:04x} {ours}")

    def unexplained(self) -> list[Difference]:
        return [one for one in self.differences if explanation(one) is None]


def explanation(one: Difference) -> str | None:
    for by, part, where, row in KNOWN:
        if re.search(by, one.by) and re.fullmatch(part, one.part) and re.search(where, one.where):
            return row
    return None


# ---- a run ----


def compare_zones(zones: list[Zone], source: random.Random, per_zone: int, found: Found) -> None:
    with tempfile.TemporaryDirectory(prefix="fastdns-differential-") as name, ExitStack() as stack:
        folder = Path(name)
        by_origin = {origin_of(number): zone for number, zone in enumerate(zones)}
        files = write_zones(folder, {FIRST_ORIGIN: FIRST, **by_origin})
        keys = [path.read_text() for path in folder.glob("Kkey.invalid.*.key")]
        key = " ".join(keys[0].split(";")[0].split()[2:]) if keys else ""
        knot = stack.enter_context(run_server("knot", folder, files))
        unbound = stack.enter_context(run_unbound(folder, knot, list(files), key))
        server = stack.enter_context(Server(folder, COREFILE.format(upstream=unbound)))
        server.wait_started()
        ports = {"unbound": unbound, "forward": server.port, "cache": server.ports["port2"]}
        for origin, zone in by_origin.items():
            if origin in files:
                found.zones += 1
                compare_zone(zone, origin, make_questions(source, zone, per_zone), ports, found)


def compare_zone(zone: Zone, origin: str, questions: list[Question], ports: dict[str, int], found: Found) -> None:
    for start in range(0, len(questions), WINDOW):
        few = questions[start : start + WINDOW]
        messages = [question.wire(origin) for question in few]
        begin = time.monotonic()
        ask([ports["unbound"]], messages)
        said = [ask([port], messages)[0] for port in ports.values()]
        repeated, after = (ask([ports[by]], messages)[0] for by in ("cache", "unbound"))
        seconds = int(time.monotonic() - begin) + 1
        found.questions += len(few)
        found.kinds.update(kind_of(reply) for reply in said[0])
        for question, theirs, forwarded, cached, again, later in zip(few, *said, repeated, after, strict=True):
            if any(parts(theirs, later, question, seconds)):
                found.changed += 1
                continue
            found.add("forward", question, theirs, forwarded, seconds)
            found.add("cache", question, theirs, cached, seconds)
            found.add("cached", question, theirs, again, seconds)


def run(seed: int, count: int, per_zone: int) -> Iterator[Found]:
    source = random.Random(seed)
    found = Found()
    while count > 0:
        zones = make_zones(source, min(count, BATCH))
        compare_zones(zones, source, per_zone, found)
        count -= len(zones)
        yield found


def main(seed: int, zones: int, queries: int) -> int:
    found = Found()
    start = time.monotonic()
    for found in run(seed, zones, queries):
        print(f"{found.zones} zones, {found.questions} queries, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{found.zones} zones, {found.questions} queries: {', '.join(f'{count} {kind}' for kind, count in found.kinds.most_common())}")
    print(f"{found.changed} answers of Unbound changed meanwhile")
    for one, count in found.differences.most_common():
        print(f"{count:7}  {one.by}: {one.part}: {one.where}: {explanation(one) or 'without a reason'}")
    for one in found.unexplained():
        print(f"\nno reason for {one.by}: {one.part}: {one.where}: {found.examples[one]}")
    return bool(found.unexplained())
