"""Lists and watches that fail for long: a state with a beginning and an end, shown by the log, a gauge and an event.

A feed says of each kind whether it fails at the moment (`Failure`). `Problems` looks every second, begins a `WatchProblem` for what has failed for `AFTER`,
and ends it. Rights that depend on the cluster look at the same failures (`Gate`).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fastdns.control import sleep
from fastdns.plugins.kubernetes.decode.refusals import Refusals, describe, printable
from fastdns.plugins.kubernetes.watch import metrics
from fastdns.telemetry import events
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.acl._cluster import Unsynced

__all__ = ["AFTER", "ALLOW", "DENY", "UNLISTED", "Failure", "Gate", "Problems", "Report", "WatchProblem"]

#: Seconds that something fails before it is a problem.
AFTER = 30.0
#: Seconds between two looks.
LOOK = 1.0
CAUSE_MAX = 300
#: The cause as long as nothing has come.
UNLISTED = "nothing has been listed yet"

#: When rights depend on a kind that fails: the last state counts; or it counts no more after some time, in any case or if it is our failure.
ALLOW, DENY, OURS = "allow", "deny", ""

log = Log("plugin/kubernetes")


class Failure:
    """A list and watch that fails at the moment. Times are those of `time.monotonic`."""

    # No dataclass: the import of dataclasses takes some 10 ms, and nothing else in a replica's start needs dataclasses.
    def __init__(self, since: float, cause: str, ours: float | None = None, answers: bool = False) -> None:
        self.since = since
        self.cause = cause
        #: When the server first answered and the watch failed; None: the server has not answered since.
        self.ours = ours
        #: Whether the server answered the last try.
        self.answers = answers

    def again(self, now: float, cause: str, answers: bool) -> None:
        """One more try has failed."""
        self.cause, self.answers = cause, answers
        if answers and self.ours is None:
            self.ours = now

    def counts(self, now: float, mode: str, after: float) -> bool:
        """Whether rights that depend on it are denied."""
        since = self.since if mode == DENY else self.ours if self.answers and mode == OURS else None
        return since is not None and now - since >= after


class Report(NamedTuple):
    """What a feed says of one list and watch."""

    #: As the metric shows it, such as ``pods``.
    label: str
    #: What in the store depends on it; None: everything.
    kinds: frozenset[Hashable] | None
    failure: Failure | None


class Reporter(Protocol):
    """A feed whose failures are looked at. All calls on the loop's thread."""

    def reports(self, now: float) -> Iterable[Report]:
        """One for each list and watch."""

    def refusals(self) -> Iterable[Refusals]:
        """The objects that are refused, of each."""


#: How many problems are shown of each label and host.
_shown: Counter[tuple[str, str]] = Counter()


class WatchProblem:
    """One thing that fails for long."""

    def __init__(self, what: str, label: str, host: str, gauge: bool = True) -> None:
        #: Such as ``the watch of pods``.
        self.what = what
        self.labels = (label, host)
        self.gauge = gauge
        self.begun: float | None = None
        if gauge:
            self._show(0)

    def look(self, now: float, failure: Failure | None) -> None:
        """Begin or end."""
        if failure is None:
            self.end(now)
        elif self.begun is None and now - failure.since >= AFTER:
            self.begin(now, failure)

    def begin(self, now: float, failure: Failure) -> None:
        self.begun = failure.since
        cause = printable(failure.cause, CAUSE_MAX)
        log.error(f"{self.what} at {self.labels[1]} has failed for {now - failure.since:.0f} s: {cause}")
        events.note("watch_failing", f"{self.what} at {self.labels[1]}", cause)
        self._show(1)

    def end(self, now: float) -> None:
        if self.begun is None:
            return
        seconds, self.begun = now - self.begun, None
        log.info(f"{self.what} at {self.labels[1]} works again after {seconds:.0f} s")
        events.note("watch_restored", f"{self.what} at {self.labels[1]}", f"after {seconds:.0f} s")
        self._show(-1)

    def close(self) -> None:
        """Nobody wants it any more."""
        if self.begun is not None:
            self.begun = None
            self._show(-1)

    def _show(self, more: int) -> None:
        if self.gauge:
            _shown[self.labels] += more
            metrics.watch_failing.set(self.labels, int(_shown[self.labels] > 0))


class Gate:
    """Tells a handler whether rights that depend on the cluster's pods, or on whose names there are, are denied."""

    def __init__(self, mode: str, after: float, clients: frozenset[Hashable]) -> None:
        self.mode = mode
        self.after = after
        #: The kinds that tell which pod has an address; all others tell whose names there are.
        self.clients = clients

    def look(self, now: float, reports: list[Report], flags: Unsynced) -> None:
        failing = [report.kinds for report in reports if report.failure is not None and report.failure.counts(now, self.mode, self.after)]
        flags.set(
            any(kinds is None or bool(kinds & self.clients) for kinds in failing),
            any(kinds is None or bool(kinds - self.clients) for kinds in failing),
        )


class Problems:
    """The problems of one cluster."""

    def __init__(self, host: str) -> None:
        self.host = metrics.label(host)
        self.feed: Reporter | None = None
        self.watches: dict[str, WatchProblem] = {}
        self.objects: dict[str, WatchProblem] = {}
        #: Since when a kind has objects that are refused.
        self.refused_since: dict[str, Failure] = {}
        self.lock = threading.Lock()
        self.gates: weakref.WeakKeyDictionary[Unsynced, Gate] = weakref.WeakKeyDictionary()

    def add_gate(self, flags: Unsynced, gate: Gate) -> None:
        """The gate lasts as long as its flags. From any thread."""
        with self.lock:
            self.gates[flags] = gate

    async def run(self) -> None:
        try:
            while True:
                self.look(time.monotonic())
                await sleep(LOOK)
        finally:
            for problem in (*self.watches.values(), *self.objects.values()):
                problem.close()

    def look(self, now: float) -> None:
        if self.feed is None:
            return
        reports = list(self.feed.reports(now))
        labels = {report.label for report in reports}
        for label in self.watches.keys() - labels:
            self.watches.pop(label).close()
        for report in reports:
            if report.label not in self.watches:
                self.watches[report.label] = WatchProblem(f"The watch of {report.label}", report.label, self.host)
            self.watches[report.label].look(now, report.failure)
        self._look_at_objects(now)
        with self.lock:
            gates = list(self.gates.items())
        for flags, gate in gates:
            gate.look(now, reports, flags)

    def _look_at_objects(self, now: float) -> None:
        """Objects that are refused are a problem by themselves: they deny nothing to others."""
        standing: dict[str, list[tuple[tuple[str, str], str]]] = {}
        for refusals in self.feed.refusals() if self.feed is not None else ():
            if refusals.standing:
                standing.setdefault(refusals.kind, []).extend(refusals.standing.items())
        for label in self.refused_since.keys() - standing.keys():
            del self.refused_since[label]
        for label, found in standing.items():
            (name, reason) = found[-1]
            cause = f"{len(found)} refused, the last one {describe(*name)}: {reason}"
            self.refused_since.setdefault(label, Failure(now, cause)).cause = cause
            if label not in self.objects:
                self.objects[label] = WatchProblem(f"An object of {label}", label, self.host, gauge=False)
        for label, problem in self.objects.items():
            problem.look(now, self.refused_since.get(label))
