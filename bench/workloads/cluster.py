"""What DNS sees of a cluster, from manifests or from a live API: services with their endpoints, and pods."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import GenericAlias
from typing import Any

from fastdns.bench.workload import WorkloadError
from fastdns.plugins.kubernetes.watch.resources import Kind

__all__ = ["Cluster", "Endpoint", "Port", "Service", "live", "manifests", "packed"]

SERVICE_NAME = "kubernetes.io/service-name"
#: Objects that one reply of a live API holds.
PAGE = 500
FINISHED = ("Succeeded", "Failed", "Unknown")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a service or slice. Without any, CoreDNS keeps one that has no number."""

    name: str
    protocol: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready address of a service, with the ports of its slice."""

    name: str
    address: str
    ports: tuple[Port, ...]


@dataclass(slots=True)
class Service:
    namespace: str
    name: str
    #: Cluster IPs; none for headless and ExternalName services.
    addresses: tuple[str, ...] = ()
    headless: bool = False
    #: Target of an ExternalName service.
    target: str | None = None
    ports: tuple[Port, ...] = ()
    endpoints: list[Endpoint] = field(default_factory=list)


class Cluster:
    """The objects of a cluster, in the order in which they came."""

    def __init__(self, objects: Iterable[tuple[Kind, Any]]) -> None:
        self.services: dict[tuple[str, str], Service] = {}
        #: Namespaces that exist; those of the objects where no Namespace is among them.
        self.namespaces: dict[str, None] = {}
        #: Namespace and address of pods that have not ended.
        self.pods: dict[tuple[str, str], None] = {}
        slices: list[tuple[str, Any]] = []
        spaces: dict[str, None] = {}
        for kind, model in objects:
            name, namespace = model.metadata.name or "", model.metadata.namespace or "default"
            if kind is Kind.NAMESPACE:
                self.namespaces[name] = None
                continue
            spaces[namespace] = None
            if kind is Kind.SERVICE:
                self.services[namespace, name] = _service(namespace, name, model.spec)
            elif kind is Kind.SLICE:
                slices.append((namespace, model))
            elif kind is Kind.POD and model.status is not None and model.status.pod_ip and not _ended(model):
                self.pods[namespace, model.status.pod_ip] = None
        self.namespaces = self.namespaces or spaces
        for namespace, model in slices:
            service = self.services.get((namespace, (model.metadata.labels or {}).get(SERVICE_NAME, "")))
            if service is not None:  # one without its service is nobody's
                service.endpoints += _endpoints(model)


def _ended(pod: Any) -> bool:
    return pod.status.phase in FINISHED or pod.metadata.deletion_timestamp is not None


def _service(namespace: str, name: str, spec: Any) -> Service:
    if spec is None:
        return Service(namespace, name)
    if spec.type == "ExternalName":
        return Service(namespace, name, target=(spec.external_name or "").removesuffix(".") + ".")
    addresses = tuple(spec.cluster_ips or ([spec.cluster_ip] if spec.cluster_ip else ()))
    if "None" in addresses:
        return Service(namespace, name, headless=True, ports=_ports(spec.ports))
    return Service(namespace, name, addresses, ports=_ports(spec.ports))


def _ports(ports: Any) -> tuple[Port, ...]:
    return tuple(Port((port.name or "").lower(), (port.protocol or "").lower(), port.port) for port in ports or ()) or (Port("", "", None),)


def _endpoints(model: Any) -> Iterator[Endpoint]:
    ports = _ports(model.ports)
    for endpoint in model.endpoints or ():
        if endpoint.conditions is not None and endpoint.conditions.ready is False:
            continue
        for address in endpoint.addresses or ():
            yield Endpoint((endpoint.hostname or _dashed(address)).lower(), address, ports)


def _dashed(address: str) -> str:
    """The name of an endpoint that has none: ``10-1-2-3``."""
    dashed = address.replace(".", "-").replace(":", "-")
    return dashed + "0" if address.endswith(":") else dashed


# ---- where from ----


def manifests(paths: Sequence[str | Path]) -> Cluster:
    """A cluster from files and folders: YAML, JSON, JSON lines as ``kubectl get -o`` writes. WorkloadError."""
    from fastdns.plugins.kubernetes.watch import manifests
    from fastdns.plugins.kubernetes.watch.origin import ApiConfigError

    found = manifests.Manifests(tuple(map(str, paths)))
    try:
        found.check()
        return Cluster(item for path in found.files() for item in manifests.read(path))
    except (ApiConfigError, manifests.ManifestError) as error:
        raise WorkloadError(str(error)) from error
    except OSError as error:
        raise WorkloadError(f"{error.filename}: {error.strerror}") from error


def live(kubeconfig: str | None = None, context: str | None = None, pods: bool = True) -> Cluster:
    """A cluster as its API server tells, once; without a kubeconfig the one that kubectl would ask, or the one that we run in. WorkloadError."""
    import kubernetes
    import msgspec
    import urllib3

    loader: Any = kubernetes.config  # typed from version 37 on, but not whole
    try:
        if kubeconfig is None and context is None:
            loader.load_config()
        else:
            loader.load_kube_config(kubeconfig, context)
        with kubernetes.client.ApiClient() as api:
            core, discovery = kubernetes.client.CoreV1Api(api), kubernetes.client.DiscoveryV1Api(api)
            lists: dict[Kind, Any] = {
                Kind.NAMESPACE: core.list_namespace,
                Kind.SERVICE: core.list_service_for_all_namespaces,
                Kind.SLICE: discovery.list_endpoint_slice_for_all_namespaces,
            }
            if pods:
                lists[Kind.POD] = core.list_pod_for_all_namespaces
            return Cluster(item for kind, ask in lists.items() for item in _listed(kind, ask))
    except kubernetes.config.ConfigException as error:
        raise WorkloadError(f"kubeconfig: {error}") from error
    except kubernetes.client.ApiException as error:
        raise WorkloadError(f"API server: {error.status} {error.reason}") from error
    except (urllib3.exceptions.HTTPError, OSError, msgspec.DecodeError) as error:
        raise WorkloadError(f"API server: {error}") from error


def _listed(kind: Kind, ask: Callable[..., Any]) -> Iterator[tuple[Kind, Any]]:
    """All objects of a kind, page after page."""
    import msgspec

    from fastdns.plugins.kubernetes.decode import models

    page_type = msgspec.defstruct("Page", [("items", GenericAlias(list, models.BY_KIND[kind])), ("metadata", models.ListMeta)])
    decoder: Any = msgspec.json.Decoder(page_type)
    following: str | None = None
    while following != "":
        more = {"_continue": following} if following else {}
        page = decoder.decode(ask(limit=PAGE, _preload_content=False, **more).data)
        yield from ((kind, model) for model in page.items)
        following = page.metadata.following or ""


def packed(address: str) -> bytes:
    """An address as rdata of A or AAAA. ValueError."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.packed
    return parsed.packed
