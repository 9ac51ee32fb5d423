"""Kubernetes objects from one-line shorthands, and what selectors match."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

__all__ = ["CORE", "DISCOVERY", "MULTICLUSTER", "RESOURCES", "Object", "api_version", "expand", "field_match", "selector_match"]

Object = dict[str, Any]

CORE, DISCOVERY, MULTICLUSTER = "/api/v1", "/apis/discovery.k8s.io/v1", "/apis/multicluster.x-k8s.io/v1alpha1"
NETWORKING, GATEWAYS = "/apis/networking.k8s.io/v1", "/apis/gateway.networking.k8s.io/v1"
EXTERNAL_DNS, MACHINES = "/apis/externaldns.k8s.io/v1alpha1", "/apis/machines.example.net/v1"
#: Plural -> root of its path, kind, whether it is namespaced.
RESOURCES = {
    "namespaces": (CORE, "Namespace", False),
    "nodes": (CORE, "Node", False),
    "services": (CORE, "Service", True),
    "pods": (CORE, "Pod", True),
    "endpoints": (CORE, "Endpoints", True),
    "endpointslices": (DISCOVERY, "EndpointSlice", True),
    "serviceimports": (MULTICLUSTER, "ServiceImport", True),
    "ingresses": (NETWORKING, "Ingress", True),
    "gateways": (GATEWAYS, "Gateway", True),
    "httproutes": (GATEWAYS, "HTTPRoute", True),
    "tlsroutes": (GATEWAYS, "TLSRoute", True),
    "grpcroutes": (GATEWAYS, "GRPCRoute", True),
    "dnsendpoints": (EXTERNAL_DNS, "DNSEndpoint", True),
    "machines": (MACHINES, "Machine", True),
}
OPTION = re.compile(r"(labels|ann|ports|ext|lb|lbhost|cname|selector|slice|fam|phase|cluster)=(.*)", re.DOTALL)


def api_version(root: str) -> str:
    """``/api/v1`` -> ``v1``, ``/apis/GROUP/VERSION`` -> ``GROUP/VERSION``."""
    return root.split("/", 2)[2]


def expand(line: str) -> Object:
    """One object from a shorthand line. Raises ValueError.

    ns NAME [labels=k=v,k=v]
    svc NS/NAME IP[,IP6]|None|- [ports=NAME:PROTO:PORT[:APP],...] [ext=IP,...] [lb=IP,...] [lbhost=NAME,...]
        [cname=TARGET] [labels=...] [ann=k=v,...] [selector=k=v]
    eps NS/SVC [slice=NAME] [fam=IPv4|IPv6] [ports=...] [labels=...]
        ADDR[;host=H][;pod=P][;zone=Z][;node=N][;notready][;terminating][;nocond] ...
    pod NS/NAME IP[,IP] [labels=...] [phase=Running]
    imp NS/NAME IP[,IP6]|None [ports=...] [labels=...]          (a ServiceImport)
    meps NS/SVC cluster=ID ...                                  (an EndpointSlice of a ServiceImport)
    """
    kind, name, *rest = shlex.split(line)
    options: dict[str, str] = {}
    arguments = []
    for word in rest:
        found = OPTION.fullmatch(word)
        if found is None:
            arguments.append(word)
        else:
            options[found[1]] = found[2]
    metadata: Object = {"name": name}
    if "/" in name:
        metadata["namespace"], metadata["name"] = name.split("/", 1)
    if "labels" in options:
        metadata["labels"] = _pairs(options["labels"])
    if "ann" in options:
        metadata["annotations"] = _pairs(options["ann"])
    if kind not in EXPANDED:
        raise ValueError(f"unknown shorthand: {line}")
    return EXPANDED[kind](metadata, options, arguments)


def _namespace(metadata: Object, options: dict[str, str], arguments: list[str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}


def _service(metadata: Object, options: dict[str, str], arguments: list[str]) -> Object:
    spec: Object = {"type": "ClusterIP"}
    if arguments[0] != "-":
        addresses = arguments[0].split(",")
        spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        spec["ipFamilies"] = ["IPv6" if ":" in address else "IPv4" for address in addresses]
    if ports := _ports(options):
        spec["ports"] = [{**port, "targetPort": port["port"]} for port in ports]
    if "selector" in options:
        spec["selector"] = _pairs(options["selector"])
    if "ext" in options:
        spec["externalIPs"] = options["ext"].split(",")
    if "cname" in options:
        spec["type"], spec["externalName"] = "ExternalName", options["cname"]
    ingress = [{"ip": address} for address in options.get("lb", "").split(",") if address]
    ingress += [{"hostname": host} for host in options.get("lbhost", "").split(",") if host]
    if ingress:
        spec["type"] = "LoadBalancer"
    status = {"loadBalancer": {"ingress": ingress} if ingress else {}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": status}


def _service_import(metadata: Object, options: dict[str, str], arguments: list[str]) -> Object:
    headless = arguments[0] == "None"
    spec: Object = {"ports": _ports(options), "type": "Headless" if headless else "ClusterSetIP"}
    if not headless:
        spec["ips"] = [] if arguments[0] == "-" else arguments[0].split(",")
    return {"apiVersion": api_version(MULTICLUSTER), "kind": "ServiceImport", "metadata": metadata, "spec": spec}


def _slice(metadata: Object, options: dict[str, str], arguments: list[str]) -> Object:
    labels = metadata.setdefault("labels", {})
    if "cluster" in options:
        labels["multicluster.kubernetes.io/service-name"] = metadata["name"]
        labels["multicluster.kubernetes.io/source-cluster"] = options["cluster"]
    else:
        labels["kubernetes.io/service-name"] = metadata["name"]
    metadata["name"] = options.get("slice", f"{metadata['name']}-s1")
    family = "IPv6" if arguments and ":" in arguments[0].split(";")[0] else "IPv4"
    return {
        "apiVersion": api_version(DISCOVERY),
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": options.get("fam", family),
        "endpoints": [_endpoint(text, metadata["namespace"]) for text in arguments],
        "ports": _ports(options),
    }


def _endpoint(text: str, namespace: str) -> Object:
    addresses, *words = text.split(";")
    endpoint: Object = {"addresses": addresses.split(","), "conditions": {"ready": True, "serving": True, "terminating": False}}
    for word in words:
        name, _, value = word.partition("=")
        if name in ("host", "zone", "node"):
            endpoint[{"host": "hostname", "zone": "zone", "node": "nodeName"}[name]] = value
        elif name == "pod":
            endpoint["targetRef"] = {"kind": "Pod", "name": value, "namespace": namespace}
        elif name == "notready":
            endpoint["conditions"].update(ready=False, serving=False)
        elif name == "terminating":
            endpoint["conditions"].update(ready=False, terminating=True)
        elif name == "nocond":
            endpoint["conditions"] = {}
        else:
            raise ValueError(f"unknown word of an endpoint: {word}")
    return endpoint


def _pod(metadata: Object, options: dict[str, str], arguments: list[str]) -> Object:
    status: Object = {"phase": options.get("phase", "Running")}
    if arguments and arguments[0] != "-":
        addresses = arguments[0].split(",")
        status["podIP"], status["podIPs"] = addresses[0], [{"ip": address} for address in addresses]
    spec = {"containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


EXPANDED: dict[str, Callable[[Object, dict[str, str], list[str]], Object]] = {
    "ns": _namespace,
    "svc": _service,
    "imp": _service_import,
    "eps": _slice,
    "meps": _slice,
    "pod": _pod,
}


def _pairs(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {key: value for key, _, value in pairs}


def _ports(options: dict[str, str]) -> list[Object]:
    ports = []
    for part in filter(None, options.get("ports", "").split(",")):
        name, protocol, number, *protocols = part.split(":")
        port: Object = {"protocol": protocol, "port": int(number)}
        if name:
            port["name"] = name
        if protocols:
            port["appProtocol"] = protocols[0]
        ports.append(port)
    return ports


# ---- selectors ----


def selector_match(selector: str, labels: dict[str, str]) -> bool:
    """A label selector, with sets: ``a=b,c!=d,e in (f,g),h notin (i),j,!k``."""
    requirements = (part.strip() for part in re.split(r",(?![^()]*\))", selector))
    return all(_requirement_match(requirement, labels) for requirement in requirements if requirement)


def _requirement_match(requirement: str, labels: dict[str, str]) -> bool:
    found = re.fullmatch(r"(\S+)\s+(in|notin)\s*\((.*)\)", requirement)
    if found is not None:
        values = [value.strip() for value in found[3].split(",")]
        return (labels.get(found[1]) in values) == (found[2] == "in")
    if "=" in requirement:
        key, operator, value = re.split(r"(!=|==?)", requirement, maxsplit=1)
        return (labels.get(key.strip()) == value.strip()) != (operator == "!=")
    if requirement.startswith("!"):
        return requirement[1:].strip() not in labels
    return requirement in labels


def field_match(selector: str, item: Object) -> bool:
    """A field selector, such as ``metadata.name=a,spec.nodeName!=b``."""
    for requirement in filter(None, selector.split(",")):
        path, operator, wanted = re.split(r"(!=|==?)", requirement, maxsplit=1)
        value: Any = item
        for key in path.split("."):
            value = value.get(key, "") if isinstance(value, dict) else ""
        if (str(value) == wanted) == (operator == "!="):
            return False
    return True
