"""The certificates and kubeconfig files of a cluster, as kubeadm makes them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.programs import VERSION

__all__ = ["Certificates"]


class Certificates:
    """In a folder: ``pki/`` with keys and certificates, and NAME.conf for each client."""

    def __init__(self, kubeadm: Path, folder: Path, address: str, subnet: str) -> None:
        self.kubeadm, self.folder, self.address, self.subnet = kubeadm, folder, address, subnet
        self.pki = folder / "pki"
        self._init("certs", "all", f"--service-cidr={subnet}")
        for name in ("admin", "super-admin", "controller-manager", "scheduler"):
            self._init("kubeconfig", name, f"--kubeconfig-dir={folder}")

    def conf(self, name: str) -> Path:
        return self.folder / f"{name}.conf"

    def node(self, name: str) -> Path:
        """The kubeconfig file of a node's kubelet."""
        folder = self.folder / name
        self._init("kubeconfig", "kubelet", f"--kubeconfig-dir={folder}", f"--node-name={name}")
        return folder / "kubelet.conf"

    def client(self, name: str, user: str, groups: Sequence[str] = ()) -> Path:
        """The kubeconfig file of another user."""
        configuration = self.folder / "kubeadm.yaml"
        configuration.write_text(
            f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {VERSION}\n"
            f"certificatesDir: {self.pki}\ncontrolPlaneEndpoint: {self.address}:6443\n"
        )
        words = ["kubeconfig", "user", f"--client-name={user}", f"--config={configuration}", *(f"--org={group}" for group in groups)]
        self.conf(name).write_text(self._run(*words))
        return self.conf(name)

    def other(self, name: str, *phases: str) -> Path:
        """A folder NAME with other keys and certificates of the same kinds: phases of ``kubeadm init phase certs``."""
        folder = self.folder / name
        for phase in phases:
            address = [f"--apiserver-advertise-address={self.address}", f"--service-cidr={self.subnet}"] if phase == "apiserver" else []
            self._run("init", "phase", "certs", phase, f"--cert-dir={folder}", *([] if phase == "sa" else [f"--kubernetes-version={VERSION}"]), *address)
        return folder

    def _init(self, *words: str) -> None:
        common = [f"--cert-dir={self.pki}", f"--apiserver-advertise-address={self.address}", f"--kubernetes-version={VERSION}"]
        self._run("init", "phase", *words, *common)

    def _run(self, *words: str) -> str:
        done = subprocess.run([self.kubeadm, *words], capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise RuntimeError(f"kubeadm {' '.join(words)}: {done.stderr.strip()[-1000:]}")
        return done.stdout
