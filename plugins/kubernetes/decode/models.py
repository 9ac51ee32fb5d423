"""Kubernetes objects in JSON, typed for msgspec: only the fields that DNS needs, everything else is skipped while decoding.

Every field may be null or missing, as Go writes them. Imported only when JSON is met (fall-back, ServiceImports, manifests).
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder


class Metadata(Struct, gc=False):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = field(name="resourceVersion", default=None)
    deletion_timestamp: Any = field(name="deletionTimestamp", default=None)
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Port(Struct, gc=False):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None


class Namespace(Struct, gc=False):
    metadata: Metadata


class Ingress(Struct, gc=False):
    ip: str | None = None
    hostname: str | None = None


class LoadBalancer(Struct, gc=False):
    ingress: list[Ingress] | None = None


class ServiceStatus(Struct, gc=False):
    load_balancer: LoadBalancer | None = field(name="loadBalancer", default=None)


class ServiceSpec(Struct, gc=False):
    type: str | None = None
    cluster_ip: str | None = field(name="clusterIP", default=None)
    cluster_ips: list[str] | None = field(name="clusterIPs", default=None)
    external_name: str | None = field(name="externalName", default=None)
    external_ips: list[str] | None = field(name="externalIPs", default=None)
    ports: list[Port] | None = None


class Service(Struct, gc=False):
    metadata: Metadata
    spec: ServiceSpec | None = None
    status: ServiceStatus | None = None


class Conditions(Struct, gc=False):
    ready: bool | None = None


class TargetRef(Struct, gc=False):
    name: str | None = None


class Hint(Struct, gc=False):
    name: str | None = None


class Hints(Struct, gc=False):
    for_zones: list[Hint] | None = field(name="forZones", default=None)
    for_nodes: list[Hint] | None = field(name="forNodes", default=None)


class Endpoint(Struct, gc=False):
    addresses: list[str] | None = None
    conditions: Conditions | None = None
    hostname: str | None = None
    target_ref: TargetRef | None = field(name="targetRef", default=None)
    zone: str | None = None
    node: str | None = field(name="nodeName", default=None)
    hints: Hints | bytes | None = None


class EndpointSlice(Struct, gc=False):
    metadata: Metadata
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


class PodStatus(Struct, gc=False):
    pod_ip: str | None = field(name="podIP", default=None)
    phase: str | None = None


class PodSpec(Struct, gc=False):
    node: str | None = field(name="nodeName", default=None)
    host_network: bool | None = field(name="hostNetwork", default=None)


class Pod(Struct, gc=False):
    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ServiceImportSpec(Struct, gc=False):
    type: str | None = None
    ips: list[str] | None = None
    ports: list[Port] | None = None


class ServiceImport(Struct, gc=False):
    metadata: Metadata
    spec: ServiceImportSpec | None = None


class Event(Struct, gc=False):
    """A line of a watch."""

    type: str
    object: Raw


class OutlinedName(Struct, gc=False):
    name: Any = None
    namespace: Any = None
    version: Any = field(name="resourceVersion", default=None)


class Outlined(Struct, gc=False):
    """An object of which only the name is read: see outline.pyi."""

    metadata: OutlinedName | None = None


class OutlinedEvent(Struct, gc=False):
    type: Any = None
    object: Raw = Raw(b"")


class StatusDetails(Struct, gc=False):
    retry_after: int | None = field(name="retryAfterSeconds", default=None)


class Status(Struct, gc=False):
    """What the API answers for an error."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None


class ListMeta(Struct, gc=False):
    version: str | None = field(name="resourceVersion", default=None)
    following: str | None = field(name="continue", default=None)


class ListHead(Struct, gc=False):
    """What stands around the items of a list."""

    metadata: ListMeta | None = None


#: The model of each kind of _objects.pxd, by its number.
BY_KIND: tuple[type[Struct], ...] = (Namespace, Service, EndpointSlice, Pod, ServiceImport, EndpointSlice)

# msgspec learns a type when its first decoder is made. Two threads that do so at once would end the process.
for model in (*BY_KIND, Event, Outlined, OutlinedEvent, Status, ListHead):
    Decoder(model)
