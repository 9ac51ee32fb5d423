"""The objects of a very large cluster, made by their numbers and in protobuf, so that nothing of them has to be kept.

Pods have what a Deployment's have: owner, environment, volumes, probes, conditions and statuses, 2 KB and more. What is chosen at random comes from the seed.
The lengths of all objects are known before they are made, and so is that of a list.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from fastdns.bench.parts.protobuf import Value, entries, message

__all__ = ["ENDPOINTS", "HEADLESS", "VERSION", "Kind", "Numbered", "address", "changed_address"]

#: Endpoints of a slice; each service has one slice.
ENDPOINTS = 10
#: Every so many services one is headless.
HEADLESS = 20
NAMESPACES = 1000
#: Pods differ in one of so many ways.
TEMPLATES = 64
#: The first resource version. All have ten digits.
VERSION = 1_000_000_000
#: Octets of three digits that an address has: 100 to 254.
DIGITS = 155


@dataclass(frozen=True)
class Kind:
    """Of objects."""

    api_version: str
    name: str
    count: int
    #: An object's octets by number and resource version.
    make: Callable[[int, int], bytes]
    #: Objects whose numbers differ by this are of the same length.
    period: int = 1


class Template:
    """A message with places of a fixed length."""

    def __init__(self, octets: bytes, *places: bytes) -> None:
        """``places``: each occurs in the octets, and they are in this order."""
        text = octets.replace(b"%", b"%%")
        for place in places:
            assert place in text, place
            text = text.replace(place, b"%b")
        self.text = text

    def fill(self, *values: bytes) -> bytes:
        return self.text % values


class Numbered:
    """Kinds by plural."""

    def __init__(self, services: int, pods: int, seed: int) -> None:
        self.services, self.pods, self.seed = services, pods, seed
        self.namespaces = min(NAMESPACES, services)
        #: Addresses of endpoints and pods that have changed, by number of the pod.
        self.moved: dict[int, bytes] = {}
        self._pods = [self._pod_template(random.Random(f"{seed} {number}")) for number in range(TEMPLATES)]
        self._services = {headless: self._service_template(headless) for headless in (False, True)}
        self._slice = self._slice_template()
        self.kinds = {
            "namespaces": Kind("v1", "Namespace", self.namespaces, self.namespace),
            "services": Kind("v1", "Service", services, self.service, HEADLESS),
            "endpointslices": Kind("discovery.k8s.io/v1", "EndpointSlice", services, self.slice),
            "pods": Kind("v1", "Pod", pods, self.pod, TEMPLATES),
        }

    # ---- names ----

    def namespace_of(self, number: int) -> str:
        """Of a service, or of the pods of that service."""
        return f"team-{number % self.namespaces:04d}"

    def service_name(self, number: int) -> str:
        return f"service-{number:06d}"

    def pod_name(self, number: int) -> str:
        return f"service-{number // ENDPOINTS:06d}-7d4b9c6f5d-{number:07d}"

    # ---- objects ----

    def namespace(self, number: int, version: int) -> bytes:
        return message((1, message((1, self.namespace_of(number)), (6, str(version)))), (3, message((1, "Active"))))

    def service(self, number: int, version: int) -> bytes:
        headless = number % HEADLESS == 0
        values = [self.service_name(number).encode(), self.namespace_of(number).encode(), b"%d" % version]
        if not headless:
            values += [address(number, 200)] * 2
        return self._services[headless].fill(*values)

    def slice(self, number: int, version: int) -> bytes:
        values = [self.service_name(number).encode(), self.namespace_of(number).encode(), b"%d" % version, self.service_name(number).encode()]
        for pod in range(number * ENDPOINTS, (number + 1) * ENDPOINTS):
            values += [self.address_of(pod), self.pod_name(pod).encode()]
        return self._slice.fill(*values)

    def pod(self, number: int, version: int) -> bytes:
        template = self._pods[number % TEMPLATES]
        where = self.address_of(number)
        return template.fill(self.pod_name(number).encode(), self.namespace_of(number // ENDPOINTS).encode(), b"%012d" % number, b"%d" % version, where, where)

    def address_of(self, pod: int) -> bytes:
        return self.moved.get(pod) or address(pod, 100)

    # ---- templates ----

    def _service_template(self, headless: bool) -> Template:
        name, space, version, one, two = place("name", 14), place("space", 9), place("version", 10), place("ip", 14), place("also", 14)
        ports = [(1, message((1, "http"), (2, "TCP"), (3, 80), (4, message((1, 0), (2, 8080))))), (1, message((1, "metrics"), (2, "TCP"), (3, 9090)))]
        addresses: list[tuple[int, Value]] = [(3, "None"), (18, "None")] if headless else [(3, one), (18, two)]
        meta = message((1, name), (3, space), (5, "0b7a4c1e-90a2-4f5b-8b8e-0123456789ab"), (6, version), *entries(11, {"app": "service"}))
        spec = message(*ports, *entries(2, {"app": "service"}), addresses[0], (4, "ClusterIP"), (7, "None"), addresses[1], (19, "IPv4"))
        return Template(message((1, meta), (2, spec)), name, space, version, *([] if headless else [one, two]))

    def _slice_template(self) -> Template:
        name, space, version, service = place("name", 14), place("space", 9), place("version", 10), place("service", 14)
        labels = [(11, message((1, "kubernetes.io/service-name"), (2, service))), *entries(11, {"app": "service"})]
        places, endpoints = [], []
        for number in range(ENDPOINTS):
            where, pod = place(f"ip-{number}", 14), place(f"pod-{number}", len(self.pod_name(0)))
            places += [where, pod]
            conditions = message((1, 1), (2, 1), (3, 0))
            target = message((1, "Pod"), (2, "team"), (3, pod), (4, "5f1c8b1e-4f2b-4bb0-9f63-0123456789ab"))
            endpoints.append((2, message((1, where), (2, conditions), (4, target), (6, f"node-{number:04d}"), (7, f"zone-{number % 3}"))))
        ports = [(3, message((1, "http"), (2, "TCP"), (3, 8080))), (3, message((1, "metrics"), (2, "TCP"), (3, 9090)))]
        meta = message((1, name), (3, space), (5, "3d5e0c55-1c8e-4f3a-9d2a-0123456789ab"), (6, version), *labels)
        return Template(message((1, meta), *endpoints, *ports, (4, "IPv4")), name, space, version, service, *places)

    def _pod_template(self, chance: random.Random) -> Template:
        name, space, uid = place("name", len(self.pod_name(0))), place("space", 9), place("uid", 12)
        version, where, also = place("version", 10), place("ip", 14), place("also", 14)
        app = f"app-{chance.randrange(1000):03d}"
        labels = {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"1.{chance.randrange(40)}.{chance.randrange(20)}",
            "pod-template-hash": "7d4b9c6f5d",
        }
        owner = message((1, "ReplicaSet"), (3, f"{app}-7d4b9c6f5d"), (4, uuid_of(chance)), (5, "apps/v1"), (6, 1), (7, 1))
        meta = message(
            (1, name),
            (2, f"{app}-7d4b9c6f5d-"),
            (3, space),
            (5, b"0b7a4c1e-90a2-4f5b-8b8e-" + uid),
            (6, version),
            (8, message((1, 1_767_225_600 + chance.randrange(10_000_000)))),
            *entries(11, labels),
            *entries(12, {"prometheus.io/scrape": "true", "checksum/config": f"{chance.getrandbits(256):064x}"}),
            (13, owner),
        )
        image = f"registry.example.org/{app}@sha256:{chance.getrandbits(256):064x}"
        environment = [(7, message((1, f"SETTING_{number:02d}"), (2, f"{chance.getrandbits(chance.choice((64, 128, 256))):x}"))) for number in range(16)]
        mount = (9, message((1, "kube-api-access"), (2, 1), (3, "/var/run/secrets/kubernetes.io/serviceaccount")))
        probe = message((1, message((2, message((1, "/healthz"), (2, message((1, 0), (2, 8080))), (4, "HTTP"))))), (3, 1), (4, 10), (5, 1), (6, 3))
        container = message((1, app), (2, image), *environment, mount, (10, probe), (11, probe), (14, "IfNotPresent"))
        volume = message((1, "kube-api-access"), (2, message((26, message((2, 420))))))
        spec = message(
            (1, volume),
            (2, container),
            (3, "Always"),
            (4, 30),
            (6, "ClusterFirst"),
            (8, "default"),
            (10, f"node-{chance.randrange(5000):04d}"),
            (19, "default-scheduler"),
        )
        conditions = [
            (2, message((1, kind), (2, "True"), (4, message((1, 1_767_225_700))))) for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ]
        running = message((2, message((1, message((1, 1_767_225_700))))))
        state = message((1, app), (2, running), (4, 1), (5, 0), (6, image), (7, image), (8, f"containerd://{chance.getrandbits(256):064x}"), (9, 1))
        status = message(
            (1, "Running"), *conditions, (5, f"192.0.2.{chance.randrange(1, 255)}"), (6, where), (8, state), (9, "Burstable"), (12, message((1, also)))
        )
        return Template(message((1, meta), (2, spec), (3, status)), name, space, uid, version, where, also)


def address(number: int, first: int) -> bytes:
    """14 octets: an IPv4 address of 10.FIRST.0.0 and further, each of its octets with three digits."""
    rest, last = divmod(number, DIGITS)
    second, third = divmod(rest, DIGITS)
    return b"10.%d.%d.%d" % (first + second, 100 + third, 100 + last)


def changed_address(change: int) -> bytes:
    """What an endpoint or pod gets by a change: no other has it."""
    return address(change, 230)


def place(name: str, length: int) -> bytes:
    """What stands in a template for a value of that length."""
    return f"\x01{name}".encode().ljust(length, b"\x01")


def uuid_of(chance: random.Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
