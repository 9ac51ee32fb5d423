"""Objects as the API writes them in JSON, in one line each, and a store fed with them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.stream import JSON, Stream
from fastdns.plugins.kubernetes.watch.resources import Kind

Object = dict[str, Any]

versions = itertools.count(1)


def thing(name: str, version: int | None = None, labels: dict[str, str] | None = None, **rest: Any) -> Object:
    """``NAMESPACE/NAME`` or ``NAME``, with the next resource version."""
    namespace, _, own = name.rpartition("/")
    metadata: Object = {"name": own, "resourceVersion": str(next(versions) if version is None else version)}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, **rest}


def port(text: str) -> Object:
    """``NAME:PROTOCOL:NUMBER``."""
    name, protocol, number = text.split(":")
    return {"name": name, "protocol": protocol, "port": int(number)}


def namespace(name: str, **rest: Any) -> Object:
    return thing(name, **rest)


def service(name: str, *ips: str, ports: Iterable[str] = ("http:TCP:80",), **rest: Any) -> Object:
    """``None`` as the one IP makes it headless."""
    version = rest.pop("version", None)
    spec = {"clusterIP": ips[0] if ips else "", "clusterIPs": list(ips), "ports": [port(text) for text in ports], "type": "ClusterIP"}
    return thing(name, version, spec={**spec, **rest})


def alias(name: str, target: str, **rest: Any) -> Object:
    return thing(name, **rest, spec={"type": "ExternalName", "externalName": target})


def slice_of(name: str, owner: str, *endpoints: str, ports: Iterable[str] = ("http:TCP:80",), cluster: str = "", version: int | None = None) -> Object:
    """Endpoints are ``IP[;HOSTNAME[;POD[;ZONE]]]``."""
    made = []
    for text in endpoints:
        ip, hostname, pod, zone = [*text.split(";"), "", "", ""][:4]
        endpoint: Object = {"addresses": [ip], "conditions": {"ready": True}}
        if hostname:
            endpoint["hostname"] = hostname
        if pod:
            endpoint["targetRef"] = {"kind": "Pod", "name": pod}
        if zone:
            endpoint["zone"] = zone
        made.append(endpoint)
    key = "multicluster.kubernetes.io/service-name" if cluster else "kubernetes.io/service-name"
    labels = {key: owner} | ({"multicluster.kubernetes.io/source-cluster": cluster} if cluster else {})
    family = "FQDN" if endpoints and endpoints[0][:1].isalpha() else "IPv4"
    return thing(name, version, labels, addressType=family, endpoints=made, ports=[port(text) for text in ports])


def pod(name: str, ip: str, **rest: Any) -> Object:
    return thing(name, **rest, status={"podIP": ip, "phase": "Running"})


def service_import(name: str, *ips: str, ports: Iterable[str] = ("http:TCP:80",), **rest: Any) -> Object:
    spec = {"type": "ClusterSetIP" if ips else "Headless", "ips": list(ips), "ports": [port(text) for text in ports]}
    return thing(name, **rest, spec=spec)


def give_list(sink: Sink, kind: Kind, *objects: Object) -> None:
    """A whole list of a kind."""
    stream = Stream(sink, kind)
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": objects}).encode()
    stream.begin_list()
    stream.begin(JSON, False, len(body))
    stream.feed(body, len(body))
    stream.end()
    stream.commit_list()


def give_events(sink: Sink, kind: Kind, *events: tuple[str, Object]) -> None:
    """Events of a watch: ADDED, MODIFIED or DELETED."""
    stream = Stream(sink, kind)
    body = b"".join(json.dumps({"type": what, "object": item}).encode() + b"\n" for what, item in events)
    stream.begin(JSON, True, len(body))
    stream.feed(body, len(body))
    stream.end()
    stream.flush()


#: apiVersion and kind of manifests.
TYPES = {
    Kind.NAMESPACE: ("v1", "Namespace"),
    Kind.SERVICE: ("v1", "Service"),
    Kind.SLICE: ("discovery.k8s.io/v1", "EndpointSlice"),
    Kind.POD: ("v1", "Pod"),
    Kind.IMPORT: ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
    Kind.IMPORT_SLICE: ("discovery.k8s.io/v1", "EndpointSlice"),
}


def manifest(*listed: tuple[Kind, Iterable[Object]]) -> str:
    """Objects as JSON lines, for the property `manifests`."""
    lines = []
    for kind, items in listed:
        version, name = TYPES[kind]
        lines += [json.dumps({"apiVersion": version, "kind": name, **item}) for item in items]
    return "\n".join(lines) + "\n"
