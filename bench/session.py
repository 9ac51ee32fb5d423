"""One measurement: servers of a scenario in rounds A B A B, at every rate, beside the floor of the same run."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastdns.bench import measure
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import CURVE, Interval, Plan, Result, Target
from fastdns.bench.scenarios import Disturbance, Scenario, ScenarioError, Stage, Variant, merge_figures
from fastdns.bench.servers import ADAPTERS, Adapter, Running, Work, subject
from fastdns.bench.workload import Question, Workload

#: Of the report's document.
VERSION = 1
#: Shown percentiles by key.
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "max": 100.0}

#: Seconds that servers are watched for while nobody asks.
IDLE = 1.0

#: Called for each second of a load, with the subject.
Progress = Callable[[Interval, str], None]


@dataclass
class Subject:
    """A server doing one work; variants that are asked of the same work share it."""

    adapter: Adapter
    work: Work
    running: Running | None = None
    #: Seconds until ready, of each start.
    ready: list[float] = field(default_factory=list)
    peak_mb: float = 0.0

    #: Seconds of CPU that it takes in a second without queries.
    idle: float = 0.0

    @contextlib.contextmanager
    def started(self, cpus: Sequence[int], wildcard: bool) -> Iterator[None]:
        with Running(self.adapter, self.work, cpus, wildcard=wildcard) as self.running:
            self.ready.append(self.running.ready)
            yield
            self.peak_mb = max(self.peak_mb, measure.memory_peak_mb(self.running.pid))
        self.running = None


@dataclass
class Contender:
    """A server with one variant of the scenario, and what was measured of it."""

    server: Subject
    variant: Variant
    queries: QuerySet
    baseline: bool = False
    #: By rate.
    rounds: dict[float, list[Round]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.server.adapter.label} {self.variant.label}".strip()


@dataclass
class Round:
    """One load."""

    result: Result
    cpu_us: float  # of the server for one answer
    rss_mb: float
    overrun: int  # queries that found the server's queue full
    memory: list[tuple[float, float]]
    disturbance: Disturbance | None


@dataclass
class Session:
    """Measures a scenario; `skipped` says which subjects could not take part, and why. Raises ScenarioError and StartError."""

    scenario: Scenario
    options: argparse.Namespace
    progress: Progress | None = None
    skipped: list[dict[str, str]] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        """The report's document (JSON)."""
        options = self.options
        try:
            self.server_cpus, self.load_cpus = measure.cpu_sets(options.server_cpus, options.load_cpus)
        except ValueError as error:
            raise ScenarioError(str(error)) from None
        if self.scenario.closed and (options.sweep or any(options.rate)):
            raise ScenarioError(f"{self.scenario.name} knows no rates: its clients send as fast as they are answered")
        noise = [measure.noise(self.server_cpus)]
        began = datetime.datetime.now(datetime.UTC)
        with contextlib.ExitStack() as parts:
            stage = Stage(self.server_cpus, self.load_cpus, parts)
            contenders = self.contenders(self.scenario.prepare(options, stage))
            for contender in contenders:
                if not contender.variant.disturb:
                    if contender.server.running is None:
                        parts.enter_context(contender.server.started(self.server_cpus, options.wildcard))
                    self.warm(contender)
            if self.scenario.closed:
                measure_idle({id(contender.server): contender.server for contender in contenders}.values())
            rates = [float(rate) for rate in options.rate or self.scenario.rates]
            for rate in rates:
                for _ in range(options.rounds):
                    for contender in contenders:
                        self.load(contender, rate)
            for number in range(1, options.sweep):
                for contender in contenders:
                    highest = contender.rounds.get(0.0)
                    if highest is None:
                        raise ScenarioError("--sweep takes parts of the highest rate: measure it too (--rate max)")
                    self.load(contender, round(statistics.median(each.result.rate for each in highest) * number / options.sweep))
        noise.append(measure.noise(self.server_cpus))
        return {
            "version": VERSION,
            "made": began.isoformat(timespec="seconds"),
            "command": options.command_line,
            "machine": {**measure.machine(), "server_cpus": self.server_cpus, "load_cpus": self.load_cpus, "noise": round(max(noise), 4)},
            "max_noise": options.max_noise / 100,
            "notes": stage.notes,
            "skipped": self.skipped,
            "runs": list(self.records(contenders)),
        }

    def contenders(self, variants: Sequence[Variant]) -> list[Contender]:
        """The baseline first, then every subject with every variant that it can do. ScenarioError when none can do any."""
        found: list[Contender] = []
        servers: dict[tuple[int, int], Subject] = {}
        try:
            adapters = [subject(text) for text in self.options.subject]
        except ValueError as error:
            raise ScenarioError(str(error)) from None
        for adapter in adapters:
            if [each.label for each in adapters].count(adapter.name) > 1:
                adapter.label = f"{adapter.name} {adapter.path}".strip()
        for variant in variants:
            queries = QuerySet(variant.workload)
            for adapter in adapters:
                why = adapter.missing() or adapter.refuses(variant.work)
                if not why and variant.transport not in adapter.transports:
                    why = f"does not answer over {variant.transport}"
                if why:
                    self.skipped.append({"subject": adapter.label, "variant": variant.label, "why": why})
                else:
                    server = servers.setdefault((id(adapter), id(variant.work)), Subject(adapter, variant.work))
                    asked = QuerySet(unchecked(variant.workload)) if adapter.reference else queries
                    found.append(Contender(server, variant, asked, adapter.name == self.scenario.baseline))
        if not found:
            raise ScenarioError("; ".join(f"{each['subject']} {each['why']}" for each in self.skipped))
        if self.scenario.baseline and ADAPTERS[self.scenario.baseline].reference and not any(each.baseline for each in found):
            calm = replace(variants[0], disturb=None, label="")
            found.insert(0, Contender(Subject(subject(self.scenario.baseline), calm.work), calm, QuerySet(unchecked(calm.workload)), baseline=True))
        return found

    def warm(self, contender: Contender) -> None:
        if self.options.warm:
            # A client that gets no answer in that time gets none in a load that counts, or the machine is busy.
            with contextlib.suppress(LoadError) if contender.variant.client else contextlib.nullcontext():
                self.drive(contender, Plan(seconds=self.options.warm, **self.shape(contender)))

    def load(self, contender: Contender, rate: float) -> None:
        """One round."""
        if contender.server.running is None:
            with contender.server.started(self.server_cpus, self.options.wildcard):
                self.warm(contender)
                self.load(contender, rate)
            return
        running = contender.server.running
        running.check()
        disturb = contender.variant.disturb
        port = running.port_of(contender.variant.transport)
        full = measure.queue_drops(port)
        with contextlib.ExitStack() as meanwhile:
            disturbance = meanwhile.enter_context(disturb(running)) if disturb else None
            meter = meanwhile.enter_context(measure.Meter(running.pid))
            result = self.drive(contender, Plan(seconds=self.options.seconds, rate=rate, **self.shape(contender)))
        running.check()
        cpu_us = max(meter.cpu_ns / 1000 - contender.server.idle * meter.seconds * 1e6, 0) / max(result.answered, 1)
        overrun = measure.queue_drops(port) - full
        contender.rounds.setdefault(rate, []).append(Round(result, cpu_us, meter.memory[-1][1], overrun, meter.memory, disturbance))

    def shape(self, contender: Contender) -> dict[str, Any]:
        options = self.options
        shape = {"clients": options.clients, "window": options.window, "threads": options.threads, "cpus": list(self.load_cpus), "timeout": options.timeout}
        return {**shape, "seed": options.seed, **contender.variant.plan}

    def drive(self, contender: Contender, plan: Plan) -> Result:
        assert contender.server.running is not None
        target = Target("127.0.0.1", contender.server.running.port_of(contender.variant.transport), contender.variant.transport)
        if contender.variant.client:
            return contender.variant.client.run(target, plan, contender.variant.workload.questions[0], contender.variant.workload.label)
        tell = self.progress
        return drive(contender.queries, target, plan, (lambda interval: tell(interval, contender.label)) if tell else None)

    # ---- what came of it ----

    def records(self, contenders: Sequence[Contender]) -> Iterator[dict[str, Any]]:
        """The document's runs: a contender at a rate each, with medians over the rounds."""
        bases = [each for each in contenders if each.baseline]
        for contender in contenders:
            same = [each for each in bases if each.variant is contender.variant]
            base = next(iter(same or [each for each in bases if each.server.adapter.reference]), None)
            for rate, rounds in sorted(contender.rounds.items(), key=lambda pair: pair[0] or float("inf")):
                beside = base.rounds.get(rate) if base else None
                yield self.record(contender, rate, rounds, beside)

    def record(self, contender: Contender, rate: float, rounds: Sequence[Round], beside: Sequence[Round] | None) -> dict[str, Any]:
        whole = added(contender.label, [each.result for each in rounds])
        cpu_us = statistics.median(each.cpu_us for each in rounds)
        last = rounds[-1]
        found: dict[str, Any] = {
            "subject": contender.label,
            "server": contender.server.adapter.label,
            "reference": contender.server.adapter.reference or contender.baseline,
            "scenario": self.scenario.name,
            "work": contender.variant.work.title,
            "workload": contender.variant.workload.label,
            "transport": contender.variant.transport,
            "client": contender.variant.client.name if contender.variant.client else "",
            "row": contender.variant.row,
            "shape": contender.variant.shape,
            "rate": rate,
            "workers": max(1, len(self.server_cpus)),
            "answers_per_s": round(statistics.median(each.result.rate for each in rounds), 1),
            "cpu_us_per_answer": round(cpu_us, 4),
            "baseline": self.scenario.baseline,
            "rss_mb": round(statistics.median(each.rss_mb for each in rounds), 2),
            "rss_peak_mb": round(contender.server.peak_mb, 2),
            "overrun": sum(each.overrun for each in rounds),
            "ready_s": round(statistics.median(contender.server.ready), 4),
            "latency_s": {key: whole.latency.percentile(p) for key, p in PERCENTILES.items()},
            "curve": [[p, whole.latency.percentile(p)] for p in CURVE],
            "memory": last.memory,
            "rounds": [{"answers_per_s": round(each.result.rate, 1), "cpu_us_per_answer": round(each.cpu_us, 4)} for each in rounds],
            "result": whole.to_json(),
        }
        if beside:
            costs = [each.cpu_us for each in beside]
            found[f"ratio_to_{self.scenario.baseline}"] = round(cpu_us / statistics.median(costs), 4)
            found["noise"] = round((max(costs) - min(costs)) / statistics.median(costs), 4) if len(costs) > 1 else None
        return found | merge_figures([each.disturbance for each in rounds if each.disturbance])


def measure_idle(servers: Iterable[Subject]) -> None:
    """All at once, for a second in which nobody asks."""
    running = [(server, server.running.pid) for server in servers if server.running]
    before = [measure.cpu_ns(pid) for _, pid in running]
    time.sleep(IDLE)
    for (server, pid), spent in zip(running, before, strict=True):
        server.idle = (measure.cpu_ns(pid) - spent) * 1e-9 / IDLE


def added(label: str, results: Sequence[Result]) -> Result:
    """Rounds one after the other as one result: counts, times and histograms add up, intervals follow each other."""
    whole = Result(label, results[0].target, results[0].plan)
    for result in results:
        whole.add(result)
        whole.intervals += [replace(interval, second=interval.second + whole.seconds) for interval in result.intervals]
        whole.seconds += result.seconds
    return whole


def unchecked(workload: Workload) -> Workload:
    """The same questions for servers that answer everything alike."""
    questions = [Question(question.name, question.type) for question in workload.questions]
    return Workload(workload.label, questions, workload.order, workload.bursts)
