"""The images of a control plane that kubeadm makes: one, out of Kubernetes' programs and etcd, under each of the names that kubeadm asks for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster.images import Archive, Images

__all__ = ["build", "names"]

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
#: Those that it does not stand for.
OTHERS = ("/coredns:", "/pause:")


def build(images: Images, programs: Path, version: str) -> Archive:
    """The programs are of a version."""
    first, *others = (name for name in names(images.built, version) if not any(other in name for other in OTHERS))
    lines = [f"FROM {images.base('proxy')}", f"COPY {' '.join(PROGRAMS)} etcd /usr/local/bin/", ""]
    files = {name: programs / name for name in PROGRAMS}
    images.bud("\n".join(lines), {**files, "etcd": images.built / "etcd"}, first)
    images.save(first, *others)
    return images.archives[-1]


def names(built: Path, version: str) -> list[str]:
    """Of the images that kubeadm asks for."""
    words = [str(built / "kubeadm"), "config", "images", "list", f"--kubernetes-version={version}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout.split()
