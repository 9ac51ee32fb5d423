"""A synthetic cluster: its Kubernetes objects, the same names as a zone, and the questions that they answer."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastdns.bench.workload import Collector, Question, Workload

ZONE = "cluster.local."
TTL = 5
A = 1
#: The endpoint slice controller's default.
SLICE_CAPACITY = 100
SERVICES_FROM = ipaddress.IPv4Address("10.96.0.10")
PODS_FROM = ipaddress.IPv4Address("10.128.0.1")
#: Every so many services one is headless.
HEADLESS = 20
#: Nothing in DNS depends on it, so that equal arguments give equal octets.
CREATED = "2026-01-01T00:00:00Z"

Object = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """Objects by count. Endpoints are spread evenly over the services; the first pods are those behind them."""

    services: int = 1000
    endpoints: int = 5000
    pods: int = 0
    namespaces: int = 0  # 0: one for twenty services

    @cached_property
    def namespace_count(self) -> int:
        return self.namespaces or max(1, self.services // 20)

    def namespace(self, i: int) -> str:
        return f"ns-{i % self.namespace_count}"

    def headless(self, i: int) -> bool:
        return i % HEADLESS == HEADLESS - 1

    def address(self, i: int) -> str:
        """ClusterIP of service i."""
        return str(SERVICES_FROM + i)

    def name(self, i: int) -> str:
        """Absolute name of service i."""
        return f"service-{i}.{self.namespace(i)}.svc.{ZONE}"

    # ---- objects ----

    def objects(self) -> Iterator[tuple[str, Object]]:
        """Pairs of plural and object: namespaces, services, endpointslices, pods."""
        for i in range(self.namespace_count):
            yield "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(self.namespace(i))}
        for i in range(self.services):
            yield "services", self.service(i)
        for i in range(self.services):
            for part in self.slices(i):
                yield "endpointslices", part
        for i in range(self.pods):
            yield "pods", self.pod(i)

    def service(self, i: int) -> Object:
        address = "None" if self.headless(i) else self.address(i)
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(f"service-{i}", self.namespace(i)),
            "spec": {
                "type": "ClusterIP",
                "clusterIP": address,
                "clusterIPs": [address],
                "ipFamilies": ["IPv4"],
                "selector": {"app": f"service-{i}"},
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
            },
        }

    def endpoint_numbers(self, i: int) -> range:
        """The endpoints (and pods) of service i."""
        each, more = divmod(self.endpoints, self.services)
        first = i * each + min(i, more)
        return range(first, first + each + (i < more))

    def slices(self, i: int) -> list[Object]:
        """The endpoint slices of service i; one without endpoints where it has none."""
        numbers = self.endpoint_numbers(i)
        starts = range(numbers.start, max(numbers.stop, numbers.start + 1), SLICE_CAPACITY)
        return [self.slice(i, n, [pod_address(k) for k in numbers if first <= k < first + SLICE_CAPACITY]) for n, first in enumerate(starts)]

    def slice(self, i: int, n: int, addresses: list[str]) -> Object:
        """Slice n of service i with these endpoints."""
        made = metadata(f"service-{i}-{n}", self.namespace(i))
        made["labels"] = {"kubernetes.io/service-name": f"service-{i}"}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": made,
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        }

    def pod(self, i: int) -> Object:
        address = pod_address(i)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(f"pod-{i}", self.namespace(i)),
            "spec": {"nodeName": f"node-{i // 110}", "containers": [{"name": "main", "image": "example/image:1"}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
        }

    # ---- the same as a zone, and questions ----

    def zone(self) -> str:
        """A zone file that gives the answers of `workload`."""
        lines = [f"$ORIGIN {ZONE}", f"$TTL {TTL}", "@ SOA ns.dns hostmaster 1 7200 1800 86400 5", "@ NS ns.dns", "ns.dns A 10.96.0.1"]
        lines += [f"{self.name(i)} A {self.address(i)}" for i in range(self.services) if not self.headless(i)]
        return "\n".join(lines) + "\n"

    def workload(self, seed: int) -> Workload:
        """The addresses of all services with a ClusterIP, in random order."""
        numbers = [i for i in range(self.services) if not self.headless(i)]
        random.Random(seed).shuffle(numbers)
        collector = Collector()
        for i in numbers:
            collector.add(Question(self.name(i), A, 0, frozenset([ipaddress.IPv4Address(self.address(i)).packed])))
        return collector.workload(f"ClusterIP names of {self.services} services")


def pod_address(i: int) -> str:
    return str(PODS_FROM + i)


def metadata(name: str, namespace: str = "") -> Object:
    made: Object = {"name": name, "uid": f"{namespace}/{name}", "creationTimestamp": CREATED}
    if namespace:
        made["namespace"] = namespace
    return made
