"""containerd on a host, with the plugins ptp and host-local of CNI."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.cluster.hosts import Host
from tests.cluster.images import Archive
from tests.waiting import until
from tools import system_packages

__all__ = ["Containerd"]

#: Seconds until it listens, on a busy machine.
START = 180.0
#: Debian's folder of the CNI plugins.
CNI = "/usr/lib/cni"


class Containerd:
    """``subnet`` has the addresses of the pods."""

    def __init__(self, host: Host, subnet: str) -> None:
        self.host, self.subnet = host, subnet
        self.socket = host.folder / "containerd.sock"
        self.images: Sequence[Archive] = ()

    def start_containerd(self, images: Sequence[Archive]) -> None:
        """It has the images when this returns."""
        host, folder = self.host, self.host.folder
        (folder / "containerd.toml").write_text(self.containerd())
        (folder / "cni").mkdir()
        # A link for each pod, without a bridge: a reply from one pod of a node to another comes through the node too, and kube-proxy's translation with it.
        addresses = {"type": "host-local", "dataDir": f"{folder}/addresses", "ranges": [[{"subnet": self.subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
        plugins = [{"type": "ptp", "ipam": addresses}]
        (folder / "cni/10-ptp.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}))
        host.start("containerd", _system("containerd"), "-c", f"{folder}/containerd.toml")
        until(self.socket.exists, f"containerd's start on {host.name}", START)
        self.images = images
        self.load_images()

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

    def ctr(self, *words: str) -> list[str]:
        """A command line of containerd's client, for the host."""
        return [_system("ctr"), f"--address={self.socket}", "--namespace=k8s.io", *words]

    def load_images(self) -> None:
        """Also those that are there, which changes nothing."""
        for image in self.images:
            self.host.run(*self.ctr("images", "import", str(image.path)), limit=600)
            for name in image.others:
                self.host.run(*self.ctr("images", "tag", "--force", image.name, name))


def _system(name: str) -> str:
    path = system_packages.program(name)
    if path is None:
        raise RuntimeError(f"needs {name}: tools/system_packages.py cluster")
    return path
