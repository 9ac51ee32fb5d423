"""A made-up cluster as scenarios need it: its objects by plural, its service names as a zone, and the questions that they answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address
from typing import Any

from fastdns.bench.workload import Collector, Question, Workload
from fastdns.bench.workloads import synthetic
from fastdns.bench.workloads.synthetic import Shape

ZONE = "cluster.local."
TTL = 5
A = 1
#: What a cluster's DNS reads.
PLURALS = {"Namespace": "namespaces", "Service": "services", "EndpointSlice": "endpointslices", "Pod": "pods"}

Object = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    shape: Shape

    def objects(self) -> Iterator[tuple[str, Object]]:
        """Pairs of plural and object. Raises WorkloadError when there is no cluster of that shape."""
        for thing in synthetic.objects(self.shape):
            if thing["kind"] in PLURALS:
                yield PLURALS[thing["kind"]], thing

    @cached_property
    def addresses(self) -> list[tuple[str, IPv4Address]]:
        """Names and addresses of the services that have a ClusterIP."""
        return [found for plural, thing in self.objects() if plural == "services" and (found := address_of(thing))]

    def zone(self) -> Iterator[str]:
        """Lines of a zone file that gives the answers of the questions."""
        yield f"$ORIGIN {ZONE}\n$TTL {TTL}\n@ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 10.96.0.10\n"
        for name, address in self.addresses:
            yield f"{name} A {address}\n"


def address_of(service: Object) -> tuple[str, IPv4Address] | None:
    """Absolute name and address of a service with an IPv4 ClusterIP; None for others."""
    spec, meta = service.get("spec", {}), service["metadata"]
    if spec.get("type") == "ExternalName" or ":" in (address := spec.get("clusterIP") or "None") or address == "None":
        return None
    return f"{meta['name']}.{meta['namespace']}.svc.{ZONE}", IPv4Address(address)


def questions(addresses: list[tuple[str, IPv4Address]], seed: int) -> Workload:
    """The addresses of all these services, each once, in random order. WorkloadError when there are none."""
    collector = Collector()
    for name, address in random.Random(seed).sample(addresses, len(addresses)):
        collector.add(Question(name, A, 0, frozenset([address.packed])))
    return collector.workload(f"{len(addresses)} ClusterIP names")
