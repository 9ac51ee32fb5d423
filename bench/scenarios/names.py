"""Scenarios of plain names: a fixed answer, the cache, forwarding, the log."""

from __future__ import annotations

import argparse
import random

from fastdns.bench.scenarios.scenario import Scenario, Stage, Variant
from fastdns.bench.servers import Work, Zone
from fastdns.bench.workload import Collector, Question, Workload
from fastdns.bench.workloads import zonefile

A = 1
NXDOMAIN = 3
ORIGIN = "example.org."
#: What a floor answers everything with.
FLOOR_ADDRESS = frozenset([bytes([10, 0, 0, 1])])
PROBE = ("ready.example.org.", A)
#: Longer than any run.
LONG = 3600


def names(count: int, seed: int, answers: frozenset[bytes] | None = FLOOR_ADDRESS) -> Workload:
    """Questions for the addresses of so many names below example.org, each once, in random order."""
    numbers = list(range(count))
    random.Random(seed).shuffle(numbers)
    collector = Collector()
    for i in numbers:
        collector.add(Question(f"name-{i}.example.org.", A, 0, answers))
    return collector.workload(f"{count} names")


class Named(Scenario):
    """A scenario over names of example.org."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--names", type=int, default=5000, help="distinct names asked for (%(default)s)")


class Fixed(Named):
    name = "fixed"
    help = "an answer without any look-up (whoami)"

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        work = Work("fixed answer", ".:{port} {\n    {bind}\n    whoami\n}\n", PROBE, needs=("whoami",))
        return [Variant(work, names(options.names, options.seed, None))]


class Cache(Named):
    name = "cache"
    help = "answers out of the cache"

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        upstream = stage.upstream(LONG)
        corefile = f".:{{port}} {{\n    {{bind}}\n    cache {LONG}\n    forward . 127.0.0.1:{upstream}\n}}\n"
        work = Work("cached answer", corefile, PROBE, needs=("cache", "forward"), upstream=upstream, cached=True)
        return [Variant(work, names(options.names, options.seed))]


class Forward(Named):
    name = "forward"
    help = "forwarding without a cache"
    baseline = "relay"

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        upstream = stage.upstream(LONG)
        corefile = f".:{{port}} {{\n    {{bind}}\n    forward . 127.0.0.1:{upstream}\n}}\n"
        work = Work("forwarded without a cache", corefile, PROBE, needs=("forward",), upstream=upstream)
        return [Variant(work, names(options.names, options.seed))]


class Log(Named):
    name = "log"
    help = "what a log line for every query costs"

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        workload = names(options.names, options.seed, None)
        with_log = Work("fixed answer, logged", ".:{port} {\n    {bind}\n    log\n    whoami\n}\n", PROBE, needs=("log", "whoami"))
        without = Work("fixed answer", ".:{port} {\n    {bind}\n    whoami\n}\n", PROBE, needs=("whoami",))
        return [Variant(without, workload, "without"), Variant(with_log, workload, "with")]


class File(Scenario):
    name = "file"
    help = "a zone file of N names: some of them, and names that it does not have"
    #: Names asked for, of each kind.
    ASKED = 100_000

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--names", type=int, default=10_000, help="in the zone (%(default)s)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        made = zonefile.Zone(ORIGIN, options.names)
        corefile = "example.org:{port} {\n    {bind}\n    file {zone}\n}\n"
        zone = Zone(ORIGIN, made.lines, stage.folder())
        work = Work(f"zone of {options.names:,} names", corefile, (made.name(0), A), needs=("file",), zone=zone)
        hits, absent = Collector(), Collector()
        choice = random.Random(options.seed)
        # Not those that are aliases: servers differ in how far they follow them.
        for number in choice.sample(range(options.names), min(options.names, self.ASKED)):
            if not made.is_alias(number):
                hits.add(made.question(number))
            absent.add(Question(f"absent-{number}.{ORIGIN}", A, NXDOMAIN, frozenset()))
        return [Variant(work, hits.workload(f"{len(hits):,} of its names"), "hit"), Variant(work, absent.workload(f"{len(absent):,} other names"), "absent")]
