"""A canary: a new configuration that serves a share of the clients first, and is promoted for all, or rolled back.

`Rules` are what the configuration that serves says of the next one (*reload*). While a canary runs, a thread looks at what each of both configurations has
answered, and decides. All that changes what serves is done by `Process`, under its lock.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdns.corefile.duration import parse_duration
from fastdns.protocol.parameters import RCODES, rcode_text
from fastdns.server.judgement import LEAST, LEAST_BAD, exceeds, side_of
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.engine.chains import Chains
    from fastdns.server.instance import Instance
    from fastdns.server.source import Source

__all__ = ["RULES", "Canary", "Condition", "Rules", "parse_rules"]

#: Key of `Controller.values`: the Rules for the configuration after this one.
RULES = "canary/rules"

#: Seconds that a canary is tried before a single client may decide, if nobody else asks it.
ALONE = 10.0
#: Seconds between two looks.
INTERVAL = 0.1
#: Seconds that a canary lasts at least, and at most.
SHORTEST, LONGEST = 1.0, 86400.0

CONDITION = r"([a-z]+)>([0-9]+(?:\.[0-9]+)?)%"
PERCENTAGE = r"([0-9]+(?:\.[0-9]+)?)%"
DROPPED = "dropped"

Counts = dict[int | str, int]

ENDS = Metric("fastdns_canary_ends_total", "Counter of canaries, by how they ended.", "counter", ("outcome",))
CLIENTS = Metric("fastdns_canary_share", "Share of the clients that a canary serves; 0 while there is none.", "gauge")
REPLIES = Metric("fastdns_canary_replies_total", "Counter of replies while a canary runs, by configuration.", "counter", ("configuration", "rcode"))
OUTCOMES = ("promoted", "failed", "replaced", "aborted")


class Condition(NamedTuple):
    """``RCODE>SHARE%``: fails a canary of whose answers more have the rcode, by more than in the configuration that serves (`judgement`)."""

    text: str
    rcode: int | str
    #: Between 0 and 1.
    share: float

    def fails(self, counts: Counts) -> bool:
        """Whether these are too many, whoever got them. Few answers are judged, too: as if those that LEAST lacks were good ones."""
        bad = counts.get(self.rcode, 0)
        return bad >= LEAST_BAD and bad > self.share * max(sum(counts.values()), LEAST)


class Rules(NamedTuple):
    """What becomes of the next configuration."""

    #: Of the clients, between 0 and 1.
    share: float
    seconds: float
    conditions: tuple[Condition, ...]
    #: Is told of a canary that has failed.
    failed: Callable[[], object]

    def __str__(self) -> str:
        conditions = f", unless {' or '.join(condition.text for condition in self.conditions)}" if self.conditions else ""
        return f"{self.share * 100:g}% of the clients for {self.seconds:g} s{conditions}"


def parse_rules(words: list[str], failed: Callable[[], object]) -> Rules:
    """``SHARE% DURATION [fail-if RCODE>SHARE%...]``. Raises ValueError."""
    if len(words) < 2:
        raise ValueError("a canary has a share and a duration: canary 5% 60s fail-if servfail>1%")
    share = _share(words[0])
    seconds = parse_duration(words[1]) / 1e9
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"a canary lasts from 1s to 24h, not {words[1]}")
    rest = words[2:]
    if rest and (rest[0] != "fail-if" or len(rest) == 1):
        raise ValueError(f"expected 'fail-if' and conditions, not '{' '.join(rest)}'")
    return Rules(share, seconds, tuple(_condition(word) for word in rest[1:]), failed)


def _share(text: str) -> float:
    found = re.fullmatch(PERCENTAGE, text)
    if found is None or not 0 < float(found[1]) < 100:
        raise ValueError(f"a share is more than 0% and less than 100%, not {text}")
    return float(found[1]) / 100


def _condition(text: str) -> Condition:
    found = re.fullmatch(CONDITION, text.lower())
    numbers = {name.lower(): number for number, name in RCODES.items()}
    if found is None or float(found[2]) >= 100 or found[1] not in (*numbers, DROPPED):
        raise ValueError(f"a condition is RCODE>SHARE%, such as servfail>1%, not {text}")
    return Condition(text.lower(), numbers.get(found[1], DROPPED), float(found[2]) / 100)


class Judged(NamedTuple):
    """Why a canary ends: an outcome of OUTCOMES, and the cause in words."""

    outcome: str
    cause: str


class Canary:
    """A configuration on trial, beside the one that serves."""

    def __init__(self, source: Source, rules: Rules, serving: Chains, new: Instance, chains: Chains) -> None:
        self.source = source
        self.rules = rules
        self.new = new
        self.chains = chains
        self.began = time.time()
        self._alone = time.monotonic() + ALONE
        self._end = time.monotonic() + rules.seconds
        self._both = {"serving": serving, "canary": chains}
        #: What was there before: configurations that have been in another canary go on counting.
        self._before = {name: dict(both.replies()) for name, both in self._both.items()}
        self._counted: dict[str, Counts] = {name: {} for name in self._both}
        self.over = threading.Event()

    def counts(self, configuration: str = "canary") -> Counts:
        """What clients got of one of both, by rcode, since the canary began."""
        before = self._before[configuration]
        return {rcode: count - before.get(rcode, 0) for rcode, count in self._both[configuration].replies().items() if count > before.get(rcode, 0)}

    def judge(self) -> Judged | None:
        """What is to become of it now; None: it goes on."""
        counts, now = self.counts(), time.monotonic()
        for condition in self.rules.conditions:
            if self._fails(condition, counts, now):
                return Judged("failed", f"{condition.text}: {self.compared(condition)}")
        if now >= self._end:
            spared = "; ".join(f"spared by {condition.text}: {self.compared(condition)}" for condition in self.rules.conditions if condition.fails(counts))
            return Judged("promoted", f"{self.rules.seconds:g} s are over, {self.summary()}{spared and '; '}{spared}")
        return None

    def _fails(self, condition: Condition, counts: Counts, now: float) -> bool:
        bad = counts.get(condition.rcode, 0)
        if bad < LEAST_BAD or bad <= condition.share * LEAST:
            return False
        clients = self.chains.clients(condition.rcode)
        if exceeds(condition.share, clients, self._both["serving"].clients(condition.rcode)):
            return True
        # Where the canary has one client only there is nobody to compare it with.
        return now >= min(self._alone, self._end) and side_of(condition.share, clients).clients == 1 and condition.fails(counts)

    def compared(self, condition: Condition) -> str:
        """How often a condition was met, in both configurations."""
        parts = []
        for name in ("canary", "serving"):
            counts = self.counts(name)
            bad, total = counts.get(condition.rcode, 0), sum(counts.values())
            parts.append(f"{bad} of {total} answers of the {name} configuration ({bad / total if total else 0:.2%})")
        sides = {name: side_of(condition.share, both.clients(condition.rcode)) for name, both in self._both.items()}
        failing = ", ".join(f"{sides[name].failing} of {sides[name].clients} of the {name}" for name in ("canary", "serving"))
        return f"{', '.join(parts)}; failing clients: {failing} configuration"

    def summary(self) -> str:
        """All that both have answered, in a line."""
        return "; ".join(f"{name}: {', '.join(f'{key} {value}' for key, value in named(self.counts(name)).items()) or 'no answers'}" for name in self._both)

    def watch(self, decide: Callable[[Canary, Judged], object]) -> None:
        """Start the thread that looks at it until it is over. RuntimeError where none can be had."""
        self.count()
        CLIENTS.set((), self.rules.share)
        threading.Thread(target=self._run, args=(decide,), name="canary", daemon=True).start()

    def _run(self, decide: Callable[[Canary, Judged], object]) -> None:
        while not self.over.wait(INTERVAL):
            self.count()
            judged = self.judge()
            if judged is not None:
                decide(self, judged)

    def count(self) -> None:
        """Take what was answered into the metrics."""
        for configuration in self._both:
            counts, counted = self.counts(configuration), self._counted[configuration]
            for rcode, count in counts.items():
                REPLIES.add((configuration, name_of(rcode)), count - counted.get(rcode, 0))
            self._counted[configuration] = counts

    def ended(self, judged: Judged) -> None:
        """Count the end. It is not looked at any more."""
        self.over.set()
        self.count()
        CLIENTS.set((), 0)
        ENDS.add((judged.outcome,))

    def section(self) -> dict[str, Any]:
        """What `fastdns canary` shows."""
        return {
            "file": self.source.file,
            "share": self.rules.share,
            "seconds": self.rules.seconds,
            "conditions": " or ".join(condition.text for condition in self.rules.conditions),
            "began": self.began,
            "left": max(0.0, self._end - time.monotonic()),
            "replies": {name: named(self.counts(name)) for name in self._both},
        }


def name_of(rcode: int | str) -> str:
    """The label of a count."""
    return rcode if isinstance(rcode, str) else rcode_text(rcode)


def named(counts: Mapping[int | str, int]) -> dict[str, int]:
    return {name_of(rcode): count for rcode, count in counts.items()}
