"""The manifests keep the contract that operators and kubeadm have with CoreDNS's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import fastdns

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here")


def objects() -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        if path.name == "kustomization.yaml":
            continue
        for document in yaml.safe_load_all(path.read_text()):
            key = document["kind"], document["metadata"]["name"]
            assert key not in found, f"{key} stands twice"
            found[key] = document
    return found


OBJECTS = objects() if DEPLOY.is_dir() else {}


def pick(document: Any, path: str) -> Any:
    """The value at a path of keys and list indices: ``spec.ports.0.name``."""
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part.replace("~", ".")]
    return document


DEPLOYMENT = ("Deployment", "coredns")
SERVICE = ("Service", "kube-dns")
POD = "spec.template.spec."
CONTAINER = POD + "containers.0."
ROWS: list[tuple[tuple[str, str], str, Any]] = [
    # namespace, workload
    (DEPLOYMENT, "metadata.namespace", "kube-system"),
    (DEPLOYMENT, "spec.replicas", 2),
    (DEPLOYMENT, "spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
    (DEPLOYMENT, CONTAINER + "name", "coredns"),
    # labels and selector
    (DEPLOYMENT, "metadata.labels.k8s-app", "kube-dns"),
    (DEPLOYMENT, "spec.selector.matchLabels", {"k8s-app": "kube-dns"}),
    (DEPLOYMENT, "spec.template.metadata.labels.k8s-app", "kube-dns"),
    # Service
    (SERVICE, "metadata.namespace", "kube-system"),
    (
        SERVICE,
        "metadata.labels",
        {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
    ),
    (SERVICE, "metadata.annotations", {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}),
    (SERVICE, "spec.selector", {"k8s-app": "kube-dns"}),
    (SERVICE, "spec.clusterIP", "10.96.0.10"),
    # ConfigMap, its volume, arguments
    (("ConfigMap", "coredns"), "metadata.namespace", "kube-system"),
    (DEPLOYMENT, CONTAINER + "args", ["-conf", "/etc/coredns/Corefile"]),
    (DEPLOYMENT, CONTAINER + "volumeMounts.0", {"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}),
    (
        DEPLOYMENT,
        POD + "volumes.0",
        {"name": "config-volume", "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]}},
    ),
    # coredns-custom
    (DEPLOYMENT, CONTAINER + "volumeMounts.1.mountPath", "/etc/coredns/custom"),
    (DEPLOYMENT, POD + "volumes.1.configMap", {"name": "coredns-custom", "optional": True}),
    # RBAC
    (("ServiceAccount", "coredns"), "metadata.namespace", "kube-system"),
    (
        ("ClusterRole", "system:coredns"),
        "rules",
        [
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    ),
    (("ClusterRoleBinding", "system:coredns"), "roleRef.name", "system:coredns"),
    (("ClusterRoleBinding", "system:coredns"), "subjects", [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}]),
    (
        ("ClusterRole", "system:coredns-multicluster"),
        "rules",
        [{"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceexports", "serviceimports"], "verbs": ["list", "watch"]}],
    ),
    # probes
    (DEPLOYMENT, CONTAINER + "livenessProbe.httpGet", {"path": "/health", "port": "liveness-probe", "scheme": "HTTP"}),
    (DEPLOYMENT, CONTAINER + "livenessProbe.initialDelaySeconds", 60),
    (DEPLOYMENT, CONTAINER + "livenessProbe.timeoutSeconds", 5),
    (DEPLOYMENT, CONTAINER + "livenessProbe.failureThreshold", 5),
    (DEPLOYMENT, CONTAINER + "readinessProbe.httpGet", {"path": "/ready", "port": "readiness-probe", "scheme": "HTTP"}),
    # Not ready as soon as it is told to end, well within the lame duck's 5 s.
    (DEPLOYMENT, CONTAINER + "readinessProbe.periodSeconds", 1),
    (DEPLOYMENT, CONTAINER + "readinessProbe.failureThreshold", 1),
    # resources
    (DEPLOYMENT, CONTAINER + "resources", {"requests": {"cpu": "100m", "memory": "70Mi"}, "limits": {"memory": "170Mi"}}),
    # scheduling
    (DEPLOYMENT, POD + "priorityClassName", "system-cluster-critical"),
    (DEPLOYMENT, POD + "serviceAccountName", "coredns"),
    (
        DEPLOYMENT,
        POD + "tolerations",
        [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
    ),
    (DEPLOYMENT, POD + "nodeSelector", {"kubernetes.io/os": "linux"}),
    (DEPLOYMENT, POD + "dnsPolicy", "Default"),
    (
        DEPLOYMENT,
        POD + "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.podAffinityTerm",
        {
            "labelSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]},
            "topologyKey": "kubernetes.io/hostname",
        },
    ),
    # securityContext
    (
        DEPLOYMENT,
        CONTAINER + "securityContext",
        {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    ),
    (DEPLOYMENT, POD + "securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}),
]


@pytest.mark.parametrize(("kind", "path", "wanted"), ROWS, ids=lambda value: value if isinstance(value, str) else None)
def test_row(kind: tuple[str, str], path: str, wanted: Any) -> None:
    assert pick(OBJECTS[kind], path) == wanted


def test_ports_agree() -> None:
    wanted = {"dns": (53, "UDP"), "dns-tcp": (53, "TCP"), "metrics": (9153, "TCP")}
    assert {port["name"]: (port["port"], port["protocol"]) for port in pick(OBJECTS[SERVICE], "spec.ports")} == wanted
    assert {port["targetPort"] for port in pick(OBJECTS[SERVICE], "spec.ports")} == {53, 9153}
    wanted |= {"liveness-probe": (8080, "TCP"), "readiness-probe": (8181, "TCP")}
    assert {port["name"]: (port["containerPort"], port["protocol"]) for port in pick(OBJECTS[DEPLOYMENT], CONTAINER + "ports")} == wanted


def test_nothing_more_is_there() -> None:
    """No `command` (the image's entry point is the server), no other workload with the label that kubeadm looks for."""
    assert "command" not in pick(OBJECTS[DEPLOYMENT], CONTAINER.removesuffix("."))
    assert [kind for kind, _ in OBJECTS if kind in ("Deployment", "DaemonSet", "StatefulSet")] == ["Deployment"]


def test_the_tag_is_a_coredns_version() -> None:
    """kubeadm upgrade takes the text after the last colon for the CoreDNS version."""
    image = pick(OBJECTS[DEPLOYMENT], CONTAINER + "image")
    assert image.rpartition(":")[2] == "v" + fastdns.COREDNS_VERSION


def test_the_corefile_is_kubeadms_with_the_custom_imports() -> None:
    corefile = pick(OBJECTS["ConfigMap", "coredns"], "data.Corefile")
    words = corefile.split()
    for text in (
        ".:53 { errors health { lameduck 5s } ready kubernetes cluster.local in-addr.arpa ip6.arpa",
        "{ pods insecure fallthrough in-addr.arpa ip6.arpa ttl 30 } prometheus :9153",
        "forward . /etc/resolv.conf { max_concurrent 1000 }",
        "cache 30 { disable success cluster.local disable denial cluster.local } loop reload loadbalance",
        "import /etc/coredns/custom/*.override }",
        "} import /etc/coredns/custom/*.server",
    ):
        assert text in " ".join(words)


@pytest.mark.parametrize(
    "line",
    [
        r"ARG RUNTIME_IMAGE=gcr\.io/distroless/cc-debian12:nonroot",
        r"FROM \$\{RUNTIME_IMAGE\} AS server",
        r"WORKDIR /",
        r"USER 65532:65532",
        r"EXPOSE 53 53/udp",
        r'ENTRYPOINT \["/coredns"\]',
        r"RUN .*setcap cap_net_bind_service=\+ep /root-of-image/coredns",
    ],
)
def test_the_image(line: str) -> None:
    assert re.search(f"^{line}$", (DEPLOY / "Dockerfile").read_text(), re.M)


def test_the_image_is_labelled() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', (DEPLOY / "Dockerfile").read_text().split(" AS server")[1]))
    assert labels["version"] == "v" + fastdns.COREDNS_VERSION
    assert {"title", "description", "licenses", "revision", "base.name"} <= set(labels)


def test_every_builder_takes_the_dockerfile() -> None:
    """No mounts of another stage, which buildah 1.28 does not have, and no architecture by name."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "--mount" not in text
    assert not re.search("amd64|x86_64|arm64|aarch64", text + (DEPLOY / "root.sh").read_text() + (DEPLOY / "clouds.sh").read_text())


def test_clouds_are_the_server_with_their_libraries() -> None:
    clouds = (DEPLOY / "Dockerfile").read_text().split("\nFROM server AS clouds\n")[1]
    assert clouds.startswith("COPY --from=build-clouds /root-of-clouds /\n")
