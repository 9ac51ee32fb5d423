"""The DNS server of the cluster: the manifest of kubeadm's addon, or this project's own, with another image and nothing else changed."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import SERVICES
from tests.cluster.kubectl import Kubectl
from tests.cluster.programs import VERSION
from tests.waiting import until

__all__ = ["Deployment", "kubeadm_manifest"]

IMAGE = re.compile(r"(?m)^(\s*image: ).*$")
OWN = Path(__file__).resolve().parents[2] / "deploy/kubernetes/deployment.yaml"
#: What deployments have to their end, in kubectl's form.
LIMIT = "300s"
#: Seconds for pods to end.
END = 120.0
PODS = ("-n", "kube-system", "-l", "k8s-app=kube-dns")


def kubeadm_manifest(control: Kubectl) -> str:
    """What kubeadm installs as the DNS server."""
    words = ["init", "phase", "addon", "coredns", "--print-manifest", f"--service-cidr={SERVICES}", f"--kubernetes-version={VERSION}"]
    return control.host.run(str(control.programs / "kubeadm"), *words)


class Deployment:
    def __init__(self, control: Kubectl, image: str) -> None:
        self.control, self.image = control, image

    def install(self) -> float:
        """Apply kubeadm's manifest where no DNS server is any more. Seconds until all pods were ready."""
        self.remove()
        return self.apply(kubeadm_manifest(self.control))

    def remove(self) -> None:
        """The pods end."""
        self.control.kubectl("-n", "kube-system", "delete", "deployment", "coredns", "--ignore-not-found")
        until(lambda: not self.pods(), "the end of the old pods", END)

    def install_own(self) -> float:
        """Apply this project's manifest of the deployment over kubeadm's. Seconds until all pods were ready and the old ones gone."""
        return self.apply(OWN.read_text())

    def apply(self, manifest: str) -> float:
        changed, count = IMAGE.subn(rf"\g<1>{self.image}", manifest)
        if count != 1:
            raise RuntimeError(f"the manifest has {count} images")
        began = time.monotonic()
        self.control.apply(changed)
        self.settle()
        return time.monotonic() - began

    def restart(self) -> float:
        """A rolling update to the same image. Seconds until it was through and the last old pod was gone."""
        began = time.monotonic()
        before = {pod["metadata"]["name"] for pod in self.pods()}
        self.control.kubectl("-n", "kube-system", "rollout", "restart", "deployment/coredns")
        self.wait()
        until(lambda: not before & {pod["metadata"]["name"] for pod in self.pods()}, "the end of the old pods", END)
        return time.monotonic() - began

    def set_api_server(self, host: str = "", port: int = 0) -> None:
        """Have the pods ask another API server, or again that of the service ``kubernetes``; they are replaced."""
        values = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        words = [f"{name}={value}" if value else f"{name}-" for name, value in values.items()]
        self.control.kubectl("-n", "kube-system", "set", "env", "deployment/coredns", *words)
        self.settle()

    def wait(self) -> None:
        self.control.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", f"--timeout={LIMIT}", limit=330)

    def settle(self) -> None:
        """Wait until all pods are ready and of the deployment as it is."""
        self.wait()
        until(lambda: not any("deletionTimestamp" in pod["metadata"] for pod in self.pods()), "the end of the old pods", END)

    def pods(self) -> list[dict[str, Any]]:
        return list(self.control.get("pods", *PODS)["items"])

    def ready(self) -> set[str]:
        """The names of the pods that are ready and not about to end."""
        found = set()
        for pod in self.pods():
            ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in pod["status"].get("conditions", ()))
            if ready and "deletionTimestamp" not in pod["metadata"]:
                found.add(pod["metadata"]["name"])
        return found
