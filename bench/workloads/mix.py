"""Mixed workloads: ``cluster=70,external=20,nx=10`` and what each of the names in it asks."""

from __future__ import annotations

import difflib
import itertools
import random
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from fastdns.bench.workload import Collector, Question, Workload, WorkloadError
from fastdns.bench.workloads.cluster import Service
from fastdns.bench.workloads.oracle import Oracle, reverse_name
from fastdns.bench.workloads.resolver import Resolver
from fastdns.bench.workloads.zonefile import Zone

__all__ = ["KINDS", "Ingredients", "make", "parse_mix"]

A, PTR, AAAA, SRV = 1, 12, 28, 33
T = TypeVar("T")
#: Questions that leave at the same moment.
Burst = Sequence[Question]
#: Bursts that follow one another, as one look-up of a program makes them.
Lookup = Sequence[Burst]


@dataclass(frozen=True)
class Ingredients:
    """What there is to ask about, and how."""

    seed: int = 1
    #: Of a cluster's names; None: no cluster is known.
    oracle: Oracle | None = None
    #: Exponent of Zipf's law: the n-th name of a kind is asked for 1/n^zipf as often as the first.
    zipf: float = 1.0
    #: Names outside of the cluster, the most popular first.
    external: Sequence[tuple[str, int]] = tuple((Zone("example.org.", 1000).name(number), A) for number in range(1000))
    #: External questions whose replies are known, by name and type.
    known: Mapping[tuple[str, int], Question] = field(default_factory=dict)
    resolver: Resolver = field(default_factory=Resolver)
    #: Names of `nx` that are asked again and again.
    absent: int = 1000
    #: Below which name `flood` asks; empty: ``default.svc`` of the cluster's zone, else example.org.
    flood: str = ""
    #: What `queries` asks, in this order.
    queries: Sequence[Question] = ()
    #: Zone of `nx` where there is no cluster.
    zone: str = "cluster.local."


# ---- kinds ----


class Picks:
    """Choices of one kind, by a seed of its own: what else is in the mix does not change them."""

    def __init__(self, ingredients: Ingredients, kind: str) -> None:
        self.all = ingredients
        self.kind = kind
        self.random = random.Random(f"{ingredients.seed} {kind}")

    @property
    def oracle(self) -> Oracle:
        if self.all.oracle is None:
            raise WorkloadError(f"{self.kind} asks for names of a cluster, and none is given")
        return self.all.oracle

    @property
    def zone(self) -> str:
        return self.oracle.zone

    def by_zipf(self, items: Sequence[T], what: str) -> Iterator[T]:
        """Picks without end, in a popularity of the seed's choice."""
        if not items:
            raise WorkloadError(f"{self.kind}: the cluster has no {what}")
        shuffled = list(items)
        self.random.shuffle(shuffled)
        return self.ranked(shuffled)

    def ranked(self, items: Sequence[T]) -> Iterator[T]:
        """Picks without end, the first item the most popular."""
        weights = list(itertools.accumulate(rank**-self.all.zipf for rank in range(1, len(items) + 1)))
        while True:
            yield from self.random.choices(items, cum_weights=weights, k=1000)

    def services(self) -> list[Service]:
        return [service for service in self.oracle.cluster.services.values() if service.addresses]

    def label(self, length: int) -> str:
        return "".join(self.random.choices(string.ascii_lowercase, k=length))

    def both(self, name: str) -> Burst:
        """A and AAAA, which a resolver sends together."""
        question = self.all.oracle.question if self.all.oracle is not None else Question
        return (question(name, A), question(name, AAAA))

    def searched(self, name: str, namespace: str) -> Lookup:
        """All that a look-up sends from a pod of that namespace."""
        return [self.both(candidate) for candidate in self.all.resolver.asked(name, namespace, self.found)]

    def found(self, name: str) -> bool | None:
        replies = [self.oracle.reply(name, qtype) for qtype in (A, AAAA)]
        if any(reply.answers for reply in replies):
            return True
        return False if any(reply.rcode == 0 for reply in replies) else None


def name_of(service: Service, zone: str) -> str:
    return f"{service.name}.{service.namespace}.svc.{zone}"


def cluster(picks: Picks) -> Iterator[Lookup]:
    for service in picks.by_zipf(picks.services(), "services with cluster IPs"):
        yield [[picks.oracle.question(name_of(service, picks.zone), A)]]


