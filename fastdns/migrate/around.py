"""What stands around the pods: Services, autoscalers, budgets, policies, monitors, the cache on every node, and who manages the Deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fastdns.migrate.facts import Facts
from fastdns.migrate.fields import Json, at, labels, name, number, rows, selects, table, text, words
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.shell import command, compact
from fastdns.migrate.source import AUTOSCALER, CONFIG_MAP, DISRUPTION_BUDGET, NETWORK_POLICY, SERVICE, SERVICE_MONITOR, Source
from fastdns.migrate.workload import Workload

__all__ = ["Around", "check"]

#: The parameters that docs/operating.md has for this server, beside CoreDNS's usual ones.
RATIOS = {"coresPerReplica": 1024, "nodesPerReplica": 64}
#: Labels and annotations of those who put objects back as they were, and where the image is set then.
OWNERS = (
    (
        "app.kubernetes.io/managed-by",
        "Helm",
        "Helm",
        "the next `helm upgrade` sets the chart's image: set image.repository and image.tag there (deploy/README.md)",
    ),
    (
        "addonmanager.kubernetes.io/mode",
        "Reconcile",
        "the addon manager",
        "it sets its own image again: such clusters (AKS) allow changes of the ConfigMap alone",
    ),
    (
        "eks.amazonaws.com/component",
        "",
        "Amazon EKS",
        "an update of the managed addon sets its own image again: `aws eks delete-addon --addon-name coredns --preserve` ends that",
    ),
    (
        "objectset.rio.cattle.io/id",
        "",
        "k3s or RKE2",
        "k3s writes its manifest again at each start: start it with `--disable coredns`, and apply the overlay k3s of deploy/kustomize",
    ),
    ("argocd.argoproj.io/tracking-id", "", "Argo CD", "it sets what is in its repository: set the image there"),
    ("kustomize.toolkit.fluxcd.io/name", "", "Flux", "it sets what is in its repository: set the image there"),
    ("helm.toolkit.fluxcd.io/name", "", "Flux", "it sets what is in its release: set the image there"),
    ("dns.operator.openshift.io/owning-dns", "", "OpenShift's DNS operator", "it sets its own image again"),
)
VERSION = re.compile(r"v?\d+\.\d+\.\d+")


class Around:
    """The objects around a workload."""

    def __init__(self, workload: Workload, source: Source, deployments: list[Json], daemons: list[Json]) -> None:
        its, namespace = workload.pod_labels, workload.namespace
        self.services = [row for row in source.list(SERVICE, namespace) if _chosen(labels(row, "spec", "selector"), its)]
        self.budgets = [row for row in source.list(DISRUPTION_BUDGET, namespace) if selects(table(row, "spec", "selector"), its)]
        self.policies = [row for row in source.list(NETWORK_POLICY, namespace) if selects(table(row, "spec", "podSelector"), its)]
        self.autoscalers = [row for row in source.list(AUTOSCALER, namespace) if text(row, "spec", "scaleTargetRef", "name") == workload.name]
        self.monitors = [row for row in source.list(SERVICE_MONITOR) if self._monitors(row, namespace)]
        #: Deployments of cluster-proportional-autoscaler, with the ConfigMap of each and its parameters by mode.
        self.proportional = [
            (row, *_parameters(row, source, namespace)) for row in deployments if name(row) != workload.name and _target(row).lower() == workload.resource
        ]
        self.node_caches = [row for row in daemons if name(row) != workload.name and _is_node_cache(row)]
        self.node_corefiles = [found for row in self.node_caches for found in _corefiles(row, source, namespace)]
        self.kubeadm = source.one(CONFIG_MAP, namespace, "kubeadm-config") is not None

    def _monitors(self, row: Json, namespace: str) -> bool:
        where = table(row, "spec", "namespaceSelector")
        there = where.get("any") is True or namespace in (words(where, "matchNames") or [text(row, "metadata", "namespace")])
        return there and any(selects(table(row, "spec", "selector"), labels(service)) for service in self.services)


def check(workload: Workload, around: Around, facts: Facts | None, image: str, complete: bool) -> Iterator[Finding]:
    """``complete``: what was not found is not there."""
    yield from _services(workload, around, facts, complete)
    yield from _autoscalers(workload, around)
    yield from _budgets(workload, around)
    for row in around.policies:
        yield Finding(
            NOTE,
            f"NetworkPolicy/{name(row)}",
            "it is for these pods, with the new image as before",
            "the trial of the plan has other labels: until it joins the Service no policy is for it",
        )
    for row in around.monitors:
        yield Finding(
            NOTE,
            f"ServiceMonitor/{name(row)}",
            "coredns_* metrics have their names, and go_goroutines counts threads",
            "deploy/grafana and deploy/prometheus have boards and alerts",
        )
    yield from _node_caches(around)
    yield from _owners(workload)
    yield from _image(workload, around, image)


def _services(workload: Workload, around: Around, facts: Facts | None, complete: bool) -> Iterator[Finding]:
    if not around.services:
        yield Finding(WARNING if complete else NOTE, workload.title, "no Service has these pods", "clients would have to ask the pods themselves")
    for row in around.services:
        title = f"Service/{name(row)}"
        for port in rows(row, "spec", "ports"):
            target = workload.port(port.get("targetPort", number(port, "port")))
            if target is None:
                yield Finding(ERROR, title, f"its port {number(port, 'port')} goes to {port.get('targetPort')}, which no port of the container is named")
            elif (
                facts is not None
                and target not in facts.ports | {its for _, its in facts.addresses("prometheus")}
                and number(port, "port") in (53, 853, 443, 9153)
            ):
                yield Finding(WARNING, title, f"its port {number(port, 'port')} goes to {target}, where nothing listens by the Corefile")
        if facts is not None and any(host in ("localhost", "127.0.0.1", "::1") for host, _ in facts.addresses("prometheus")):
            yield Finding(WARNING, title, "prometheus listens on localhost: nobody outside of the pod can read the metrics", "write `prometheus :9153`")


def _autoscalers(workload: Workload, around: Around) -> Iterator[Finding]:
    for row in around.autoscalers:
        title = f"HorizontalPodAutoscaler/{name(row)}"
        least, most = number(row, "spec", "minReplicas") or 1, number(row, "spec", "maxReplicas")
        measured = ", ".join(sorted({text(metric, "resource", "name") or text(metric, "type") for metric in rows(row, "spec", "metrics")})) or "cpu"
        message = f"it scales by {measured} between {least} and {most}; the same load takes a part of CoreDNS's CPU, so it goes down to {least}"
        if least < 2:
            patch = compact({"spec": {"minReplicas": 2}})
            line = command("kubectl", "-n", workload.namespace, "patch", "hpa", name(row), "--type", "merge", "-p", patch)
            yield Finding(WARNING, title, message, "two replicas on different nodes are for availability", line)
        else:
            yield Finding(NOTE, title, message)
    for row, source, parameters in around.proportional:
        title = f"Deployment/{name(row)}"
        if around.autoscalers:
            yield Finding(WARNING, title, "a HorizontalPodAutoscaler scales the same pods: they undo each other", "remove one of them")
        if "linear" not in parameters:
            yield Finding(
                NOTE,
                title,
                f"it scales by {', '.join(parameters) or 'parameters that were not read'}",
                "CoreDNS's steps are more replicas than this server needs",
            )
            continue
        linear = parameters["linear"]
        low = {key: value for key, value in RATIOS.items() if (number(linear, key) or 0) < value and number(linear, key)}
        if low and source:
            written = ", ".join(f"{key} {linear[key]}" for key in low)
            new = {**linear, **low, "min": max(2, number(linear, "min") or 2), "preventSinglePointFailure": True}
            patch = compact({"data": {"linear": compact(new)}})
            line = command("kubectl", "-n", workload.namespace, "patch", "configmap", source, "--type", "merge", "-p", patch)
            yield Finding(
                NOTE,
                f"ConfigMap/{source}",
                f"{written}: these are for CoreDNS",
                "four times as much is still cautious; change it some days after the image",
                line,
            )


def _budgets(workload: Workload, around: Around) -> Iterator[Finding]:
    for row in around.budgets:
        least = at(row, "spec", "minAvailable")
        if (isinstance(least, int) and least >= workload.replicas) or least == "100%" or at(row, "spec", "maxUnavailable") in (0, "0%"):
            yield Finding(NOTE, f"PodDisruptionBudget/{name(row)}", "it lets no pod be evicted: drains of nodes wait, the update of the image does not")


def _node_caches(around: Around) -> Iterator[Finding]:
    addresses = {text(row, "spec", "clusterIP") for row in around.services} - {"", "None"}
    for row in around.node_caches:
        if any("fastdns-node" in text(container, "image") for container in rows(row, "spec", "template", "spec", "containers")):
            continue
        title = f"DaemonSet/{name(row)}"
        yield Finding(
            NOTE,
            title,
            "nodes have a cache, which is CoreDNS and stays: clients are nodes for this server, mostly over TCP",
            "fastdns-node can replace it afterwards (docs/node-local.md)",
        )
    for title, corefile in around.node_corefiles:
        if "__PILLAR__CLUSTER__DNS__" in corefile or any(re.search(rf"(?<![\d.]){re.escape(address)}(?![\d.])", corefile) for address in addresses):
            continue
        yield Finding(
            WARNING,
            title,
            f"its upstreams are none of the Service's addresses ({', '.join(sorted(addresses)) or 'unknown'})",
            "see where the nodes' caches forward to: what is changed here may not be what answers them",
        )


def _owners(workload: Workload) -> Iterator[Finding]:
    marks = {**labels(workload.object, "metadata", "annotations"), **labels(workload.object)}
    for key, value, who, hint in OWNERS:
        if key in marks and value in ("", marks[key]):
            yield Finding(WARNING, workload.title, f"{who} manages it", hint)
    for owner in rows(workload.object, "metadata", "ownerReferences"):
        yield Finding(WARNING, workload.title, f"{text(owner, 'kind')}/{text(owner, 'name')} owns it, and may set its own image again")


def _image(workload: Workload, around: Around, image: str) -> Iterator[Finding]:
    if "fastdns" in workload.image:
        yield Finding(NOTE, workload.title, f"its image is {workload.image} already")
    if image.startswith("REGISTRY/"):
        yield Finding(NOTE, workload.title, "REGISTRY in the commands stands for your registry", "-image IMAGE writes them for your image")
    tag = tag_of(image)
    if not around.kubeadm:
        return
    if "@" in image or not VERSION.fullmatch(tag):
        message = f"kubeadm upgrade takes the tag of the image as CoreDNS's version, and {tag or 'a digest'} is none"
        yield Finding(WARNING, workload.title, message, "tag it with a version, and mark your own builds in the repository's name (docs/operating.md, kubeadm)")
    yield Finding(
        NOTE,
        workload.title,
        "kubeadm upgrade sets the image of its configuration",
        "set dns.imageRepository and dns.imageTag there, or the image again after each upgrade (docs/operating.md, kubeadm)",
    )


def tag_of(image: str) -> str:
    """The tag of an image, "" where it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _chosen(selector: dict[str, str], its: dict[str, str]) -> bool:
    return bool(selector) and selector.items() <= its.items()


