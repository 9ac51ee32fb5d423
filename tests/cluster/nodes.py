"""Nodes: a host each, with containerd, kubelet, kube-proxy, and the plugins ptp and host-local of CNI."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.control_plane import PODS, ControlPlane
from tests.cluster.hosts import Host, Network
from tests.cluster.images import Archive
from tests.waiting import until
from tools import system_packages

__all__ = ["DNS", "Node", "kept_sysctls"]

#: The address of the DNS service, which kubelet writes into the pods' resolv.conf: the tenth of the services.
DNS = "10.96.0.10"
#: The address of the service ``kubernetes``.
API_SERVER = "10.96.0.1"
#: Seconds until a node is ready, on a busy machine.
START = 180.0
#: Debian's folder of the CNI plugins.
CNI = "/usr/lib/cni"
#: What kubelet sets for the whole machine.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")


class Node:
    """Number N has the address 192.168.66.(10 + N), and its pods those of 10.244.N.0/24."""

    def __init__(self, number: int, host: Host, control: ControlPlane, cgroup: str) -> None:
        self.number, self.host, self.control, self.cgroup = number, host, control, cgroup
        self.address, self.subnet = f"192.168.66.{10 + number}", f"10.244.{number}.0/24"
        self.socket = host.folder / "containerd.sock"
        self.images: Sequence[Archive] = ()

    def write_configuration(self) -> None:
        folder = self.host.folder
        (folder / "resolv.conf").write_text(f"nameserver {Network.ADDRESS}\n")
        (folder / "containerd.toml").write_text(self.containerd())
        (folder / "kubelet.json").write_text(json.dumps(self.kubelet(), indent=1))
        (folder / "cni").mkdir()
        # A link for each pod, without a bridge: a reply from one pod of a node to another comes through the node too, and kube-proxy's translation with it.
        addresses = {"type": "host-local", "dataDir": f"{folder}/addresses", "ranges": [[{"subnet": self.subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
        plugins = [{"type": "ptp", "ipam": addresses}]
        (folder / "cni/10-ptp.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}))

    def containerd(self) -> str:
        folder = self.host.folder
        return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.k8s.io/pause:3.10.1"
  # Without CAP_SYS_RESOURCE no process may lower its score, and runc says "can't get final child's PID".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""

    def kubelet(self) -> dict[str, object]:
        pki = self.control.certificates.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # Of the machines that still have cgroup v1.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup,
            "failSwapOn": False,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{pki}/ca.crt"}},
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [DNS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "resolvConf": f"{self.host.folder}/resolv.conf",
            "podLogsDir": f"{self.host.folder}/pod-logs",
            # The disk is this machine's: kubelet shall neither evict pods nor collect images because of what else is on it.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%", "memory.available": "100Mi"},
            "evictionPressureTransitionPeriod": "10s",
            "imageGCHighThresholdPercent": 100,
            "enforceNodeAllocatable": [],
        }

    def start(self, images: Sequence[Archive], proxy_mode: str) -> None:
        """The mode is one of kube-proxy."""
        self.write_configuration()
        host, folder = self.host, self.host.folder
        host.start("containerd", _system("containerd"), "-c", f"{folder}/containerd.toml")
        until(self.socket.exists, f"containerd's start on {host.name}", START)
        self.images = images
        self.load_images()
        self.control.certificates.node(host.name)
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

    def ctr(self, *words: str) -> list[str]:
        """A command line of containerd's client, for the host."""
        return [_system("ctr"), f"--address={self.socket}", "--namespace=k8s.io", *words]

    def load_images(self) -> None:
        """Also those that are there, which changes nothing."""
        for image in self.images:
            self.host.run(*self.ctr("images", "import", str(image.path)), limit=600)
            for name in image.others:
                self.host.run(*self.ctr("images", "tag", "--force", image.name, name))

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


def _system(name: str) -> str:
    path = system_packages.program(name)
    if path is None:
        raise RuntimeError(f"needs {name}: tools/system_packages.py cluster")
    return path


@contextlib.contextmanager
def kept_sysctls() -> Iterator[None]:
    """What kubelet changes of the machine's own settings is as before afterwards."""
    before = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS if os.access(Path("/proc/sys", name), os.R_OK)}
    try:
        yield
    finally:
        for name, value in before.items():
            if Path("/proc/sys", name).read_text() != value:
                Path("/proc/sys", name).write_text(value)
