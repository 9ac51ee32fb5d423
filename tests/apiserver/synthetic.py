"""Synthetic clusters of any size: the same numbers and seed always give the same objects.

Services have addresses from 10.97.0.1 on, pods from 10.128.0.1 on, so that nothing collides with addresses that the API server assigns
from the start of its range.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["SIZES", "Size", "SyntheticCluster"]

Object = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How many objects of each kind; ``services`` have a ClusterIP."""

    namespaces: int
    services: int
    headless: int
    external_names: int
    endpoints: int
    pods: int


SIZES = {
    "small": Size(namespaces=5, services=30, headless=6, external_names=3, endpoints=150, pods=200),
    "1k": Size(namespaces=50, services=950, headless=50, external_names=10, endpoints=10_000, pods=15_000),
    "10k": Size(namespaces=500, services=9_500, headless=500, external_names=100, endpoints=100_000, pods=150_000),
}

SERVICE_IPV4, SERVICE_IPV6 = ipaddress.IPv4Address("10.97.0.0"), ipaddress.IPv6Address("fd00:96::1:0")
POD_IPV4, POD_IPV6 = ipaddress.IPv4Address("10.128.0.0"), ipaddress.IPv6Address("fd00:128::")
NODE_IPV4 = ipaddress.IPv4Address("172.16.0.0")
#: Endpoints of one slice: the default of the endpoint slice controller.
SLICE_CAPACITY = 100
PODS_PER_NODE = 110
ZONES = ("zone-a", "zone-b", "zone-c")
PORTS = (
    [("http", "TCP", 80)],
    [("http", "TCP", 80), ("https", "TCP", 443)],
    [("grpc", "TCP", 9000), ("metrics", "TCP", 9090)],
    [("http", "TCP", 80), ("https", "TCP", 443), ("metrics", "TCP", 9090)],
    [("dns", "UDP", 53), ("dns-tcp", "TCP", 53)],
)
#: The letters of Kubernetes's generated names.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class SyntheticCluster:
    """``dual_stack`` is the share of services with IPv4 and IPv6, ``not_ready`` that of endpoints that are not ready."""

    def __init__(self, size: Size, seed: int = 1, dual_stack: float = 0.1, not_ready: float = 0.03) -> None:
        self.size, self.dual_stack, self.not_ready = size, dual_stack, not_ready
        self.random = random.Random(seed)
        self.namespaces = [f"team-{index:04d}" for index in range(size.namespaces)]
        self.nodes = [f"node-{index:04d}" for index in range(max(3, size.pods // PODS_PER_NODE))]
        self.pods_made = self.services_made = 0

    def objects(self) -> Iterator[Object]:
        """All of them, each service before its pods and endpoint slices."""
        for name in self.namespaces:
            yield manifest("v1", "Namespace", name, labels={"kubernetes.io/metadata.name": name})
        for index, name in enumerate(self.nodes):
            yield node(index, name)
        yield cluster_dns()
        services = self._services()
        shares = share_out(self.size.endpoints, [weight for _, _, weight in services])
        for (service, headless, _), endpoints in zip(services, shares, strict=True):
            yield service
            yield from self._backing(service, headless, endpoints)
        for index in range(self.size.external_names):
            spec = {"type": "ExternalName", "externalName": f"host-{index}.example.org"}
            yield manifest("v1", "Service", f"ext-{index:05d}", self._namespace(index), spec=spec)
        for index in itertools.count():  # pods that no service selects
            if self.pods_made >= self.size.pods:
                break
            yield self._pod(f"job-{index:06d}-{self._suffix(5)}", self._namespace(index), "job", ready=True)[0]

    def _namespace(self, index: int) -> str:
        return self.namespaces[index % len(self.namespaces)]

    def _suffix(self, length: int) -> str:
        return "".join(self.random.choices(SUFFIX_LETTERS, k=length))

    def _services(self) -> list[tuple[Object, bool, float]]:
        """Services that have endpoints, whether they are headless, and their share of all endpoints."""
        found = []
        for headless, prefix, number in ((False, "svc", self.size.services), (True, "db", self.size.headless)):
            for index in range(number):
                service = self._service(f"{prefix}-{index:05d}", self._namespace(index), headless)
                found.append((service, headless, self.random.expovariate(1)))
        return found

    def _service(self, name: str, namespace: str, headless: bool) -> Object:
        dual = self.random.random() < self.dual_stack
        families = ["IPv4", "IPv6"] if dual else ["IPv4"]
        addresses = ["None"]
        if not headless:
            self.services_made += 1
            addresses = [str(SERVICE_IPV4 + self.services_made), str(SERVICE_IPV6 + self.services_made)][: len(families)]
        spec: Object = {
            "type": "ClusterIP",
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilies": families,
            "ipFamilyPolicy": "PreferDualStack" if dual else "SingleStack",
            "selector": {"app": name},
            "ports": [
                {"name": port_name, "protocol": protocol, "port": port, "targetPort": port + 8000} for port_name, protocol, port in self.random.choice(PORTS)
            ],
        }
        if headless and self.random.random() < 0.1:
            spec["publishNotReadyAddresses"] = True
        return manifest("v1", "Service", name, namespace, labels={"app": name, "team": namespace}, spec=spec)

    def _backing(self, service: Object, headless: bool, count: int) -> Iterator[Object]:
        """The pods and the endpoint slices of a service."""
        name, namespace, families = service["metadata"]["name"], service["metadata"]["namespace"], service["spec"]["ipFamilies"]
        replica_set = self._suffix(9)
        endpoints: dict[str, list[Object]] = defaultdict(list)
        for index in range(count):
            ready = self.random.random() >= self.not_ready
            pod_name = f"{name}-{index}" if headless else f"{name}-{replica_set}-{self._suffix(5)}"
            pod, addresses = self._pod(pod_name, namespace, name, ready, name if headless else "")
            if self.pods_made <= self.size.pods:
                yield pod
            conditions = {"ready": ready, "serving": ready, "terminating": False}
            if not ready and self.random.random() < 0.3:
                conditions.update(serving=True, terminating=True)
            for family in families:
                endpoint: Object = {
                    "addresses": [addresses[family]],
                    "conditions": conditions,
                    "nodeName": pod["spec"]["nodeName"],
                    "zone": zone_of(pod["spec"]["nodeName"]),
                    "targetRef": {"kind": "Pod", "namespace": namespace, "name": pod_name},
                }
                if headless:
                    endpoint["hostname"] = pod_name
                endpoints[family].append(endpoint)
        for family in families:
            yield from self._slices(service, headless, family, endpoints[family])

    def _slices(self, service: Object, headless: bool, family: str, endpoints: list[Object]) -> Iterator[Object]:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        ports = [{"name": port["name"], "protocol": port["protocol"], "port": port["targetPort"]} for port in service["spec"]["ports"]]
        for start in range(0, max(1, len(endpoints)), SLICE_CAPACITY):
            labels = {
                "kubernetes.io/service-name": name,
                "app": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }
            if headless:
                labels["service.kubernetes.io/headless"] = ""
            part = endpoints[start : start + SLICE_CAPACITY]
            slice_name = f"{name}-{self._suffix(5)}"
            yield manifest("discovery.k8s.io/v1", "EndpointSlice", slice_name, namespace, labels, addressType=family, endpoints=part, ports=ports)

    def _pod(self, name: str, namespace: str, app: str, ready: bool, service: str = "") -> tuple[Object, dict[str, str]]:
        """The pod, and its address by IP family."""
        self.pods_made += 1
        addresses = {"IPv4": str(POD_IPV4 + self.pods_made), "IPv6": str(POD_IPV6 + self.pods_made)}
        spec = pod_spec(app, self.nodes[self.pods_made % len(self.nodes)], self.pods_made)
        if service:
            spec.update(hostname=name, subdomain=service)
        labels = {"app": app, "pod-template-hash": "5d4f8c7b9"}
        status = pod_status(app, addresses, ready, self.pods_made)
        return manifest("v1", "Pod", name, namespace, labels, spec=spec, status=status), addresses


def manifest(version: str, kind: str, name: str, namespace: str = "", labels: dict[str, str] | None = None, **rest: Any) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def share_out(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers that add up to the total, in proportion to the weights."""
    whole, shares, before = sum(weights), [], 0
    for reached in itertools.accumulate(weights):
        share_end = round(total * reached / whole)
        shares.append(share_end - before)
        before = share_end
    return shares


# ---- objects ----


def zone_of(name: str) -> str:
    return ZONES[int(name.removeprefix("node-")) % len(ZONES)]


def node(index: int, name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone_of(name), "topology.kubernetes.io/region": "region-1"}
    addresses = [{"type": "InternalIP", "address": str(NODE_IPV4 + index + 1)}, {"type": "Hostname", "address": name}]
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return manifest("v1", "Node", name, labels=labels, status={"addresses": addresses, "conditions": conditions})


def cluster_dns() -> Object:
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
        {"name": "metrics", "protocol": "TCP", "port": 9153},
    ]
    spec = {"clusterIP": "10.96.0.10", "selector": {"k8s-app": "kube-dns"}, "ports": ports}
    return manifest("v1", "Service", "kube-dns", "kube-system", {"k8s-app": "kube-dns"}, spec=spec)


def pod_spec(app: str, node_name: str, number: int) -> Object:
    """About as long as a real one."""
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    container = {
        "name": "main",
        "image": f"registry.example.org/{app}:v1.{number % 40}",
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "APP", "value": app},
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    return {
        "nodeName": node_name,
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [token, authority]}}],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
    }


def pod_status(app: str, addresses: dict[str, str], ready: bool, number: int) -> Object:
    started = "2025-01-01T00:00:00Z"
    container = {
        "name": "main",
        "ready": ready,
        "restartCount": 0,
        "started": True,
        "image": f"registry.example.org/{app}:v1",
        "imageID": f"registry.example.org/{app}@sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
        "state": {"running": {"startedAt": started}},
    }
    return {
        "phase": "Running",
        "hostIP": "172.16.0.1",
        "podIP": addresses["IPv4"],
        "podIPs": [{"ip": address} for address in addresses.values()],
        "startTime": started,
        "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True" if ready or not kind.endswith("Ready") else "False", "lastTransitionTime": started}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [container],
    }
