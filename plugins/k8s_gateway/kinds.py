"""The kinds that k8s_gateway watches, with the fields that it reads of each.

Types are those of the Kubernetes API, of the Gateway API (gateway.networking.k8s.io) and of external-dns (externaldns.k8s.io).
"""

from __future__ import annotations

from msgspec import Struct, field

from fastdns.plugins.kubernetes.objects import ObjectKind

__all__ = [
    "DNS_ENDPOINT",
    "GATEWAY",
    "INGRESS",
    "NODE",
    "RESOURCES",
    "ROUTES",
    "SERVICE",
    "SLICE",
    "Address",
    "Balancer",
    "Endpoint",
    "Parent",
    "Record",
]

GROUP = "gateway.networking.k8s.io"


class Labels(Struct, gc=False):
    ignore: str | None = field(name="k8s-gateway.dns/ignore", default=None)


class Annotations(Struct, gc=False):
    hostname: str | None = field(name="coredns.io/hostname", default=None)
    external_hostname: str | None = field(name="external-dns.alpha.kubernetes.io/hostname", default=None)
    resolve_endpoints: str | None = field(name="k8s-gateway.dns/resolve-endpoints", default=None)


class SliceLabels(Struct, gc=False):
    service: str | None = field(name="kubernetes.io/service-name", default=None)


class Balancer(Struct, gc=False):
    """An entry of ``status.loadBalancer.ingress``."""

    ip: str | None = None
    hostname: str | None = None


class Rule(Struct, gc=False):
    host: str | None = None


class Parent(Struct, gc=False):
    """A reference of a route."""

    name: str | None = None
    namespace: str | None = None
    group: str | None = None
    kind: str | None = None


class Address(Struct, gc=False):
    """Of a Gateway (``value``) or a node (``address``)."""

    type: str | None = None
    value: str | None = None
    address: str | None = None


class Conditions(Struct, gc=False):
    ready: bool | None = None


class Endpoint(Struct, gc=False):
    """Of an EndpointSlice."""

    addresses: list[str] | None = None
    conditions: Conditions | None = None


class Record(Struct, gc=False):
    """An entry of a DNSEndpoint's ``spec.endpoints``."""

    name: str | None = field(name="dnsName", default=None)
    type: str | None = field(name="recordType", default=None)
    targets: list[str] | None = None
    ttl: int | None = field(name="recordTTL", default=None)


LABELS = ("metadata.labels", Labels)
BALANCERS = ("status.loadBalancer.ingress", list[Balancer])
ROUTE = {"labels": LABELS, "hostnames": ("spec.hostnames", list[str]), "parents": ("spec.parentRefs", list[Parent])}

SERVICE = ObjectKind(
    "",
    ["v1"],
    "services",
    {
        "labels": LABELS,
        "annotations": ("metadata.annotations", Annotations),
        "type": ("spec.type", str),
        "external_ips": ("spec.externalIPs", list[str]),
        "balancers": BALANCERS,
    },
    optional=False,
)
SLICE = ObjectKind(
    "discovery.k8s.io", ["v1"], "endpointslices", {"labels": ("metadata.labels", SliceLabels), "endpoints": ("endpoints", list[Endpoint])}, optional=False
)
NODE = ObjectKind("", ["v1"], "nodes", {"labels": LABELS, "addresses": ("status.addresses", list[Address])}, optional=False)
INGRESS = ObjectKind(
    "networking.k8s.io",
    ["v1"],
    "ingresses",
    {"labels": LABELS, "class": ("spec.ingressClassName", str), "rules": ("spec.rules", list[Rule]), "balancers": BALANCERS},
    optional=False,
)
GATEWAY = ObjectKind(GROUP, ["v1", "v1beta1"], "gateways", {"class": ("spec.gatewayClassName", str), "addresses": ("status.addresses", list[Address])})
HTTP_ROUTE = ObjectKind(GROUP, ["v1", "v1beta1"], "httproutes", ROUTE)
TLS_ROUTE = ObjectKind(GROUP, ["v1", "v1alpha3", "v1alpha2"], "tlsroutes", ROUTE)
GRPC_ROUTE = ObjectKind(GROUP, ["v1", "v1alpha2"], "grpcroutes", ROUTE)
DNS_ENDPOINT = ObjectKind("externaldns.k8s.io", ["v1alpha1"], "dnsendpoints", {"labels": LABELS, "endpoints": ("spec.endpoints", list[Record])})

#: Of the property `resources`.
RESOURCES = {
    "HTTPRoute": HTTP_ROUTE,
    "TLSRoute": TLS_ROUTE,
    "GRPCRoute": GRPC_ROUTE,
    "Ingress": INGRESS,
    "Service": SERVICE,
    "DNSEndpoint": DNS_ENDPOINT,
    "Node": NODE,
}
ROUTES = (HTTP_ROUTE, TLS_ROUTE, GRPC_ROUTE)
