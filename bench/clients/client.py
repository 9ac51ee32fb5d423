"""What a load client is: a program that sends one query again and again, and says what came of it."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import dns.message
from dns.rdatatype import RdataType

from fastdns.bench.load import LoadError
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.servers.running import pinned
from fastdns.bench.workload import Question

#: Seconds that a client has beyond the load and the timeout of a query: it starts, connects, and writes its output.
SPARE = 30.0
#: Characters of a client's output that an error repeats.
TAIL = 500


@dataclass(frozen=True)
class Load:
    """One load by a client."""

    target: Target
    plan: Plan
    question: Question
    #: Empty; it goes with the load.
    folder: Path

    @cached_property
    def query(self) -> bytes:
        """The query in wire form, with id 0 (RFC 8484 4.1, RFC 9250 4.2.1)."""
        return dns.message.make_query(self.question.name, RdataType.make(self.question.type), id=0).to_wire()

    @property
    def authority(self) -> str:
        """HOST:PORT."""
        host = f"[{self.target.host}]" if ":" in self.target.host else self.target.host
        return f"{host}:{self.target.port}"

    def write(self, name: str, content: bytes | str) -> str:
        """Writes a file into the folder; its path."""
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)


class Client(ABC):
    """A kind of client, found on the search path."""

    name: ClassVar[str]
    #: How it is installed.
    source: ClassVar[str]
    transports: ClassVar[frozenset[str]]
    #: Whether it can make a new connection for each query.
    makes_connections: ClassVar[bool] = True

    def missing(self) -> str:
        """Why it cannot run here; empty when it can."""
        return "" if shutil.which(self.name) else f"{self.name} is not installed ({self.source})"

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """What takes time, before the first load. Raises LoadError."""

    @abstractmethod
    def command(self, load: Load) -> list[str]:
        """The command. May write files into the load's folder."""

    @abstractmethod
    def read(self, load: Load, output: str, result: Result) -> None:
        """Adds what the output and the files in the load's folder say to an empty result. Raises ValueError or LookupError when they do not say it."""

    def run(self, target: Target, plan: Plan, question: Question, label: str) -> Result:
        """Sends the question as planned, on the plan's CPUs. LoadError when the client fails, or nothing was answered."""
        with tempfile.TemporaryDirectory(prefix=f"fastdns-bench-{self.name}-") as folder:
            load = Load(target, plan, question, Path(folder))
            command = self.command(load)
            before = children_cpu()
            try:
                with pinned(plan.cpus):
                    done = subprocess.run(
                        command,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        text=True,
                        errors="replace",
                        timeout=plan.seconds + plan.timeout + SPARE,
                        check=False,
                    )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise LoadError(f"{target}: {error}") from None
            said = (done.stdout + done.stderr)[-TAIL:].strip()
            if done.returncode:
                raise LoadError(f"{target}: {self.name} ended with status {done.returncode}: {said}")
            result = Result(label, target, plan, seconds=plan.seconds, cpu=children_cpu() - before)
            try:
                self.read(load, done.stdout, result)
            except (ValueError, LookupError, OSError) as error:
                raise LoadError(f"{target}: {self.name}'s output cannot be read ({error}): {said}") from error
            if not result.answered:
                raise LoadError(f"{target}: {self.name} got no answer: {said}")
            return result


def children_cpu() -> float:
    """Seconds of CPU of all child processes that have ended and been waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def record(result: Result, latencies: Iterable[tuple[float, int]]) -> None:
    """Adds pairs of seconds and how many queries took that long."""
    for seconds, times in latencies:
        result.latency.record(seconds, times)