def pair(picks: Picks) -> Iterator[Lookup]:
    for service in picks.by_zipf(picks.services(), "services with cluster IPs"):
        yield [picks.both(name_of(service, picks.zone))]


def headless(picks: Picks) -> Iterator[Lookup]:
    found = [service for service in picks.oracle.cluster.services.values() if service.headless and service.endpoints]
    for service in picks.by_zipf(found, "headless services with endpoints"):
        yield [[picks.oracle.question(name_of(service, picks.zone), A)]]


def endpoint(picks: Picks) -> Iterator[Lookup]:
    found = [(service, one) for service in picks.oracle.cluster.services.values() if service.headless for one in service.endpoints]
    for service, one in picks.by_zipf(found, "endpoints of headless services"):
        name = f"{one.name}.{name_of(service, picks.zone)}"
        yield [[picks.oracle.question(name, AAAA if ":" in one.address else A)]]


def srv(picks: Picks) -> Iterator[Lookup]:
    found = [(service, port) for service in picks.services() for port in service.ports if port.name and port.number is not None]
    for service, port in picks.by_zipf(found, "services with named ports"):
        yield [[picks.oracle.question(f"_{port.name}._{port.protocol}.{name_of(service, picks.zone)}", SRV)]]


def pod(picks: Picks) -> Iterator[Lookup]:
    for namespace, address in picks.by_zipf(list(picks.oracle.cluster.pods), "pods"):
        dashed = address.replace(".", "-").replace(":", "-")
        yield [[picks.oracle.question(f"{dashed}.{namespace}.pod.{picks.zone}", AAAA if ":" in address else A)]]


def reverse(picks: Picks) -> Iterator[Lookup]:
    services = picks.oracle.cluster.services.values()
    found = [address for service in services for address in (*service.addresses, *(one.address for one in service.endpoints))]
    for address in picks.by_zipf(list(dict.fromkeys(found)), "addresses"):
        yield [[picks.oracle.question(reverse_name(address), PTR)]]


def cname(picks: Picks) -> Iterator[Lookup]:
    found = [service for service in picks.oracle.cluster.services.values() if service.target is not None]
    for service in picks.by_zipf(found, "services of type ExternalName"):
        yield [[picks.oracle.question(name_of(service, picks.zone), A)]]


def nx(picks: Picks) -> Iterator[Lookup]:
    oracle = picks.all.oracle
    spaces = list(oracle.cluster.namespaces) if oracle is not None and oracle.cluster.namespaces else ["default"]
    zone = oracle.zone if oracle is not None else picks.all.zone
    names: dict[str, None] = {}
    while len(names) < picks.all.absent:
        name = f"no-{picks.label(8)}.{picks.random.choice(spaces)}.svc.{zone}"
        if oracle is None or oracle.reply(name, A).rcode == 3:
            names[name] = None
    for name in picks.ranked(list(names)):
        yield [[Question(name, A, 3, frozenset())]]


def external(picks: Picks) -> Iterator[Lookup]:
    for asked in picks.ranked(picks.all.external):
        yield [[picks.all.known.get(asked) or Question(*asked)]]


def short(picks: Picks) -> Iterator[Lookup]:
    spaces = list(picks.oracle.cluster.namespaces)
    for service in picks.by_zipf(picks.services(), "services with cluster IPs"):
        if picks.random.random() < 0.5:
            yield picks.searched(service.name, service.namespace)
        else:
            yield picks.searched(f"{service.name}.{service.namespace}", picks.random.choice(spaces))


def search(picks: Picks) -> Iterator[Lookup]:
    spaces = list(picks.oracle.cluster.namespaces)
    for service in picks.by_zipf(picks.services(), "services with cluster IPs"):
        yield picks.searched(name_of(service, picks.zone).removesuffix("."), picks.random.choice(spaces))


def search_external(picks: Picks) -> Iterator[Lookup]:
    spaces = list(picks.oracle.cluster.namespaces)
    for name, _ in picks.ranked(picks.all.external):
        found = picks.searched(name.removesuffix("."), picks.random.choice(spaces))
        yield [[picks.all.known.get((question.name, question.type), question) for question in burst] for burst in found]


