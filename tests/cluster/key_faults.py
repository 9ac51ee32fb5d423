"""What clients see while keys change: the one that signs the tokens of service accounts, and the authority of the API server's certificate."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.api_faults import ApiProxy
from tests.cluster.nodes import Node
from tests.cluster.scene import RETURN, SERVICE, Outcome, Scene
from tests.waiting import until

__all__ = ["authority_changed", "token_key_changed"]

#: Seconds after which a server that has not connected with a new authority will not: more than the pauses between its attempts.
PATIENCE = 120.0


def token_key_changed(scene: Scene) -> Outcome:
    """Tokens are signed with another key, kubelet brings new ones, and those of the first key are refused."""
    control = scene.control
    first, pki = control.token_keys[0], control.certificates.pki
    # Back to the first key where this was done before.
    other = control.certificates.other("tokens", "sa") if first == pki else pki

    def changed() -> str:
        before = [account(node, pod, "token") for pod, node in placed(scene)]
        control.token_keys = [other, first]
        control.restart_apiserver()
        control.host.stop("kube-controller-manager")
        control.start_managers("controller-manager")
        for node in scene.nodes:
            # It keeps tokens in memory for most of their hour.
            node.host.stop("kubelet")
            node.start_kubelet()
        until(lambda: not set(before) & {account(node, pod, "token") for pod, node in placed(scene)}, "new tokens in the DNS pods", RETURN)
        control.token_keys = [other]
        control.restart_apiserver()
        control.apply(SERVICE)
        return f"then a new service is known after {scene.new_service_known():.1f} s"

    return scene.during(changed)


def authority_changed(scene: Scene, proxy: ApiProxy) -> Outcome:
    """Pods are given a second authority, and then the API server has a certificate of that one."""
    control = scene.control
    pki, other = control.certificates.pki, control.certificates.other("authority", "ca", "apiserver")
    both = other / "both.crt"
    both.write_bytes((pki / "ca.crt").read_bytes() + (other / "ca.crt").read_bytes())

    def changed() -> str:
        give(scene, both)
        proxy.take_certificate(other)
        proxy.set("none")
        control.apply(SERVICE)
        try:
            return f"then a new service is known after {scene.new_service_known(PATIENCE):.1f} s"
        except AssertionError:
            scene.deployment.restart()
            return f"then a new service is not known within {PATIENCE:.0f} s, and {scene.new_service_known():.1f} s after the pods were replaced"

    try:
        return scene.during(changed)
    finally:
        proxy.take_certificate(pki)
        proxy.set("none")
        give(scene, pki / "ca.crt")


def give(scene: Scene, root: Path) -> None:
    """Have all pods know the API server by the authorities of a file."""
    scene.control.root = root
    scene.control.host.stop("kube-controller-manager")
    scene.control.start_managers("controller-manager")
    text = root.read_text().strip()
    until(lambda: all(account(node, pod, "ca.crt").strip() == text for pod, node in placed(scene)), "the new authority in the DNS pods", RETURN)


def placed(scene: Scene) -> list[tuple[str, Node]]:
    """The UID of each DNS pod that is not about to end, and its node."""
    nodes = {node.host.name: node for node in scene.nodes}
    return [(pod["metadata"]["uid"], nodes[pod["spec"]["nodeName"]]) for pod in scene.deployment.pods() if "deletionTimestamp" not in pod["metadata"]]


def account(node: Node, pod: str, file: str) -> str:
    """A file of the service account of a pod, as kubelet has written it."""
    folder = f"{node.host.folder}/kubelet/pods/{pod}/volumes/kubernetes.io~projected"
    return node.host.run("sh", "-c", f"cat {folder}/*/{file}")
