"""A host of which kubeadm makes a control plane of static pods: with containerd, and a kubelet that starts when kubeadm has written what it reads."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster.cgroups import Cgroups
from tests.cluster.cluster import UPSTREAM, clean
from tests.cluster.containerd import Containerd
from tests.cluster.control_plane import ADDRESS, PODS, SERVICES
from tests.cluster.hosts import Host, set_address
from tests.cluster.images import Archive
from tests.cluster.kubectl import Kubectl
from tests.cluster.nodes import kubelet_settings
from tests.cluster.sysctls import kept_sysctls
from tests.waiting import until

__all__ = ["KubeadmHost", "kubeadm_host"]

#: Seconds that ``kubeadm init`` and ``kubeadm upgrade`` have, on a busy machine.
LIMIT = 1500.0
#: What namespaces on this machine have otherwise than a machine of its own: cgroup v1, where there is it.
IGNORED = ("SystemVerification",)
#: What kubeadm says when it has written the configuration of kubelet, which a service manager would start now.
WRITTEN = "[kubelet-start] Starting the kubelet"


class KubeadmHost(Containerd):
    """``programs`` are those that run there; ``kubectl`` is that of the folder at the beginning."""

    def __init__(self, host: Host, programs: Path, cgroup: str, proxy_mode: str) -> None:
        super().__init__(host, PODS)
        self.programs, self.cgroup, self.proxy_mode = programs, cgroup, proxy_mode
        self.control = Kubectl(host, programs, Path("/etc/kubernetes"))

    def start(self, images: Sequence[Archive], upstream: Path) -> None:
        """All that is there before kubeadm; upstream is the program of the DNS server to which the cluster's forwards."""
        host, folder = self.host, self.host.folder
        set_address(host, ADDRESS)
        (folder / "Corefile").write_text(UPSTREAM % ADDRESS)
        host.start("upstream", str(upstream), "-conf", f"{folder}/Corefile")
        host.run("sh", "-c", f"echo {ADDRESS} {host.name} >> /etc/hosts")
        (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
        # What lies over /var is in memory; volumes of pods are on the disk, as on a node.
        (folder / "kubelet").mkdir()
        host.run("sh", "-c", f"mkdir -p /var/lib/kubelet && mount --bind {folder}/kubelet /var/lib/kubelet")
        self.start_containerd(images)

    def init(self, version: str, dns: Mapping[str, str]) -> None:
        """``kubeadm init`` with a ``dns`` of the ClusterConfiguration. Raises RuntimeError where it fails."""
        log = self.host.folder / "kubeadm-init.log"
        self.host.start("kubeadm-init", *self.kubeadm("init", f"--config={self.write_configuration(version, dns)}"))
        process = self.host.programs["kubeadm-init"]
        until(lambda: WRITTEN in log.read_text() or process.poll() is not None, "kubelet's configuration", LIMIT)
        self.start_kubelet()
        status = process.wait(LIMIT)
        del self.host.programs["kubeadm-init"]
        if status:
            raise RuntimeError(f"kubeadm init ended with status {status}: {log.read_text()[-2000:]}")

    def upload_configuration(self, version: str, dns: Mapping[str, str]) -> None:
        """Keep another ``dns`` in the cluster, for the next upgrade."""
        self.host.run(*self.kubeadm("init", "phase", "upload-config", "kubeadm", f"--config={self.write_configuration(version, dns)}"))

    def write_configuration(self, version: str, dns: Mapping[str, str]) -> Path:
        file = self.host.folder / "kubeadm.yaml"
        file.write_text("\n---\n".join(map(json.dumps, self.configuration(version, dns))))
        return file

    def configuration(self, version: str, dns: Mapping[str, str]) -> list[dict[str, object]]:
        """One node, on which all pods may be."""
        api = "kubeadm.k8s.io/v1beta4"
        node = {"name": self.host.name, "criSocket": f"unix://{self.socket}", "taints": [], "ignorePreflightErrors": IGNORED}
        # Zero leaves the tables of the connection tracking as they are: they are the whole machine's.
        conntrack = {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
        return [
            {"apiVersion": api, "kind": "InitConfiguration", "localAPIEndpoint": {"advertiseAddress": ADDRESS}, "nodeRegistration": node},
            {
                "apiVersion": api,
                "kind": "ClusterConfiguration",
                "kubernetesVersion": version,
                "networking": {"serviceSubnet": SERVICES, "podSubnet": PODS},
                "dns": dict(dns),
            },
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **kubelet_settings(self.host, self.cgroup)},
            {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": self.proxy_mode, "conntrack": conntrack},
        ]

    def upgrade(self, version: str, *words: str, ignored: Sequence[str] = ()) -> str:
        """``kubeadm upgrade apply``; what it says. Raises RuntimeError where it fails."""
        ignore = f"--ignore-preflight-errors={','.join((*IGNORED, *ignored))}"
        said = self.host.run(*self.kubeadm("upgrade", "apply", version, "--yes", ignore, *words), limit=LIMIT)
        with (self.host.folder / "kubeadm-upgrade.log").open("a") as log:
            log.write(said)
        return said

    def use(self, programs: Path) -> None:
        """Other programs from now on: kubeadm's next command is of them, and kubelet at its next start."""
        self.programs = programs

    def kubeadm(self, *words: str) -> list[str]:
        """A command line for the host, with kubelet where kubeadm looks for it."""
        return ["env", f"PATH={self.programs}:{os.environ['PATH']}", str(self.programs / "kubeadm"), *words]

    def start_kubelet(self) -> None:
        """As kubeadm's unit for systemd does."""
        files = "--config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf"
        script = f". /var/lib/kubelet/kubeadm-flags.env; exec {self.programs}/kubelet {files} --node-ip={ADDRESS} $KUBELET_KUBEADM_ARGS"
        self.host.start("kubelet", "sh", "-c", script)

    def restart_kubelet(self) -> None:
        self.host.stop("kubelet")
        self.start_kubelet()


@contextlib.contextmanager
def kubeadm_host(folder: Path, name: str, programs: Path, proxy_mode: str) -> Iterator[KubeadmHost]:
    """A host until the context ends, however it ends. Logs stay in ``folder``, in one of its name."""
    groups = Cgroups(f"fastdns-kubeadm-{os.getpid()}")
    with contextlib.ExitStack() as stack:
        stack.callback(clean, folder)
        stack.enter_context(kept_sysctls())
        stack.callback(groups.remove)
        host = Host(name, folder / name)
        stack.callback(host.close)
        yield KubeadmHost(host, programs, groups.add(host.name), proxy_mode)
