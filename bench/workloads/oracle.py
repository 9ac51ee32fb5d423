"""The right replies to questions about a cluster, worked out from its objects.

The rules are those of the Kubernetes DNS specification 1.1.0 and, where it leaves room, CoreDNS's. The server under test has
the code of its own for this, so what both get wrong in the same way is all that would go unseen.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

from fastdns._wire import name_wire
from fastdns.bench.workload import Question
from fastdns.bench.workloads.cluster import Cluster, Port, Service, packed

__all__ = ["PODS", "Oracle", "Reply", "reverse_name"]

A, NS, CNAME, SOA, PTR, TXT, AAAA, SRV = 1, 2, 5, 6, 12, 16, 28, 33
NOERROR, NXDOMAIN = 0, 3
PODS: Final = ("disabled", "insecure", "verified")
#: Links of ExternalName services that are followed.
LINKS = 10


class Reply(NamedTuple):
    """See :class:`Question`."""

    rcode: int | None
    answers: frozenset[bytes] | None


NOTHING: Final = frozenset[bytes]()
DENIED: Final = Reply(NXDOMAIN, NOTHING)
NODATA: Final = Reply(NOERROR, NOTHING)
UNKNOWN: Final = Reply(None, None)


class Entry(NamedTuple):
    """One address and port that a name stands for."""

    target: str
    address: bytes
    port: Port


def reverse_name(address: str) -> str:
    return ipaddress.ip_address(address).reverse_pointer + "."


class Oracle:
    """Answers for the cluster's zone and, where something is there, for reverse names; of all others nothing is known.

    `pods` is the property of that name in the server's Corefile. Other properties are taken as they are by default, so
    without ``ignore empty_service``, ``endpoint_pod_names``, ``noendpoints`` and ``fallthrough`` for the cluster's zone.
    """

    def __init__(self, cluster: Cluster, zone: str = "cluster.local.", pods: str = "disabled") -> None:
        self.cluster = cluster
        self.zone = zone.lower().removesuffix(".") + "."
        self.pods = pods
        self._questions: dict[tuple[str, int], Question] = {}
        self._reverse: dict[str, set[bytes]] | None = None

    def question(self, name: str, qtype: int) -> Question:
        """The question with the reply that it must get."""
        asked = (name, qtype)
        if (found := self._questions.get(asked)) is None:
            found = self._questions[asked] = Question(name, qtype, *self.reply(name, qtype))
        return found

    def reply(self, name: str, qtype: int, links: int = LINKS) -> Reply:
        name = name.lower()
        if name == self.zone:
            return UNKNOWN if qtype in (NS, SOA) else DENIED if qtype == TXT else NODATA
        if not name.endswith("." + self.zone):
            return self._reverse_reply(name, qtype)
        labels = name.removesuffix("." + self.zone).split(".")
        if labels == ["dns-version"]:
            return Reply(NOERROR, frozenset([b"\x051.1.0"])) if qtype == TXT else NODATA if qtype == SOA else DENIED
        if labels == ["ns", "dns"] or labels[-4:-3] == ["_zone"]:  # the server's own addresses; the property zonal
            return UNKNOWN
        if qtype == SOA:  # so CoreDNS, even where there is no such name
            return NODATA
        if labels[-1] not in ("svc", "pod") or (len(labels) > 1 and not self._exposed(*labels[-2:])):
            return DENIED
        if len(labels) < 3:
            return DENIED if qtype == TXT else NODATA
        if labels[-1] == "pod":
            return self._pod_reply(labels[:-2], labels[-2], qtype)
        service = self.cluster.services.get((labels[-2], labels[-3]))
        if service is None or len(labels) > 5:
            return DENIED
        if service.target is not None:
            return DENIED if len(labels) > 3 else self._external_reply(name, service.target, qtype, links)
        return self._service_reply(service, labels[:-3], qtype)

    def _exposed(self, namespace: str, kind: str) -> bool:
        return namespace in self.cluster.namespaces and (kind == "svc" or self.pods != "disabled")

    # ---- services ----

    def entries(self, service: Service, labels: list[str]) -> list[Entry]:
        """What the labels left of a service's name select: everything, an endpoint, or a port and a protocol."""
        if service.headless or len(labels) == 1:
            found = [
                Entry(f"{endpoint.name}.{service.name}", packed(endpoint.address), port)
                for endpoint in service.endpoints
                if len(labels) != 1 or endpoint.name == labels[0]
                for port in endpoint.ports
            ]
        else:
            found = [Entry(service.name, packed(address), port) for port in service.ports for address in service.addresses]
        if len(labels) == 2:
            name, protocol = (label.removeprefix("_") for label in labels)
            found = [entry for entry in found if entry.port.number is not None and name in ("", entry.port.name) and protocol in ("", entry.port.protocol)]
        return found

    def _service_reply(self, service: Service, labels: list[str], qtype: int) -> Reply:
        if not service.headless and not service.addresses:  # the API has not given it an address
            return UNKNOWN
        entries = self.entries(service, labels)
        if not entries:
            return DENIED
        if qtype in (A, AAAA):
            return Reply(NOERROR, _of_family(qtype, (entry.address for entry in entries)))
        if qtype == SRV:
            weight = max(1, 100 // len(entries)).to_bytes(2)
            found = {(entry.target, entry.port.number) for entry in entries if entry.port.number is not None}
            below = f"{service.namespace}.svc.{self.zone}"
            return Reply(NOERROR, frozenset(b"\0\0" + weight + number.to_bytes(2) + name_wire(f"{target}.{below}") for target, number in found))
        return NODATA

    def _external_reply(self, name: str, target: str, qtype: int, links: int) -> Reply:
        try:
            ipaddress.ip_address(target.removesuffix("."))
        except ValueError:
            pass
        else:
            return DENIED
        if qtype == CNAME:
            return Reply(NOERROR, frozenset([name_wire(target)]))
        if qtype not in (A, AAAA):
            return NODATA
        target = target.lower()
        if not target.endswith("." + self.zone):
            return Reply(NOERROR, None)  # whatever the world says of the target
        if target.endswith("." + name) or target == name or not links:
            return NODATA
        return Reply(NOERROR, self.reply(target, qtype, links - 1).answers)

    # ---- pods and reverse names ----

    def _pod_reply(self, labels: list[str], namespace: str, qtype: int) -> Reply:
        if len(labels) > 3 or qtype == SRV:
            return DENIED if len(labels) > 3 else UNKNOWN
        label = labels[-1]
        text = label.replace("-", "." if label.count("-") == 3 and "--" not in label else ":")
        try:
            address = packed(text)
        except ValueError:
            return DENIED
        if self.pods == "verified" and (namespace, text) not in self.cluster.pods:
            return DENIED
        return Reply(NOERROR, _of_family(qtype, [address])) if qtype in (A, AAAA) else NODATA

    def _reverse_reply(self, name: str, qtype: int) -> Reply:
        if qtype != PTR or not name.endswith((".in-addr.arpa.", ".ip6.arpa.")):
            return UNKNOWN
        if self._reverse is None:
            self._reverse = self._reverse_names()
        found = self._reverse.get(name)
        return UNKNOWN if found is None else Reply(NOERROR, frozenset(found))

    def _reverse_names(self) -> dict[str, set[bytes]]:
        """Of cluster IPs the services, else of addresses the endpoints."""
        endpoints: dict[str, set[bytes]] = {}
        services: dict[str, set[bytes]] = {}
        for service in self.cluster.services.values():
            name = f"{service.name}.{service.namespace}.svc.{self.zone}"
            for address in service.addresses:
                services.setdefault(reverse_name(address), set()).add(name_wire(name))
            for endpoint in service.endpoints:
                endpoints.setdefault(reverse_name(endpoint.address), set()).add(name_wire(f"{endpoint.name}.{name}"))
        return endpoints | services


def _of_family(qtype: int, addresses: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(address for address in addresses if len(address) == (4 if qtype == A else 16))