def flood(picks: Picks) -> Iterator[Lookup]:
    oracle = picks.all.oracle
    below = picks.all.flood or (f"default.svc.{oracle.zone}" if oracle is not None else "example.org.")
    below = below.removesuffix(".") + "."
    while True:
        name = f"{picks.label(picks.random.randint(8, 16))}.{below}"
        yield [[oracle.question(name, A) if oracle is not None else Question(name, A)]]


def queries(picks: Picks) -> Iterator[Lookup]:
    if not picks.all.queries:
        raise WorkloadError("queries asks what --queries or --capture gives, and neither is there")
    return ([[question]] for question in itertools.cycle(picks.all.queries))


class Kind(NamedTuple):
    lookups: Callable[[Picks], Iterator[Lookup]]
    what: str


KINDS: Final = {
    "cluster": Kind(cluster, "A of services with cluster IPs"),
    "pair": Kind(pair, "A and AAAA of them at the same moment"),
    "short": Kind(short, "services from a pod as SERVICE or SERVICE.NAMESPACE, through the search list"),
    "search": Kind(search, "services from a pod by their full name without the final dot: misses, then a hit"),
    "search-external": Kind(search_external, "external names from a pod in the same way"),
    "headless": Kind(headless, "A of headless services"),
    "endpoint": Kind(endpoint, "addresses of single endpoints of headless services"),
    "srv": Kind(srv, "SRV of named ports"),
    "pod": Kind(pod, "addresses of pods by 10-1-2-3.NAMESPACE.pod"),
    "reverse": Kind(reverse, "PTR of cluster IPs and endpoints"),
    "cname": Kind(cname, "A of services of type ExternalName"),
    "nx": Kind(nx, "A of services that are not there, the same ones again and again"),
    "external": Kind(external, "A of names outside of the cluster"),
    "flood": Kind(flood, "A of random names, each another"),
    "queries": Kind(queries, "what --queries or --capture gives, in its order"),
}


# ---- mixing ----


def parse_mix(text: str) -> dict[str, float]:
    """Shares by kind, ``cluster=70,nx=30``; of any size, and equal ones where none is given. WorkloadError."""
    shares: dict[str, float] = {}
    bare = 0
    for part in text.split(","):
        name, equals, share = (piece.strip() for piece in part.partition("="))
        if not name:
            raise WorkloadError(f"--mix {text!r}: a kind is missing" + f" in {part!r}" * bool(part))
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise WorkloadError(f"--mix {text!r}: there is no {name!r}{meant} (kinds: {', '.join(KINDS)})")
        if name in shares:
            raise WorkloadError(f"--mix {text!r}: {name} is there twice")
        bare += not equals
        shares[name] = _share(text, name, share) if equals else 1.0
    if 0 < bare < len(shares):
        raise WorkloadError(f"--mix {text!r}: either all kinds have shares or none")
    return shares


def _share(text: str, name: str, share: str) -> float:
    try:
        number = float(share.removesuffix("%"))
    except ValueError:
        raise WorkloadError(f"--mix {text!r}: the share of {name} is {share!r}, not a number") from None
    if not 0 < number < float("inf"):
        raise WorkloadError(f"--mix {text!r}: the share of {name} must be more than 0, not {share}")
    return number


def make(shares: dict[str, float], ingredients: Ingredients, length: int, label: str | None = None) -> Workload:
    """A sequence of about that many questions; the shares are those of questions, so one look-up over a search list counts as many. WorkloadError."""
    whole = sum(shares.values())
    lookups: dict[str, list[Lookup]] = {}
    for kind, share in shares.items():
        wanted, found = length * share / whole, 0
        lookups[kind] = taken = []
        for lookup in KINDS[kind].lookups(Picks(ingredients, kind)):
            if found >= wanted:
                break
            taken.append(lookup)
            found += sum(map(len, lookup))
    turns = [kind for kind, taken in lookups.items() for _ in taken]
    random.Random(f"{ingredients.seed} order").shuffle(turns)  # of kinds: what a query file has stays in its order
    following = {kind: iter(taken) for kind, taken in lookups.items()}
    collector = Collector()
    for kind in turns:
        collector.extend(next(following[kind]))
    return collector.workload(label or ",".join(f"{kind}={share:g}" for kind, share in shares.items()))
