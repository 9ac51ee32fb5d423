"""What a scenario is: work for servers, questions for it, and what is done to the server meanwhile."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fastdns.bench.clients import Client
from fastdns.bench.servers import Running, Work
from fastdns.bench.servers.native import Floor
from fastdns.bench.workload import Workload

#: Queries a second, 0 as fast as the server answers.
SATURATED = 0.0


class ScenarioError(Exception):
    """A scenario that cannot be run as asked for."""


class Disturbance(ABC):
    """Something done to a server again and again while it is asked; use as a context around one load.

    A step that raises ends the disturbance, and leaving the context raises it again.
    """

    def __init__(self, running: Running, every: float) -> None:
        self.running = running
        self.every = every  # seconds from one step to the next
        self.steps = 0
        #: Seconds from a change until the server's answers show it.
        self.propagation: list[float] = []
        self._over = threading.Event()
        self._error: Exception | None = None

    @abstractmethod
    def step(self, number: int) -> None:
        """Does it, for the number-th time from 1 on, and may wait until it shows."""

    def __enter__(self) -> Disturbance:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error and kind is None:
            raise self._error

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._over.is_set():
                self.step(self.steps + 1)
                self.steps += 1
                due = max(due + self.every, time.monotonic())
                self._over.wait(due - time.monotonic())
        except Exception as error:
            self._error = error

    def watch(self, name: str, kind: int, wanted: list[str], since: float, limit: float = 60.0) -> None:
        """Asks until the answers are the wanted ones and notes how long that took since a moment of time.monotonic.

        Raises ScenarioError after the limit; at the end of the load it gives up without a word, since what was cut short is no figure.
        """
        while self.running.answers(name, kind) != wanted:
            if self._over.is_set():
                return
            if time.monotonic() - since > limit:
                raise ScenarioError(f"{self.running.label} still does not answer {name} with {wanted} after {limit:g} s")
            time.sleep(0.001)
        self.propagation.append(time.monotonic() - since)


@dataclass(frozen=True)
class Variant:
    """One way of a scenario: subjects are measured at each."""

    work: Work
    workload: Workload
    label: str = ""
    transport: str = "udp"
    #: Who sends the workload's first question; None: our own generator sends all.
    client: Client | None = None
    #: Fields of the plan that differ from the command line's.
    plan: Mapping[str, Any] = field(default_factory=dict)
    #: Stored with what was measured: a row of the report's table, and what the load of a column is called.
    row: str = ""
    shape: str = ""
    #: What is done to the server while it is asked.
    disturb: Callable[[Running], Disturbance] | None = None


@dataclass
class Stage:
    """What a scenario is prepared with, and what must end after it."""

    server_cpus: Sequence[int]
    load_cpus: Sequence[int]
    parts: contextlib.ExitStack
    #: What the scenario says of itself for the report.
    notes: list[str] = field(default_factory=list)

    def folder(self) -> Path:
        """An empty folder that goes with the scenario."""
        return Path(self.parts.enter_context(tempfile.TemporaryDirectory(prefix="fastdns-bench-")))

    def upstream(self, ttl: int) -> int:
        """Starts a floor as an upstream that answers everything with 10.0.0.1, beside the load; its port."""
        work = Work("upstream", "", ("ready.example.org.", 1))
        running: Running = self.parts.enter_context(Running(Floor(ttl=ttl), work, self.load_cpus[:1]))
        return running.port


class Scenario(ABC):
    """One kind of measurement, named on the command line."""

    name: ClassVar[str]
    help: ClassVar[str]
    #: The baseline of costs: a reference, which is measured even where it is not among the subjects, another subject, or nothing.
    baseline: ClassVar[str] = "floor"
    rates: ClassVar[tuple[float, ...]] = (5000, 20_000, SATURATED)
    #: Whether the load is one that clients of other projects send, and has no other rates.
    closed: ClassVar[bool] = False
    #: Servers that `compare` measures; none: the usual ones.
    subjects: ClassVar[tuple[str, ...]] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - most have none
        """Flags of its own."""

    @abstractmethod
    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        """Starts the parts and makes the questions. Raises ScenarioError."""


def merge_figures(disturbances: Sequence[Disturbance]) -> dict[str, Any]:
    """What disturbances have seen, for the JSON of a run."""
    if not disturbances:
        return {}
    times = sorted(seconds for each in disturbances for seconds in each.propagation)
    return {"changes": sum(each.steps for each in disturbances), "propagation_s": [round(seconds, 6) for seconds in times]}
