"""What a run found, as one page of Markdown."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.cluster.e2e import Spec
from tests.cluster.programs import COREDNS, VERSION
from tests.cluster.rolling import RATE, SOCKETS, Loss
from tests.cluster.scene import Outcome

__all__ = ["Page", "said"]


class Page:
    """Rows of findings with a column for each server, and how long each part took. ``nodes`` is 0 where each part had a cluster of its own."""

    def __init__(self, servers: Sequence[str], nodes: int, proxy_mode: str) -> None:
        self.servers, self.nodes, self.proxy_mode = servers, nodes, proxy_mode
        #: What -> server -> finding.
        self.rows: dict[str, dict[str, str]] = {}
        #: Name of a spec -> server -> finding.
        self.specs: dict[str, dict[str, str]] = {}
        #: Name of a fault -> server -> what clients saw.
        self.faults: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self.failures: list[str] = []

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[float]:
        """Adds the seconds of a part; gives the time of its begin."""
        began = time.monotonic()
        said(part)
        try:
            yield began
        finally:
            self.seconds[part] = time.monotonic() - began

    def add(self, what: str, server: str, finding: str) -> None:
        self.rows.setdefault(what, {})[server] = finding

    def add_specs(self, suite: str, server: str, specs: Sequence[Spec], seconds: float) -> None:
        passed = sum(spec.status == "passed" for spec in specs)
        self.add(f"e2e: {suite}", server, f"{passed} of {len(specs)} passed in {seconds:.0f} s")
        for spec in specs:
            self.specs.setdefault(spec.name, {})[server] = f"{spec.status}, {spec.seconds:.0f} s"
        self.failures += [f"{server}: {spec.name}: {spec.message.strip()[:300]}" for spec in specs if spec.status != "passed"]

    def add_loss(self, what: str, server: str, loss: Loss) -> None:
        self.add(f"{what}: queries lost at {RATE}/s over {SOCKETS} sockets", server, f"{loss.lost} of {loss.sent}, {100 * loss.share:.2f} %")
        self.add(f"{what}: time", server, f"{loss.seconds:.0f} s")

    def add_fault(self, name: str, server: str, outcome: Outcome | Exception) -> None:
        row = self.faults.setdefault(name, {})
        if isinstance(outcome, Exception):
            row[server] = "failed"
            self.failures.append(f"{server}: {name}: {outcome}")
            return
        loss, note = outcome
        told = f"{loss.lost} of {loss.sent}, {100 * loss.share:.2f} %, in {loss.seconds:.0f} s"
        row[server] = f"{told}; {note}" if note else told

    def add_check(self, what: str, server: str, found: str | Exception) -> None:
        self.add(what, server, "failed" if isinstance(found, Exception) else found)
        if isinstance(found, Exception):
            self.failures.append(f"{server}: {what}: {found}")

    def add_memory(self, what: str, server: str, octets: Sequence[int]) -> None:
        self.add(what, server, ", ".join(f"{value / 2**20:.0f} MiB" for value in octets))

    def text(self) -> str:
        versions = {"fastdns": "fastdns", "coredns": f"CoreDNS {COREDNS}"}
        head = [versions[server] for server in self.servers]
        lines = [
            f"# Kubernetes {VERSION}{self._cluster()}",
            "",
            f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.0f}, Linux {platform.release()}",
            "",
            *_table(["", *head], self._findings(self.rows)),
            "",
            *(_table([f"queries lost at {RATE}/s while", *head], self._findings(self.faults)) if self.faults else ()),
            "",
            *(_table(["spec of Kubernetes", *head], self._findings(self.specs)) if self.specs else ()),
            "",
            *_table(["part", "s"], [[part, f"{seconds:.0f}"] for part, seconds in self.seconds.items()]),
        ]
        if self.failures:
            lines += ["", "Failed:", "", *(f"- {' '.join(failure.split())}" for failure in self.failures)]
        return "\n".join(lines) + "\n"

    def _cluster(self) -> str:
        if not self.nodes:
            return ""
        return f", {self.nodes} {'node' if self.nodes == 1 else 'nodes'}, kube-proxy in {self.proxy_mode} mode"

    def _findings(self, rows: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
        return [[what, *(found.get(server, "") for server in self.servers)] for what, found in rows.items()]


def said(what: str) -> None:
    """Tell who waits."""
    print(f"cluster: {what}", file=sys.stderr, flush=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *([cell.replace("|", "/") for cell in row] for row in rows))]
