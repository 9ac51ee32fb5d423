"""What a run was meant to do, and what came of it: results that can be kept as JSON and added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from fastdns.bench.generator.histogram import Histogram

#: Of our own generator.
TRANSPORTS = ("udp", "tcp", "dot", "doh", "doh+http", "doq")
#: Of clients of other projects besides: HTTP/1.1 over TLS, HTTP/3, gRPC over TLS.
CLIENT_TRANSPORTS = ("doh1", "doh3", "grpc")
PATH = "/dns-query"
CHECKS = ("none", "sample", "all")
ARRIVALS = ("even", "poisson")
#: Percentiles of a latency curve.
CURVE = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0)


@dataclass(frozen=True, slots=True)
class Target:
    """Where queries go."""

    #: Address or host name.
    host: str
    port: int = 53
    #: One of :data:`TRANSPORTS` or :data:`CLIENT_TRANSPORTS`.
    transport: str = "udp"
    #: Name for SNI and the authority of HTTP; certificates are not checked: this measures.
    server_name: str = ""
    #: Of requests over HTTP.
    path: str = PATH

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS + CLIENT_TRANSPORTS:
            raise ValueError(f"transport {self.transport!r} is none of {', '.join(TRANSPORTS + CLIENT_TRANSPORTS)}")
        if not 0 < self.port < 65536:
            raise ValueError(f"port {self.port} is not from 1 to 65535")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.transport}://{host}:{self.port}" + (self.path if self.path != PATH else "")


@dataclass(slots=True)
class Plan:
    """How queries are sent. Times in seconds, rates in queries per second over all threads."""

    seconds: float = 10
    #: Open loop: queries are due at this rate whether or not replies come. 0: closed loop.
    rate: float = 0
    #: Closed loop: queries under way, over all clients.
    window: int = 128
    #: Sockets or connections, over all threads.
    clients: int = 8
    threads: int = 1
    #: CPUs that the threads are pinned to, in turn; none: anywhere.
    cpus: list[int] = field(default_factory=list)
    #: A query without a reply for so long is lost; connections that are not made in that time fail the run.
    timeout: float = 5
    #: Open loop: rates one after the other, each for an equal part of `seconds`; `rate` is then ignored.
    steps: list[float] = field(default_factory=list)
    #: Sent before the counting begins.
    warm: float = 0
    seed: int = 1
    #: Whose answers are compared with what is expected: "all", "sample" (one in 16), "none". Id, question and rcode are always looked at.
    check: str = "all"
    #: Open loop: "even", or "poisson" for random gaps, as of many clients.
    arrivals: str = "even"
    #: A connection for each query, which only clients of other projects make.
    new_connection: bool = False

    def __post_init__(self) -> None:
        if not self.seconds > 0 or not self.timeout > 0 or self.warm < 0:
            raise ValueError("seconds and timeout must be above 0, warm not below")
        if self.rate < 0 or any(rate <= 0 for rate in self.steps):
            raise ValueError("rates must be above 0")
        if min(self.clients, self.threads, self.window) < 1:
            raise ValueError("at least one client, one thread and a window of one query")
        if self.check not in CHECKS or self.arrivals not in ARRIVALS:
            raise ValueError(f"check is one of {', '.join(CHECKS)}, arrivals one of {', '.join(ARRIVALS)}")

    @property
    def closed(self) -> bool:
        return not self.rate and not self.steps

    @property
    def pieces(self) -> list[tuple[float, float]]:
        """Rates (0: closed loop) and for how many seconds each."""
        rates = self.steps or [self.rate]
        return [(rate, self.seconds / len(rates)) for rate in rates]


@dataclass(slots=True)
class Interval:
    """A second of a run, or the part of one up to the end of a step."""

    #: When it ends, in seconds since the counting began.
    second: float
    sent: int
    answered: int
    lost: int
    #: Seconds.
    p50: float
    p99: float
    #: Its length in seconds.
    seconds: float = 1
    #: Queries per second that were due; 0: closed loop.
    rate: float = 0
    wrong: int = 0


@dataclass(slots=True)
class Result:
    """Counts of a run. ``sent`` is ``answered`` and ``lost`` together unless the run was stopped."""

    label: str
    target: Target
    plan: Plan
    #: That queries were sent for.
    seconds: float = 0
    sent: int = 0
    answered: int = 0
    #: Sent, without a reply within the timeout.
    lost: int = 0
    #: What is wrong with replies -> how many: "id", "question", "rcode", "answer", "malformed", "status".
    wrong: dict[str, int] = field(default_factory=dict)
    #: Names of rcodes -> how many.
    rcodes: dict[str, int] = field(default_factory=dict)
    #: HTTP's status -> how many, but for 200; "0" is what is none. Each is a wrong reply.
    statuses: dict[str, int] = field(default_factory=dict)
    #: Of all replies.
    octets: int = 0
    latency: Histogram = field(default_factory=Histogram)
    intervals: list[Interval] = field(default_factory=list)
    #: Due, but never sent: the kernel did not take it or all ids were under way.
    unsent: int = 0
    #: Sent in the warm-up; the server counts them, nothing else here does.
    warmed: int = 0
    #: Streams of HTTP/2 or QUIC that the server reset or did not take; their queries are lost.
    resets: int = 0
    #: Replies after the timeout.
    late: int = 0
    #: Closed ports, refused and broken connections.
    refused: int = 0
    truncated: int = 0
    #: Replies that the kernel had no room for in our sockets: losses that are not the server's.
    dropped: int = 0
    #: Seconds of CPU that the generator's threads used, for warm-up and all.
    cpu: float = 0
    #: The same counts for each of the plan's steps.
    steps: list[Result] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """Whether it ended before its time."""
        return self.seconds < self.plan.seconds

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds if self.seconds else 0.0

    @property
    def wrongs(self) -> int:
        return sum(self.wrong.values())

    @property
    def lost_share(self) -> float:
        """Of all queries that were due, those that nobody answered: 0 to 1."""
        due = self.sent + self.unsent
        return (self.lost + self.unsent) / due if due else 0.0

    @property
    def cpu_us(self) -> float:
        """Microseconds of the generator's CPU for one query."""
        return self.cpu * 1e6 / (self.sent + self.warmed) if self.sent else 0.0

    def to_json(self) -> dict[str, Any]:
        stored = {name: getattr(self, name) for name in (*SUMS, "label", "seconds")}
        stored |= {"target": asdict(self.target), "plan": asdict(self.plan), "wrong": dict(self.wrong), "rcodes": dict(self.rcodes)}
        stored["statuses"] = dict(self.statuses)
        stored |= {"latency": self.latency.to_json(), "intervals": [asdict(interval) for interval in self.intervals]}
        stored["steps"] = [step.to_json() for step in self.steps]
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The same result again. KeyError, TypeError or ValueError when it is none."""
        given = dict(stored)
        given["target"] = Target(**given["target"])
        given["plan"] = Plan(**given["plan"])
        given["latency"] = Histogram.from_json(given["latency"])
        given["intervals"] = [Interval(**interval) for interval in given["intervals"]]
        given["steps"] = [Result.from_json(step) for step in given.get("steps", [])]
        return cls(**given)

    @classmethod
    def merged(cls, results: Iterable[Result]) -> Self:
        """What generators measured at the same time, as one: counts and histograms add up exactly, rates and windows too.

        The percentiles of single intervals cannot be added: the worst is kept. ValueError when there is nothing to add, when
        what was done differs in more than rate, or when they asked different servers.
        """
        parts = list(results)
        if not parts:
            raise ValueError("no results to merge")
        first = parts[0]
        for part in parts:
            if (part.label, part.target, part.plan.seconds, len(part.plan.steps)) != (first.label, first.target, first.plan.seconds, len(first.plan.steps)):
                raise ValueError(f"{part.label} to {part.target} for {part.plan.seconds:g} s is not what {first.label} to {first.target} was")
        plan = Plan(**asdict(first.plan))
        for name in ("rate", "window", "clients", "threads"):
            setattr(plan, name, sum(getattr(part.plan, name) for part in parts))
        plan.steps = [sum(rates) for rates in zip(*(part.plan.steps for part in parts), strict=True)]
        whole = cls(first.label, first.target, plan, seconds=max(part.seconds for part in parts))
        for part in parts:
            whole.add(part)
        whole.intervals = merged_intervals(parts)
        whole.steps = [cls.merged(steps) for steps in zip(*(part.steps for part in parts), strict=True)]
        return whole

    def add(self, other: Result) -> None:
        """Counts what another one counted, too; not its intervals and steps."""
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong = dict(Counter(self.wrong) + Counter(other.wrong))
        self.rcodes = dict(Counter(self.rcodes) + Counter(other.rcodes))
        self.statuses = dict(Counter(self.statuses) + Counter(other.statuses))
        self.latency.add(other.latency)


SUMS = ("sent", "answered", "lost", "octets", "unsent", "warmed", "late", "refused", "resets", "truncated", "dropped", "cpu")


def merged_intervals(parts: Iterable[Result]) -> list[Interval]:
    found: dict[float, Interval] = {}
    for part in parts:
        for interval in part.intervals:
            key = round(interval.second, 6)
            if key not in found:
                found[key] = Interval(**asdict(interval))
                continue
            whole = found[key]
            for name in ("sent", "answered", "lost", "rate", "wrong"):
                setattr(whole, name, getattr(whole, name) + getattr(interval, name))
            whole.p50 = max(whole.p50, interval.p50)
            whole.p99 = max(whole.p99, interval.p99)
            whole.seconds = max(whole.seconds, interval.seconds)
    return [found[key] for key in sorted(found)]
