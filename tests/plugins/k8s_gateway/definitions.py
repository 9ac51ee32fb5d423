"""CustomResourceDefinitions of the kinds that k8s_gateway reads, with the fields that it reads."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

TEXT: Object = {"type": "string"}
TEXTS: Object = {"type": "array", "items": TEXT}
OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def structure(**properties: Object) -> Object:
    return {**OPEN, "properties": properties}


def several(**properties: Object) -> Object:
    return {"type": "array", "items": structure(**properties)}


ADDRESSES = several(type=TEXT, value=TEXT)
ROUTE = structure(hostnames=TEXTS, parentRefs=several(name=TEXT, namespace=TEXT))
ENDPOINTS = several(dnsName=TEXT, recordType=TEXT, recordTTL={"type": "integer"}, targets=TEXTS)
#: By plural: group, kind, schema of spec and of status.
KINDS: dict[str, tuple[str, str, Object, Object]] = {
    "gateways": ("gateway.networking.k8s.io", "Gateway", structure(gatewayClassName=TEXT), structure(addresses=ADDRESSES)),
    "httproutes": ("gateway.networking.k8s.io", "HTTPRoute", ROUTE, OPEN),
    "tlsroutes": ("gateway.networking.k8s.io", "TLSRoute", ROUTE, OPEN),
    "grpcroutes": ("gateway.networking.k8s.io", "GRPCRoute", ROUTE, OPEN),
    "dnsendpoints": ("externaldns.k8s.io", "DNSEndpoint", structure(endpoints=ENDPOINTS), OPEN),
}


def definition(plural: str, *versions: str) -> Object:
    """The first of the versions is that of the storage. Status is a subresource, as in the published definitions."""
    group, kind, spec, status = KINDS[plural]
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    served = [{"name": version, "served": True, "storage": version == versions[0], "schema": schema, "subresources": {"status": {}}} for version in versions]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    # Names in *.k8s.io are the project's own, and need the word of who approves.
    metadata = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}
    body = {"group": group, "scope": "Namespaced", "names": names, "versions": served}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": body}
