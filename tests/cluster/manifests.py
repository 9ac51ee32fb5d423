"""This project's manifests and its chart in the cluster: what of them is accepted, and what it does there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.control_plane import ControlPlane
from tests.cluster.deployment import IMAGE
from tests.cluster.images import BASELINE, FASTDNS
from tests.cluster.pod_faults import container
from tests.cluster.scene import Scene
from tests.waiting import until

__all__ = ["CHART", "Place", "run"]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm/fastdns"
#: The release of the chart, which stands beside the cluster's DNS server, and the address of its service.
RELEASE, ADDRESS = "other", "10.96.0.11"
#: The account of its pods.
ACCOUNT = f"system:serviceaccount:kube-system:{RELEASE}-coredns"
WAIT = ["--wait", "--timeout=300s"]
#: Seconds until what was applied has its effect.
EFFECT = 120.0
#: As a cluster has it that denies everything else: questions come in, and the API server and upstreams are asked.
POLICY = """apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: dns, namespace: kube-system}
spec:
  podSelector: {matchLabels: {k8s-app: kube-dns}}
  policyTypes: [Ingress, Egress]
  ingress:
  - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
  egress:
  - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}, {port: 6443, protocol: TCP}]
"""


class Place(NamedTuple):
    """A scene, the image of clients, and the chart of which a release is upgraded: CoreDNS's own where there is one."""

    scene: Scene
    tools: str
    former: Path = CHART

    @property
    def control(self) -> ControlPlane:
        return self.scene.control

    def may(self, account: str, verb: str, resource: str, namespace: str) -> bool:
        answer = self.control.host.run(*self.control.command("auth", "can-i", verb, resource, f"--as={account}", "-n", namespace), check=False)
        return answer.strip() == "yes"

    def helm(self, *words: str) -> str:
        """Raises RuntimeError where it fails."""
        host, conf = self.control.host, self.control.certificates.conf("admin")
        return host.run("env", f"HOME={host.folder}", str(self.control.programs / "helm"), f"--kubeconfig={conf}", "--namespace=kube-system", *words, limit=330)

    def answers(self, name: str) -> bool:
        return bool(self.scene.client.asked(name, ADDRESS))

    def release(self, image: str, *words: str, chart: Path = CHART) -> None:
        """The release with an image and further words for helm, and nothing that was of it before."""
        self.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
        given = [*_image(image), f"service.clusterIP={ADDRESS}", "serviceAccount.create=true", "readinessProbe.initialDelaySeconds=0"]
        self.helm("install", RELEASE, str(chart), *WAIT, *_set(*given, f"fastdns.test.image={self.tools}"), *words)


def run(place: Place) -> Iterator[tuple[str, str | Exception]]:
    """The checks, one after the other: what came of each, or what was not so. Afterwards the release is gone, and kubeadm's manifest is there."""
    for name, check in CHECKS.items():
        try:
            yield name, check(place)
        except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
            yield name, error
    place.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
    place.scene.deployment.install()


def minimal_rights(place: Place) -> str:
    """deploy/kustomize/overlays/minimal-rbac, over what kubeadm installed."""
    control = place.control
    manifest = control.kubectl("kustomize", str(DEPLOY / "kustomize/overlays/minimal-rbac"))
    control.apply(IMAGE.sub(rf"\g<1>{FASTDNS}", manifest))
    place.scene.deployment.wait()
    account = "system:serviceaccount:kube-system:coredns"
    rights = {f"{verb} {resource}" for verb in ("list", "get") for resource in ("services", "pods") if place.may(account, verb, resource, "kube-system")}
    _same(rights, {"list services"})
    until(lambda: place.scene.client.asked("kubernetes.default.svc.cluster.local"), "an answer with the minimal rights", EFFECT)
    forbidden = control.kubectl("-n", "kube-system", "logs", "-l", "k8s-app=kube-dns", "--tail=-1").count("forbidden")
    _same(forbidden, 0)
    return "services are answered, pods may not be listed, nothing is refused"


def roles_alone(place: Place) -> str:
    """The chart with rights in one namespace, and a kubernetes block for it."""
    servers = [{"zones": [{"zone": "."}], "port": 53, "plugins": _plugins("namespaces default")}]
    file = place.control.host.folder / "values.json"
    file.write_text(json.dumps({"servers": servers, "fastdns": {"rbac": {"namespaces": ["default"]}}}))
    place.release(FASTDNS, f"--values={file}")
    rights = {namespace for namespace in ("default", "kube-system") if place.may(ACCOUNT, "list", "services", namespace)}
    _same(rights, {"default"})
    until(lambda: place.answers("kubernetes.default.svc.cluster.local"), "an answer with a Role", EFFECT)
    _same(place.answers("kube-dns.kube-system.svc.cluster.local"), False)
    return "the namespace of the Role is answered, others are not"


