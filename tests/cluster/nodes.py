"""Nodes: a host each, with containerd, kubelet and kube-proxy."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence

from tests.cluster.containerd import Containerd
from tests.cluster.control_plane import PODS, ControlPlane
from tests.cluster.hosts import Host, Network
from tests.cluster.images import Archive
from tests.waiting import until

__all__ = ["DNS", "Node", "kubelet_settings"]

#: The address of the DNS service, which kubelet writes into the pods' resolv.conf: the tenth of the services.
DNS = "10.96.0.10"
#: The address of the service ``kubernetes``.
API_SERVER = "10.96.0.1"
#: Seconds until a node is ready, on a busy machine.
START = 180.0


class Node(Containerd):
    """Number N has the address 192.168.66.(10 + N), and its pods those of 10.244.N.0/24."""

    def __init__(self, number: int, host: Host, control: ControlPlane, cgroup: str) -> None:
        super().__init__(host, f"10.244.{number}.0/24")
        self.number, self.control, self.cgroup = number, control, cgroup
        self.address = f"192.168.66.{10 + number}"

    def kubelet(self) -> dict[str, object]:
        pki = self.control.certificates.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{pki}/ca.crt"}},
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [DNS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            **kubelet_settings(self.host, self.cgroup),
        }

    def start(self, images: Sequence[Archive], proxy_mode: str) -> None:
        """The mode is one of kube-proxy."""
        folder = self.host.folder
        (folder / "resolv.conf").write_text(f"nameserver {Network.ADDRESS}\n")
        (folder / "kubelet.json").write_text(json.dumps(self.kubelet(), indent=1))
        self.start_containerd(images)
        self.control.certificates.node(self.host.name)
        self.start_kubelet()
        self.start_proxy(proxy_mode)

    def start_kubelet(self) -> None:
        """By the configuration that is written."""
        host, folder = self.host, self.host.folder
        conf = self.control.certificates.conf(f"{host.name}/kubelet")
        words = [f"--config={folder}/kubelet.json", f"--kubeconfig={conf}", f"--hostname-override={host.name}", f"--node-ip={self.address}"]
        host.start("kubelet", str(self.control.programs / "kubelet"), *words, f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/kubelet/pki")

    def start_proxy(self, mode: str) -> None:
        """Zero leaves the tables of the connection tracking as large as they are: they are the whole machine's."""
        conf = self.control.certificates.conf("kube-proxy")
        words = [f"--kubeconfig={conf}", f"--hostname-override={self.host.name}", f"--cluster-cidr={PODS}", f"--proxy-mode={mode}"]
        words += [f"--conntrack-{name}=0" for name in ("max-per-core", "tcp-timeout-established", "tcp-timeout-close-wait")]
        self.host.start("kube-proxy", str(self.control.programs / "kube-proxy"), *words)

    def ready(self) -> bool:
        if ended := self.host.ended():
            raise RuntimeError(f"{self.host.name}: {', '.join(ended)} ended: {(self.host.folder / f'{ended[0]}.log').read_text()[-2000:]}")
        with contextlib.suppress(RuntimeError):
            conditions = self.control.get("node", self.host.name)["status"]["conditions"]
            return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
        return False

    def reaches_api_server(self) -> bool:
        """By its service, to which kube-proxy leads."""
        connect = f"import socket; print(socket.create_connection(('{API_SERVER}', 443), 1).getpeername()[0])"
        return self.host.run(sys.executable, "-c", connect, check=False).strip() == API_SERVER

    def wait(self) -> None:
        until(self.ready, f"readiness of {self.host.name}", START)


def kubelet_settings(host: Host, cgroup: str) -> dict[str, object]:
    """Of a KubeletConfiguration what a host of namespaces on this machine asks for."""
    return {
        # Of the machines that still have cgroup v1.
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failSwapOn": False,
        "resolvConf": f"{host.folder}/resolv.conf",
        "podLogsDir": f"{host.folder}/pod-logs",
        # The disk is this machine's: kubelet shall neither evict pods nor collect images because of what else is on it.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%", "memory.available": "100Mi"},
        "evictionPressureTransitionPeriod": "10s",
        "imageGCHighThresholdPercent": 100,
        "enforceNodeAllocatable": [],
    }
