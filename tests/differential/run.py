"""Batches of zones served by all, asked, compared, and differences grouped into classes."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dns.name

from tests.differential.compare import parts
from tests.differential.known import explanation
from tests.differential.questions import Question, questions
from tests.differential.replies import Reply, ask
from tests.differential.servers import run_all, write_zones
from tests.differential.situations import met, situation
from tests.differential.zones import APEX, SIGNINGS, Record, Zone, make_zone

#: Messages that every server gets before any reply is waited for.
WINDOW = 100
#: Zones of one start of the servers.
BATCH = 100

#: What every server serves: when it does, it has started.
FIRST = Zone((Record(APEX, "SOA", 60, "ns admin 1 1 1 1 60"), Record(APEX, "NS", 60, "ns"), Record(("ns",), "A", 60, "192.0.2.1")))
FIRST_ORIGIN = "first.test"


class Class(NamedTuple):
    """Differences of one kind: the look-up, the part of the reply, and who answers otherwise than fastdns."""

    situation: str
    part: str
    who: tuple[str, ...]
    broken: tuple[str, ...]

    def unexplained(self) -> list[str]:
        """The servers that differ without a reason."""
        return [peer for peer in self.who if self.explanation(peer) is None]

    def explanation(self, peer: str) -> str | None:
        return explanation(peer, self.part, self.situation, self.broken)

    def text(self) -> str:
        broken = f" [{', '.join(self.broken)}]" if self.broken else ""
        return f"{self.part}: {self.situation}: {' '.join(self.who)}{broken}"


class Example(NamedTuple):
    zone: Zone
    question: Question
    replies: dict[str, Reply]

    def text(self) -> str:
        lines = [f"{peer:8} {reply}" for peer, reply in self.replies.items()]
        return "\n".join([f"; {self.zone.signing or 'not signed'}", self.zone.text("example").strip(), f"; {self.question.text()}", *lines])


class Found:
    """What a run has seen."""

    def __init__(self) -> None:
        self.zones = 0
        self.questions = 0
        self.refused: Counter[str] = Counter()
        self.classes: Counter[Class] = Counter()
        self.examples: dict[Class, Example] = {}

    def add(self, one: Class, example: Example) -> None:
        self.classes[one] += 1
        before = self.examples.get(one)
        if before is None or len(example.zone.records) < len(before.zone.records):
            self.examples[one] = example

    def unexplained(self) -> list[Class]:
        return [one for one in self.classes if one.unexplained()]

    def explained(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """Differences by the row of docs/differences.md and the servers that it explains."""
        counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for one, count in self.classes.items():
            by_row: dict[str, list[str]] = {}
            for peer in one.who:
                by_row.setdefault(one.explanation(peer) or "without a reason", []).append(peer)
            for row, peers in by_row.items():
                counts[row, tuple(peers)] += count
        return counts


def origin_of(number: int) -> str:
    return f"z{number:04}.test"


def make_zones(source: random.Random, count: int, broken: float = 0.25, signed: float = 0.2) -> list[Zone]:
    zones = []
    for _ in range(count):
        chance = source.random()
        zones.append(make_zone(source, chance < broken, source.choice(list(SIGNINGS)) if chance > 1 - signed else ""))
    return zones


def compare_zones(zones: list[tuple[Zone, list[Question], Found]]) -> None:
    """Serves the zones, asks each its questions, and adds what is different."""
    with tempfile.TemporaryDirectory(prefix="fastdns-differential-") as name:
        folder = Path(name)
        by_origin = {origin_of(number): zone for number, (zone, *_) in enumerate(zones)}
        files = write_zones(folder, {FIRST_ORIGIN: FIRST, **by_origin})
        with run_all(folder, files) as ports:
            loaded = load_states(ports, list(files))
            for number, (zone, asked, found) in enumerate(zones):
                origin = origin_of(number)
                if origin in files:
                    found.zones += 1
                    found.refused.update(peer for peer in ports if origin not in loaded[peer])
                    compare_zone(zone, origin, asked, {peer: port for peer, port in ports.items() if origin in loaded[peer]}, found)


def load_states(ports: dict[str, int], origins: list[str]) -> dict[str, set[str]]:
    """The zones that each server serves."""
    found: dict[str, set[str]] = {peer: set() for peer in ports}
    for start in range(0, len(origins), WINDOW):
        few = origins[start : start + WINDOW]
        said = ask(list(ports.values()), [Question(APEX, "SOA").wire(origin) for origin in few])
        for peer, replies in zip(ports, said, strict=True):
            found[peer] |= {origin for origin, reply in zip(few, replies, strict=True) if reply.rcode == "NOERROR" and reply.answer}
    return found


def compare_zone(zone: Zone, origin: str, asked: list[Question], ports: dict[str, int], found: Found) -> None:
    apex = dns.name.from_text(origin).to_wire() or b""
    for start in range(0, len(asked), WINDOW):
        few = asked[start : start + WINDOW]
        said = ask(list(ports.values()), [question.wire(origin) for question in few])
        found.questions += len(few)
        for question, *replies in zip(few, *said, strict=True):
            example = Example(zone, question, dict(zip(ports, replies, strict=True)))
            for one in classes(example, apex):
                found.add(one, example)


def classes(example: Example, apex: bytes) -> Iterator[Class]:
    ours = example.replies["fastdns"]
    who: dict[str, list[str]] = {}
    for peer, theirs in example.replies.items():
        if peer != "fastdns":
            for part in parts(ours, theirs, apex):
                who.setdefault(part, []).append(peer)
    if ours.datagram > example.question.room():
        who["larger than the client takes"] = [peer for peer in example.replies if peer != "fastdns"]
    if who:
        where, broken = situation(example.zone, example.question), met(example.zone, example.question)
        for part, peers in who.items():
            yield Class(where, part, tuple(sorted(peers)), broken)


def run(seed: int, count: int, per_zone: int) -> Iterator[Found]:
    """Compares ``count`` zones with ``per_zone`` questions each; gives what was found so far after each batch."""
    source = random.Random(seed)
    found = Found()
    while count > 0:
        zones = make_zones(source, min(count, BATCH))
        compare_zones([(zone, questions(source, zone, per_zone), found) for zone in zones])
        count -= len(zones)
        yield found
