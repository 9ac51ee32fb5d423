"""Scenarios of a cluster: its names over UDP and TCP, floods of names that are not there, changes, and lists read again."""

from __future__ import annotations

import argparse
import ipaddress
import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fastdns.bench.parts.api import KINDS, APIServer
from fastdns.bench.parts.cluster import ZONE, A, Cluster, Object, address_of, questions
from fastdns.bench.scenarios.scenario import Disturbance, Scenario, ScenarioError, Stage, Variant
from fastdns.bench.servers import SECURE, Running, Work, Zone
from fastdns.bench.workload import Collector, Question, Workload
from fastdns.bench.workloads import synthetic

#: Seconds for a request to an API server.
REPLY = 60.0
NXDOMAIN = 3
#: Namespace of what churn changes.
CHURN = "fastdns-bench"

COREFILE = """.:{port} {
    {bind}
    errors
    prometheus 127.0.0.1:{http}
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        SOURCE
        pods PODS
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loadbalance
}
"""


class ClusterNames(Scenario):
    name = "cluster"
    help = "names of a cluster's services (kubernetes)"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("cluster")
        synthetic.add_shape_arguments(group, 1000)
        group.add_argument("--pod-mode", default="insecure", choices=("disabled", "insecure", "verified"), help="option `pods` (%(default)s)")
        group.add_argument("--files", action="store_true", help="objects come from files, not from an API server (fastdns only)")
        group.add_argument("--api", metavar="URL", help="an API server to take the objects from, reachable without credentials (kubectl proxy)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        source = Source(options, stage)
        return [Variant(source.work(transport=self.transport), source.workload(options.seed), transport=self.transport)]

    transport = "udp"


class Tcp(ClusterNames):
    name = "tcp"
    help = "names of a cluster over pipelined TCP connections"
    baseline = ""
    transport = "tcp"


class Dot(ClusterNames):
    name = "dot"
    help = "names of a cluster over pipelined TLS connections"
    baseline = ""
    transport = "dot"


class Doh(ClusterNames):
    name = "doh"
    help = "names of a cluster over HTTP/2"
    baseline = ""
    transport = "doh"


class Doq(ClusterNames):
    name = "doq"
    help = "names of a cluster over QUIC, by a generator that is not native (extra quic)"
    baseline = ""
    transport = "doq"


class Flood(ClusterNames):
    name = "flood"
    help = "random names that do not exist, beside the real ones"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--share", type=float, default=90, metavar="PERCENT", help="of random names (%(default)s)")
        parser.add_argument("--random", type=int, default=100_000, metavar="N", help="distinct random names (%(default)s)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        if not 0 < options.share < 100:
            raise ScenarioError(f"--share is between 0 and 100, not {options.share:g}")
        source = Source(options, stage)
        real = source.workload(options.seed).questions
        choice = random.Random(options.seed)
        collector = Collector()
        unseen = options.random
        while unseen:
            if choice.random() * 100 < options.share:
                collector.add(Question(f"{choice.getrandbits(60):x}.svc.{ZONE}", A, NXDOMAIN, frozenset()))
                unseen -= 1
            else:
                collector.add(choice.choice(real))
        return [Variant(source.work(), collector.workload(f"{options.share:g} % random names"))]


class Churn(ClusterNames):
    name = "churn"
    help = "names of a cluster whose endpoints change, and how soon changes are answered"
    rates = (5000,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--changes", type=float, default=20, metavar="N", help="changed endpoint slices a second (%(default)s)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        source = Source(options, stage)
        source.add_changing(stage)
        each = max(1, round(options.changes * Churning.EVERY))
        return [Variant(source.work(zone=False), source.workload(options.seed), disturb=lambda running: Churning(running, source, each))]


class Relist(ClusterNames):
    name = "relist"
    help = "names of a cluster whose watches end again and again, so that it is listed anew"
    rates = (5000,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--every", type=float, default=2, metavar="SECONDS", help="from one end of all watches to the next (%(default)s)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        if options.api or options.files:
            raise ScenarioError("relist ends the watches of an API server of its own: leave out --api and --files")
        source = Source(options, stage)
        source.add_changing(stage)
        return [Variant(source.work(zone=False), source.workload(options.seed), disturb=lambda running: Relisting(running, source, options.every))]


# ---- where the objects are ----


class Source:
    """The cluster's objects: in an API server started here, in one that was given, or in files."""

    #: Headless services whose endpoints `Churning` changes.
    CHANGING = 20

    def __init__(self, options: argparse.Namespace, stage: Stage) -> None:
        self.stage = stage
        self.cluster = Cluster(synthetic.shape_from(options))
        numbers = self.cluster.shape.numbers()
        self.pod_mode = options.pod_mode
        self.folder: Path | None = None
        self.given = bool(options.api)
        if options.files:
            self.url = ""
            self.folder = stage.folder()
            with (self.folder / "cluster.jsonl").open("wb") as out:
                out.writelines(msgspec.json.encode(thing) + b"\n" for _, thing in self.cluster.objects())
        elif options.api:
            self.url = options.api.rstrip("/")
            self.addresses = [found for service in self._list("services") if (found := address_of(service))]
        else:
            self.url = stage.parts.enter_context(APIServer(self.cluster, stage.load_cpus)).url
        if self.given:
            stage.notes.append(f"cluster behind {self.url}")
        else:
            self.addresses = self.cluster.addresses
            sizes = ", ".join(f"{numbers[name]:,} {name}" for name in ("services", "headless", "endpoints", "pods"))
            stage.notes.append(f"cluster of {sizes} in {'files' if self.folder else 'an API server of this run'}")

    def work(self, zone: bool = True, transport: str = "udp") -> Work:
        """zone: for servers that have it as a zone too; transport: that they must have besides UDP and TCP."""
        directive = f"manifests {self.folder}" if self.folder else f"endpoint {self.url}"
        corefile = COREFILE.replace("SOURCE", directive).replace("PODS", self.pod_mode)
        needs = ["kubernetes", "cache", "errors", "prometheus", "loadbalance"]
        if transport in SECURE:
            corefile = corefile.replace(" {\n", f" {SECURE[transport]}://.:{{secure}} {{\n    tls {{certificate}} {{key}}\n", 1)
            needs.append("tls")
        first = self.workload(0).questions[0]
        return Work(
            "cluster name, its zone not cached",
            corefile,
            (first.name, A),
            needs=tuple(needs),
            zone=Zone(ZONE, self.cluster.zone, self.stage.folder()) if zone and not self.given else None,
            alone="objects from manifests" if self.folder else "",
        )

    def workload(self, seed: int) -> Workload:
        """The addresses of all services with a ClusterIP, in random order. WorkloadError when there are none."""
        return questions(self.addresses, seed)

    # ---- changes ----

    def add_changing(self, stage: Stage) -> None:
        """Headless services of a namespace of their own, for changes; those made in a given API server are taken away after the scenario."""
        made: list[tuple[str, Object]] = [("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CHURN}})]
        made += [pair for i in range(self.CHANGING) for pair in (("services", changing_service(i)), ("endpointslices", changing_slice(i, 0)))]
        for plural, thing in made:
            if self.given:
                stage.parts.callback(self._request, "DELETE", plural, thing, (404,))
            self.put(plural, thing)

    def put(self, plural: str, thing: Object) -> None:
        """Replaces an object or makes it."""
        if self.folder:
            new = self.folder / "new"
            new.write_bytes(msgspec.json.encode(thing))
            new.replace(self.folder / f"{thing['metadata']['name']}-{plural}.json")
        elif self._request("PUT", plural, thing, (404,)) is None:
            self._request("POST", plural, thing)

    def expire(self) -> None:
        """Ends all watches of the own API server, so that whoever follows it lists again."""
        request = urllib.request.Request(f"{self.url}/-/expire", method="POST", data=b"")
        with urllib.request.urlopen(request, timeout=REPLY):
            pass

    def _request(self, method: str, plural: str, thing: Object, allowed: Iterable[int] = ()) -> bytes | None:
        """The reply's body; None for a status that is allowed. Raises ScenarioError for others."""
        meta = thing["metadata"]
        namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        url = f"{self.url}{KINDS[plural][0]}{namespace}/{plural}" + ("" if method == "POST" else f"/{meta['name']}")
        body = None if method == "DELETE" else json.dumps(thing).encode()
        request = urllib.request.Request(url, method=method, data=body, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=REPLY) as reply:
                octets: bytes = reply.read()
                return octets
        except urllib.error.HTTPError as error:
            if error.code in allowed:
                return None
            raise ScenarioError(f"{method} {url}: {error}: {error.read(500).decode(errors='replace')}") from None
        except OSError as error:
            raise ScenarioError(f"{method} {url}: {error}") from None

    def _list(self, plural: str) -> list[dict[str, Any]]:
        url = f"{self.url}{KINDS[plural][0]}/{plural}"
        try:
            with urllib.request.urlopen(url, timeout=REPLY) as reply:
                items: list[dict[str, Any]] = json.load(reply)["items"]
        except (OSError, ValueError, KeyError) as error:
            raise ScenarioError(f"{url} cannot be listed: {error}") from None
        return items


def changing_service(i: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"changing-{i}", "namespace": CHURN},
        "spec": {"clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "ports": [{"name": "http", "protocol": "TCP", "port": 80}]},
    }


def changing_slice(i: int, number: int) -> Object:
    """The slice of service i at its number-th change."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"changing-{i}-0", "namespace": CHURN, "labels": {"kubernetes.io/service-name": f"changing-{i}"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [changing_address(number)], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


def changing_address(number: int) -> str:
    return str(ipaddress.IPv4Address("10.192.0.1") + number % (1 << 20))


# ---- what is done to it ----


class Churning(Disturbance):
    """Changes endpoint slices, so many a step; the last of a step is watched until it is answered."""

    EVERY = 0.2
    #: Changes so far, of all servers that share the source: each has a new address.
    _count = 0

    def __init__(self, running: Running, source: Source, each: int) -> None:
        super().__init__(running, self.EVERY)
        self.source = source
        self.each = each

    def step(self, number: int) -> None:
        for _ in range(self.each):
            Churning._count += 1
            i = Churning._count % self.source.CHANGING
            self.source.put("endpointslices", changing_slice(i, Churning._count))
        self.watch(f"changing-{i}.{CHURN}.svc.{ZONE}", A, [changing_address(Churning._count)], time.monotonic())


class Relisting(Churning):
    """Ends all watches, then changes one slice and waits until it is answered."""

    def __init__(self, running: Running, source: Source, every: float) -> None:
        super().__init__(running, source, 1)
        self.every = every

    def step(self, number: int) -> None:
        self.source.expire()
        super().step(number)