def _arguments(row: Json) -> list[str]:
    return [word for container in rows(row, "spec", "template", "spec", "containers") for word in (*words(container, "command"), *words(container, "args"))]


def _flag(row: Json, wanted: str) -> str:
    """The value of a flag of any container."""
    given = _arguments(row)
    for at_, word in enumerate(given):
        key, separator, value = word.lstrip("-").partition("=")
        if word.startswith("-") and key == wanted:
            return value if separator else given[at_ + 1] if at_ + 1 < len(given) else ""
    return ""


def _target(row: Json) -> str:
    """What a cluster-proportional-autoscaler scales: the one of its targets that there mostly is."""
    return _flag(row, "target").partition(",")[0]


def _parameters(row: Json, source: Source, namespace: str) -> tuple[str, dict[str, Any]]:
    """The ConfigMap and its parameters by mode; from the arguments where there is no ConfigMap."""
    wanted = _flag(row, "configmap")
    found = source.one(CONFIG_MAP, namespace, wanted) if wanted else None
    if found is not None:
        return wanted, {mode: read for mode, written in labels(found, "data").items() if isinstance(read := _json(written), dict)}
    defaults = _json(_flag(row, "default-params"))
    return "", {mode: read for mode, read in defaults.items() if isinstance(read, dict)} if isinstance(defaults, dict) else {}


def _json(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None


def _is_node_cache(row: Json) -> bool:
    images = [text(container, "image") for container in rows(row, "spec", "template", "spec", "containers")]
    return labels(row).get("k8s-app") == "node-local-dns" or any("node-cache" in image or "fastdns-node" in image for image in images)


def _corefiles(row: Json, source: Source, namespace: str) -> Iterator[tuple[str, str]]:
    """Texts of a node cache's Corefiles, which its ConfigMaps have."""
    for volume in rows(row, "spec", "template", "spec", "volumes"):
        wanted = text(volume, "configMap", "name")
        found = source.one(CONFIG_MAP, namespace, wanted) if wanted else None
        for key, written in labels(found, "data").items() if found is not None else ():
            if "corefile" in key.lower():
                yield f"ConfigMap/{wanted}", written
