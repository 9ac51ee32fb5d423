"""Objects of the kinds that k8s_gateway reads."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

ROUTES = "gateway.networking.k8s.io/v1"


def named(kind: str, version: str, name: str, **more: Any) -> Object:
    """``name`` is NAMESPACE/NAME."""
    namespace, _, name = name.rpartition("/")
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def balancer(*addresses: str) -> Object:
    """The status of a load balancer; what is no IP address is a host name."""
    entries = [{"ip": one} if one[0].isdigit() or ":" in one else {"hostname": one} for one in addresses]
    return {"loadBalancer": {"ingress": entries}}


def service(name: str, *addresses: str, hostnames: str | None = None, **more: Any) -> Object:
    spec = {"type": more.pop("type", "LoadBalancer"), "ports": [{"port": 80}], **more.pop("spec", {})}
    if hostnames is not None:
        more["annotations"] = {"coredns.io/hostname": hostnames}
    return named("Service", "v1", name, spec=spec, status=balancer(*addresses), **more)


def ingress(name: str, *addresses: str, hosts: tuple[str, ...], klass: str | None = None, **more: Any) -> Object:
    rules = [{"host": host} if host else {} for host in hosts]
    spec = {"rules": rules, **({"ingressClassName": klass} if klass else {})}
    return named("Ingress", "networking.k8s.io/v1", name, spec=spec, status=balancer(*addresses), **more)


def gateway(name: str, *addresses: str, klass: str = "lab", version: str = ROUTES) -> Object:
    kinds = [("IPAddress" if one[0].isdigit() or ":" in one else "Hostname", one) for one in addresses]
    status = {"addresses": [{"type": kind, "value": one} for kind, one in kinds]}
    listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
    return named("Gateway", version, name, spec={"gatewayClassName": klass, "listeners": listeners}, status=status)


def route(name: str, *hostnames: str, parents: tuple[Any, ...] = ("edge",), kind: str = "HTTPRoute", version: str = ROUTES, **more: Any) -> Object:
    """``parents`` are names of Gateways in the route's namespace, NAMESPACE/NAME, or whole references."""
    references = []
    for parent in parents:
        namespace, _, short = parent.rpartition("/") if isinstance(parent, str) else ("", "", "")
        references.append({"name": short, **({"namespace": namespace} if namespace else {})} if isinstance(parent, str) else parent)
    return named(kind, version, name, spec={"hostnames": list(hostnames), "parentRefs": references}, **more)


def endpoint(name: str, *records: tuple[Any, ...], **more: Any) -> Object:
    """Each record is name, type, targets and perhaps a TTL."""
    entries = [
        {"dnsName": owner, "recordType": kind, "targets": list(targets), **({"recordTTL": ttl[0]} if ttl else {})} for owner, kind, targets, *ttl in records
    ]
    return named("DNSEndpoint", "externaldns.k8s.io/v1alpha1", name, spec={"endpoints": entries}, **more)


def slice_of(name: str, service: str, *addresses: str, **more: Any) -> Object:
    """An address behind ``!`` is not ready."""
    points = [{"addresses": [one.lstrip("!")], "conditions": {"ready": not one.startswith("!")}} for one in addresses]
    labels = {"kubernetes.io/service-name": service}
    return named("EndpointSlice", "discovery.k8s.io/v1", name, labels=labels, addressType="IPv4", endpoints=points, **more)


def node(name: str, *addresses: tuple[str, str]) -> Object:
    return named("Node", "v1", name, status={"addresses": [{"type": kind, "address": one} for kind, one in addresses]})
