"""Clusters as their installers leave them: objects for an API server or a file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

__all__ = ["COREFILES", "Json", "cluster", "find", "kubeadm", "node_local", "with_corefile"]

Json = dict[str, Any]
COREFILES = Path(__file__).resolve().parents[1] / "server" / "corefiles"
NAMESPACE = "kube-system"


def kubeadm(corefile: str = "", image: str = "registry.k8s.io/coredns/coredns:v1.11.3") -> list[Json]:
    """What ``kubeadm init`` installs: the Deployment with its ConfigMap, Service, account, role and binding, and what each API server gives all accounts."""
    probes = {
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "liveness-probe", "scheme": "HTTP"},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "successThreshold": 1,
            "failureThreshold": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "readiness-probe", "scheme": "HTTP"}},
    }
    ports = [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP"), ("liveness-probe", 8080, "TCP"), ("readiness-probe", 8181, "TCP")]
    container = {
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
        "ports": [{"containerPort": port, "name": name, "protocol": protocol} for name, port, protocol in ports],
        **probes,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }
    pod = {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": "coredns",
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [container],
        "dnsPolicy": "Default",
        "volumes": [{"name": "config-volume", "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]}}],
    }
    labels = {"k8s-app": "kube-dns"}
    deployment = {
        "replicas": 2,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    service_ports = [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP")]
    service = {
        "clusterIP": "10.96.0.10",
        "selector": labels,
        "ports": [{"name": name, "port": port, "protocol": protocol, "targetPort": port} for name, port, protocol in service_ports],
    }
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    return [
        cluster("apps/v1", "Deployment", "coredns", labels=labels, spec=deployment),
        cluster("v1", "ConfigMap", "coredns", data={"Corefile": corefile or (COREFILES / "kubeadm").read_text()}),
        cluster("v1", "ConfigMap", "kubeadm-config", data={"ClusterConfiguration": "kind: ClusterConfiguration\n"}),
        cluster("v1", "Service", "kube-dns", labels={**labels, "kubernetes.io/name": "CoreDNS"}, spec=service),
        cluster("v1", "ServiceAccount", "coredns"),
        cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "system:coredns", "", rules=rules),
        cluster("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "system:coredns", "", subjects=[subject], roleRef=role),
        *rights_of_all("system:basic-user", {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]}),
        *rights_of_all("system:discovery", {"nonResourceURLs": ["/api", "/healthz"], "verbs": ["get"]}),
    ]


def rights_of_all(name: str, rule: Json) -> list[Json]:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    return [
        cluster("rbac.authorization.k8s.io/v1", "ClusterRole", name, "", rules=[rule]),
        cluster("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name, "", subjects=[subject], roleRef=role),
    ]


def node_local(upstream: str) -> list[Json]:
    """The cache on every node, which asks ``upstream``."""
    labels = {"k8s-app": "node-local-dns"}
    volumes = [{"name": "config-volume", "configMap": {"name": "node-local-dns", "items": [{"key": "Corefile", "path": "Corefile.base"}]}}]
    pod = {"hostNetwork": True, "containers": [{"name": "node-cache", "image": "registry.k8s.io/dns/k8s-dns-node-cache:1.23.1"}], "volumes": volumes}
    corefile = f"cluster.local:53 {{\n    forward . {upstream} {{\n        force_tcp\n    }}\n}}\n"
    template = {"metadata": {"labels": labels}, "spec": pod}
    return [
        cluster("apps/v1", "DaemonSet", "node-local-dns", labels=labels, spec={"selector": {"matchLabels": labels}, "template": template}),
        cluster("v1", "ConfigMap", "node-local-dns", data={"Corefile": corefile}),
    ]


def cluster(version: str, kind: str, name: str, namespace: str = NAMESPACE, labels: dict[str, str] | None = None, **rest: Any) -> Json:
    """An object."""
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {}), **({"labels": dict(labels)} if labels else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def find(objects: list[Json], kind: str, name: str = "coredns") -> Json:
    """The object, for a test to change it."""
    return next(row for row in objects if (row["kind"], row["metadata"]["name"]) == (kind, name))


def container(objects: list[Json]) -> Any:
    """The container of the Deployment."""
    return find(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def with_corefile(text: str) -> list[Json]:
    return copy.deepcopy(kubeadm(text))
