"""Records from objects of any kind: what k8s_gateway and Python plugins declare, watched and kept in zones (docs/writing-plugins.md)."""

from __future__ import annotations

from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.objects.kind import KubernetesObject, ObjectKind, Watched
from fastdns.plugins.kubernetes.objects.zones import ObjectZones

__all__ = ["ApiServerOptions", "KubernetesObject", "ObjectKind", "ObjectZones", "Watched"]
