"""A made-up cluster of any size: the same objects, names and addresses every time for one seed.

Services, pods and endpoint slices look as an API server with its controllers shows them, so that what reads them has the same
work as with a real cluster.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from fastdns.bench.workload import WorkloadError

__all__ = ["SUFFIXES", "Shape", "add_arguments", "objects", "write"]

SUFFIXES = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
#: Cluster IPs of 10.96.0.0/12 and fd00:96::/108; pods have 10.128.0.0/9 and fd00:128::/64.
SERVICES = {"IPv4": IPv4Address("10.97.0.0"), "IPv6": IPv6Address("fd00:96::1:0")}
PODS = {"IPv4": IPv4Address("10.128.0.0"), "IPv6": IPv6Address("fd00:128::")}
SERVICES_MAX, PODS_MAX = 15 << 16, (1 << 23) - 1
#: Endpoints of a slice, the default of the controller.
SLICE = 100
PODS_PER_NODE = 110
ZONES = ("zone-a", "zone-b", "zone-c")
TEAMS = ("shop", "billing", "search", "media", "data", "platform", "mobile", "ops", "fraud", "mail")
SUBJECTS = ("cart", "order", "payment", "user", "session", "catalog", "price", "stock", "event", "report", "image", "token", "quota", "audit", "review")
ROLES = ("api", "worker", "cache", "gateway", "web", "index", "sync", "proxy")
STORES = ("postgres", "kafka", "redis", "etcd", "mongo", "cassandra")
PORTS = (
    (("http", "TCP", 80),),
    (("http", "TCP", 80), ("https", "TCP", 443)),
    (("grpc", "TCP", 9000), ("metrics", "TCP", 9090)),
    (("http", "TCP", 80), ("https", "TCP", 443), ("metrics", "TCP", 9090)),
    (("dns", "UDP", 53), ("dns-tcp", "TCP", 53)),
)
#: What Kubernetes makes random suffixes of.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
MADE = "2026-01-01T00:00:00Z"

Object = dict[str, Any]
Ports = Iterable[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a cluster is. None: what goes with the number of services."""

    #: Services with cluster IPs.
    services: int = 1000
    headless: int | None = None
    #: Services of type ExternalName.
    external_names: int | None = None
    namespaces: int | None = None
    #: Of all services together; every one has a pod of its own, except past the number of pods.
    endpoints: int | None = None
    pods: int | None = None
    #: Share of the services with IPv4 and IPv6.
    dual_stack: float = 0.1
    #: Share of the endpoints that are not ready.
    not_ready: float = 0.03
    seed: int = 1

    def numbers(self) -> dict[str, int]:
        """All of them. WorkloadError when there is no cluster like this."""
        endpoints = self.services * 10 if self.endpoints is None else self.endpoints
        found = {
            "services": self.services,
            "headless": -(-self.services // 20) if self.headless is None else self.headless,
            "external_names": -(-self.services // 100) if self.external_names is None else self.external_names,
            "namespaces": max(1, self.services // 20) if self.namespaces is None else self.namespaces,
            "endpoints": endpoints,
            "pods": endpoints + endpoints // 2 if self.pods is None else self.pods,
        }
        limits = {"services": SERVICES_MAX, "pods": PODS_MAX, "endpoints": PODS_MAX}
        for name, number in found.items():
            if number < (name == "namespaces") or number > limits.get(name, number):
                raise WorkloadError(f"a cluster cannot have {number} {name.replace('_', ' ')}")
        for name, share in (("dual-stack services", self.dual_stack), ("endpoints that are not ready", self.not_ready)):
            if not 0 <= share <= 1:
                raise WorkloadError(f"the share of {name} is from 0 to 1, not {share:g}")
        if endpoints and not found["services"] + found["headless"]:
            raise WorkloadError("endpoints need a service")
        return found


def objects(shape: Shape) -> Iterator[Object]:
    """Namespaces and nodes, then each service followed by its pods and slices. WorkloadError."""
    return _Maker(shape).objects()


class _Maker:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.numbers = shape.numbers()
        self.random = random.Random(shape.seed)
        self.namespaces = [f"{TEAMS[i % len(TEAMS)]}-{i:03d}" for i in range(self.numbers["namespaces"])]
        self.nodes = [f"node-{i:04d}" for i in range(max(3, -(-self.numbers["pods"] // PODS_PER_NODE)))]
        self.made = self.pods = self.addresses = 0

    def objects(self) -> Iterator[Object]:
        for name in ("default", "kube-system", *self.namespaces):
            yield self.make("v1", "Namespace", name, labels={"kubernetes.io/metadata.name": name}, status={"phase": "Active"})
        for index, name in enumerate(self.nodes):
            yield self.node(index, name)
        yield self.service("kubernetes", "default", ("10.96.0.1",), (("https", "TCP", 443),))
        yield self.service("kube-dns", "kube-system", ("10.96.0.10",), (("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("metrics", "TCP", 9153)))
        yield from self.backed()
        for index in range(self.numbers["external_names"]):
            spec = {"type": "ExternalName", "externalName": f"host-{index}.example.org", "sessionAffinity": "None"}
            yield self.make("v1", "Service", f"outside-{index:05d}", self.namespace(index), spec=spec, status={"loadBalancer": {}})
        index = 0
        while self.pods < self.numbers["pods"]:  # jobs, that no service selects
            yield self.pod(f"job-{index:06d}-{self.suffix(5)}", self.namespace(index), "job", True)[0]
            index += 1

    def backed(self) -> Iterator[Object]:
        """Services that have endpoints, few of them many."""
        count = self.numbers["services"] + self.numbers["headless"]
        reached = list(itertools.accumulate((self.random.expovariate(1) for _ in range(count)), initial=0.0))
        ends = [round(self.numbers["endpoints"] * at / (reached[-1] or 1)) for at in reached]
        for index, (start, end) in enumerate(itertools.pairwise(ends)):
            headless = index >= self.numbers["services"]
            families = ("IPv4", "IPv6") if self.random.random() < self.shape.dual_stack else ("IPv4",)
            if headless:
                index -= self.numbers["services"]
                name = f"{STORES[index % len(STORES)]}-{index:05d}"
                addresses: tuple[str, ...] = ("None",)
            else:
                self.addresses += 1
                name = f"{SUBJECTS[index % len(SUBJECTS)]}-{ROLES[index // len(SUBJECTS) % len(ROLES)]}-{index:05d}"
                addresses = tuple(str(SERVICES[family] + self.addresses) for family in families)
            service = self.service(name, self.namespace(index), addresses, self.random.choice(PORTS), families)
            yield service
            yield from self.backing(service, headless, end - start)

    def backing(self, service: Object, headless: bool, count: int) -> Iterator[Object]:
        """A service's pods, and its slices."""
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        replica_set = self.suffix(9)
        families = service["spec"]["ipFamilies"]
        endpoints: dict[str, list[Object]] = {family: [] for family in families}
        for index in range(count):
            ready = self.random.random() >= self.shape.not_ready
            pod_name = f"{name}-{index}" if headless else f"{name}-{replica_set}-{self.suffix(5)}"
            pod, addresses = self.pod(pod_name, namespace, name, ready, name if headless else None)
            if self.pods <= self.numbers["pods"]:
                yield pod
            node = pod["spec"]["nodeName"]
            for family in families:
                endpoint = {
                    "addresses": [addresses[family]],
                    "conditions": {"ready": ready, "serving": ready, "terminating": False},
                    "nodeName": node,
                    "targetRef": {"kind": "Pod", "name": pod_name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
                    "zone": zone_of(node),
                }
                endpoints[family].append(endpoint | ({"hostname": pod_name} if headless else {}))
        labels = {"app": name, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "kubernetes.io/service-name": name}
        if headless:
            labels["service.kubernetes.io/headless"] = ""
        ports = [{"name": port["name"], "protocol": port["protocol"], "port": port["targetPort"]} for port in service["spec"]["ports"]]
        for family in families:
            for start in range(0, max(1, count), SLICE):
                some = endpoints[family][start : start + SLICE]
                slice_name = f"{name}-{self.suffix(5)}"
                yield self.make("discovery.k8s.io/v1", "EndpointSlice", slice_name, namespace, labels, addressType=family, endpoints=some, ports=ports)

    def service(self, name: str, namespace: str, addresses: Iterable[str], ports: Ports, families: Iterable[str] = ("IPv4",)) -> Object:
        families, addresses = list(families), list(addresses)
        spec = {
            "type": "ClusterIP",
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilies": families,
            "ipFamilyPolicy": "PreferDualStack" if len(families) > 1 else "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "selector": {"app": name},
            "ports": [{"name": port, "protocol": protocol, "port": number, "targetPort": number + 8000} for port, protocol, number in ports],
        }
        return self.make("v1", "Service", name, namespace, {"app": name, "team": namespace}, spec=spec, status={"loadBalancer": {}})

    def node(self, index: int, name: str) -> Object:
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone_of(name), "topology.kubernetes.io/region": "region-1"}
        addresses = [{"type": "InternalIP", "address": str(IPv4Address("172.16.0.1") + index)}, {"type": "Hostname", "address": name}]
        return self.make("v1", "Node", name, labels=labels, status={"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]})

    def pod(self, name: str, namespace: str, app: str, ready: bool, subdomain: str | None = None) -> tuple[Object, dict[str, str]]:
        self.pods += 1
        if self.pods > PODS_MAX:
            raise WorkloadError(f"there are addresses for {PODS_MAX} pods and endpoints")
        addresses = {family: str(first + self.pods) for family, first in PODS.items()}
        number = self.pods % len(self.nodes)
        spec = {
            "nodeName": self.nodes[number],
            "serviceAccountName": "default",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "containers": [CONTAINER | {"image": f"registry.example.org/{app}:v1", "env": [{"name": "APP", "value": app}]}],
            "volumes": VOLUMES,
            "tolerations": TOLERATIONS,
        }
        if subdomain:
            spec |= {"hostname": name, "subdomain": subdomain}
        state = {True: "True", False: "False"}
        conditions = {"Initialized": True, "Ready": ready, "ContainersReady": ready, "PodScheduled": True}
        status = {
            "phase": "Running",
            "conditions": [{"type": kind, "status": state[value], "lastTransitionTime": MADE} for kind, value in conditions.items()],
            "hostIP": str(IPv4Address("172.16.0.1") + number),
            "podIP": addresses["IPv4"],
            "podIPs": [{"ip": address} for address in addresses.values()],
            "startTime": MADE,
            "qosClass": "Burstable",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": ready,
                    "restartCount": 0,
                    "started": True,
                    "image": f"registry.example.org/{app}:v1",
                    "imageID": f"registry.example.org/{app}@sha256:{self.pods:064x}",
                    "containerID": f"containerd://{self.pods:064x}",
                    "state": {"running": {"startedAt": MADE}},
                }
            ],
        }
        return self.make("v1", "Pod", name, namespace, {"app": app, "pod-template-hash": "5d4f8c7b9"}, spec=spec, status=status), addresses

    def make(self, version: str, kind: str, name: str, namespace: str | None = None, labels: dict[str, str] | None = None, **rest: Any) -> Object:
        self.made += 1
        metadata: Object = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        metadata |= {"uid": str(uuid.UUID(int=self.shape.seed << 64 | self.made)), "resourceVersion": str(1000 + self.made), "creationTimestamp": MADE}
        if labels:
            metadata["labels"] = labels
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}

    def namespace(self, index: int) -> str:
        return self.namespaces[index % len(self.namespaces)]

    def suffix(self, length: int) -> str:
        return "".join(self.random.choices(LETTERS, k=length))


def zone_of(node: str) -> str:
    return ZONES[int(node.removeprefix("node-")) % len(ZONES)]


CONTAINER: Object = {
    "name": "main",
    "imagePullPolicy": "IfNotPresent",
    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
    "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
}
TOKEN: Object = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
VOLUMES: list[Object] = [{"name": "token", "projected": {"defaultMode": 420, "sources": [TOKEN]}}]
TOLERATIONS: list[Object] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]


# ---- writing ----


def write(items: Iterable[Object], path: str, suffix: str | None = None) -> dict[str, int]:
    """Write objects to a file, ``-`` for standard output, in the format of its ending; the numbers of objects by kind. WorkloadError."""
    suffix = suffix or os.path.splitext(path)[1] or ".jsonl"
    if suffix not in SUFFIXES:
        raise WorkloadError(f"{path}: the ending must be one of {', '.join(SUFFIXES)}")
    counts: dict[str, int] = {}
    before, between, after = {
        ".json": ('{"apiVersion":"v1","kind":"List","items":[\n', ",\n", "\n]}\n"),
        ".yaml": ("---\n", "\n---\n", "\n"),
        ".yml": ("---\n", "\n---\n", "\n"),
    }.get(suffix, ("", "\n", "\n"))
    try:
        with nullcontext(sys.stdout) if path == "-" else open(path, "w", encoding="utf-8") as file:
            for item in items:
                file.write(between if counts else before)
                file.write(json.dumps(item, separators=(",", ":")))  # which is YAML, too
                counts[item["kind"]] = counts.get(item["kind"], 0) + 1
            file.write(after)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error
    return counts


def add_shape_arguments(parser: argparse._ActionsContainer, services: int | None) -> None:
    default = Shape()
    parser.add_argument("--services", type=int, default=services, metavar="N", help="services with cluster IPs" + " (default %(default)s)" * bool(services))
    parser.add_argument("--headless", type=int, metavar="N", help="headless services (default: one for 20 services)")
    parser.add_argument("--external-services", type=int, metavar="N", help="services of type ExternalName (default: one for 100 services)")
    parser.add_argument("--namespaces", type=int, metavar="N", help="namespaces (default: one for 20 services)")
    parser.add_argument("--endpoints", type=int, metavar="N", help="endpoints of all services (default: 10 a service)")
    parser.add_argument("--pods", type=int, metavar="N", help="pods (default: 1.5 times the endpoints)")
    parser.add_argument("--dual-stack", type=float, default=default.dual_stack, metavar="SHARE", help="services with IPv4 and IPv6 (default %(default)s)")
    parser.add_argument("--not-ready", type=float, default=default.not_ready, metavar="SHARE", help="endpoints that are not ready (default %(default)s)")
    parser.add_argument("--cluster-seed", type=int, default=default.seed, metavar="SEED", help="of names and addresses (default %(default)s)")


def shape_from(arguments: argparse.Namespace) -> Shape:
    return Shape(
        services=arguments.services,
        headless=arguments.headless,
        external_names=arguments.external_services,
        namespaces=arguments.namespaces,
        endpoints=arguments.endpoints,
        pods=arguments.pods,
        dual_stack=arguments.dual_stack,
        not_ready=arguments.not_ready,
        seed=arguments.cluster_seed,
    )


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``fastdns-bench cluster``."""
    parser = subparsers.add_parser("cluster", help="write a made-up cluster as manifests", description=__doc__)
    add_shape_arguments(parser, Shape().services)
    parser.add_argument("--without-pods", action="store_true", help="the same services and slices, but no pods")
    formats = ", ".join(SUFFIXES)
    parser.add_argument("--output", default="-", metavar="FILE", help=f"the ending says the format: {formats} (default: standard output, JSON lines)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    items = objects(shape_from(arguments))
    if arguments.without_pods:
        items = (item for item in items if item["kind"] != "Pod")
    counts = write(items, arguments.output)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()), file=sys.stderr)
    return 0