def chart_there_and_back(place: Place) -> str:
    """A release with CoreDNS's image, fastdns in its place, and back. CoreDNS's own chart has nothing that ``helm test`` runs."""
    place.release(BASELINE, chart=place.former)
    _release_answers(place, BASELINE)
    place.helm("upgrade", RELEASE, str(CHART), "--reuse-values", *WAIT, *_set(*_image(FASTDNS)))
    _release_answers(place, FASTDNS)
    place.helm("rollback", RELEASE, "1", *WAIT)
    _release_answers(place, BASELINE)
    name = "this chart" if place.former == CHART else "CoreDNS's own chart"
    return f"a release of {name} with CoreDNS's image answers, after the upgrade and the rollback too; helm test passes"


def _release_answers(place: Place, image: str) -> None:
    """The release has pods of one image, a client is answered, and ``helm test`` passes."""
    # Of one pod none need be ready for helm: as many as that may be missing in an update.
    until(lambda: _images(place) == {image}, f"pods of {image} alone", EFFECT)
    until(lambda: place.answers("kubernetes.default.svc.cluster.local"), f"an answer of {image}", EFFECT)
    place.helm("test", RELEASE, "--timeout=120s")


def scaling(place: Place) -> str:
    """The chart's HorizontalPodAutoscaler and PodDisruptionBudget. There are no metrics: the autoscaler keeps its least number of pods."""
    place.release(FASTDNS, *_set("hpa.enabled=true", "hpa.minReplicas=2", "hpa.maxReplicas=3", "podDisruptionBudget.minAvailable=2"))
    until(lambda: len(_running(place)) == 2, "the autoscaler's least number of pods", EFFECT)
    name = f"{RELEASE}-coredns"
    until(lambda: place.control.get("-n", "kube-system", "pdb", name)["status"].get("currentHealthy") == 2, "the budget's two pods", EFFECT)
    pod = _running(place)[0]["metadata"]["name"]
    eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "kube-system"}})
    try:
        place.control.kubectl("create", "--raw", f"/api/v1/namespaces/kube-system/pods/{pod}/eviction", "-f", "-", text=eviction)
    except RuntimeError as error:
        if "disruption budget" not in str(error):
            raise
        return "the autoscaler makes two pods of one, the budget refuses the eviction of either"
    raise RuntimeError(f"the eviction of {pod} was not refused")


def policy(place: Place) -> str:
    """A NetworkPolicy for the pods: CNI's plugin ptp, which the nodes have, knows nothing of it."""
    place.control.apply(POLICY)
    try:
        until(lambda: place.scene.client.asked("kubernetes.default.svc.cluster.local"), "an answer with a NetworkPolicy", EFFECT)
    finally:
        place.control.kubectl("-n", "kube-system", "delete", "networkpolicy", "dns")
    return "accepted; no plugin of these nodes acts on it"


def process(place: Place) -> str:
    """The process of a pod: its user, its capabilities and its root, as the kernel has them."""
    pod = place.scene.deployment.pods()[0]
    node = next(node for node in place.scene.nodes if node.host.name == pod["spec"]["nodeName"])
    found = set()
    for line in node.host.run(*node.ctr("tasks", "ps", container(pod))).splitlines()[1:]:
        number = line.split()[0]
        status = dict(line.split(":", 1) for line in node.host.run("cat", f"/proc/{number}/status").splitlines())
        root = next(fields for fields in map(str.split, node.host.run("cat", f"/proc/{number}/mountinfo").splitlines()) if fields[4] == "/")
        found.add((status["Uid"].split()[1], int(status["CapEff"], 16), root[5].split(",")[0]))
    # NET_BIND_SERVICE is capability 10.
    _same(found, {("65532", 1 << 10, "ro")})
    return "user 65532, NET_BIND_SERVICE alone, the root read-only"


def _image(image: str) -> list[str]:
    repository, _, tag = image.rpartition(":")
    return [f"image.repository={repository}", f"image.tag={tag}"]


def _set(*values: str) -> list[str]:
    return [f"--set={value}" for value in values]


def _plugins(block: str) -> list[dict[str, Any]]:
    plugins = ["errors", "health", "ready", ("kubernetes", "cluster.local in-addr.arpa ip6.arpa", block), ("forward", ". /etc/resolv.conf", "")]
    return [{"name": one} if isinstance(one, str) else {"name": one[0], "parameters": one[1], "configBlock": one[2]} for one in plugins]


def _running(place: Place) -> list[dict[str, Any]]:
    found = place.control.get("-n", "kube-system", "pods", "-l", f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/name=coredns")["items"]
    return [pod for pod in found if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]]


def _images(place: Place) -> set[str]:
    return {container["image"] for pod in _running(place) for container in pod["spec"]["containers"]}


def _same(found: object, wanted: object) -> None:
    if found != wanted:
        raise RuntimeError(f"{found!r} in place of {wanted!r}")


CHECKS: Mapping[str, Callable[[Place], str]] = {
    "the process of a pod": process,
    "overlay minimal-rbac": minimal_rights,
    "chart with Roles alone": roles_alone,
    "chart: CoreDNS's image, fastdns and back": chart_there_and_back,
    "chart: HorizontalPodAutoscaler and PodDisruptionBudget": scaling,
    "NetworkPolicy": policy,
}
