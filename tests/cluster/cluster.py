"""A whole cluster: a control plane and nodes on hosts of their own, a network between them, and an upstream DNS server; nothing is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.certificates import Certificates
from tests.cluster.cgroups import Cgroups
from tests.cluster.control_plane import ADDRESS, SERVICES, ControlPlane
from tests.cluster.hosts import Host, Network
from tests.cluster.images import Archive
from tests.cluster.nodes import Node
from tests.cluster.sysctls import kept_sysctls
from tests.waiting import until

__all__ = ["Cluster", "clean", "cluster"]

#: Folders that stay: what pods have said, and what Kubernetes' tests left.
LOGS = ("pod-logs", "e2e")
#: Of the server to which the cluster's forwards, on the network's own host. A test of Kubernetes asks for the name of 8.8.8.8 there.
UPSTREAM = """.:53 {
    bind %s
    errors
    template IN PTR 8.8.8.8.in-addr.arpa {
        answer "{{ .Name }} 60 IN PTR dns.google."
    }
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"""


class Cluster:
    """``folder`` has the files of each host, logs among them."""

    def __init__(self, folder: Path, programs: Path, network: Network, control: ControlPlane, nodes: Sequence[Node]) -> None:
        self.folder, self.programs, self.network, self.control, self.nodes = folder, programs, network, control, nodes

    def start(self, images: Sequence[Archive], proxy_mode: str) -> None:
        hosts = [self.control.host, *(node.host for node in self.nodes)]
        self.network.connect(self.control.host, ADDRESS)
        for node in self.nodes:
            self.network.connect(node.host, node.address)
        for node in self.nodes:
            self.network.route([host for host in hosts if host is not node.host], node.subnet, node.address)
        corefile = self.folder / "upstream/Corefile"
        corefile.write_text(UPSTREAM % Network.ADDRESS)
        self.network.host.start("coredns", str(self.programs / "coredns"), "-conf", str(corefile))
        self.control.certificates.client("kube-proxy", "system:kube-proxy")
        self.control.start()
        for node in self.nodes:
            node.start(images, proxy_mode)
        for node in self.nodes:
            node.wait()

    def memory(self) -> list[int]:
        """The working set of each DNS pod, in octets, once kubelet has measured all of them."""
        return until(self._measured, "the measurement of the DNS pods' memory")

    def _measured(self) -> list[int]:
        found = []
        for node in self.nodes:
            summary = json.loads(self.control.kubectl("get", f"--raw=/api/v1/nodes/{node.host.name}/proxy/stats/summary"))
            found += [pod.get("memory", {}).get("workingSetBytes", 0) for pod in summary["pods"] if pod["podRef"]["name"].startswith("coredns-")]
        return found if all(found) else []


@contextlib.contextmanager
def cluster(folder: Path, programs: Path, count: int) -> Iterator[Cluster]:
    """Hosts for a cluster of so many nodes, until the context ends, however it ends. Logs stay in ``folder``; what is large in it goes."""
    groups = Cgroups(f"fastdns-cluster-{os.getpid()}")
    with contextlib.ExitStack() as stack:
        stack.callback(clean, folder)
        stack.enter_context(kept_sysctls())
        stack.callback(groups.remove)

        def host(name: str) -> Host:
            made = Host(name, folder / name)
            stack.callback(made.close)
            return made

        network = Network(host("upstream"))
        certificates = Certificates(programs / "kubeadm", folder / "certificates", ADDRESS, SERVICES)
        control = ControlPlane(host("control-plane"), programs, certificates)
        nodes = [Node(number, host(f"node{number}"), control, groups.add(f"node{number}")) for number in range(1, count + 1)]
        yield Cluster(folder, programs, network, control, nodes)


def clean(folder: Path) -> None:
    """Logs alone stay: no keys, and nothing large."""
    shutil.rmtree(folder / "certificates", ignore_errors=True)
    for path in folder.glob("*/*/"):
        if path.name not in LOGS and path.parent.name not in LOGS:
            shutil.rmtree(path)
