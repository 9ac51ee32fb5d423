"""kubectl on a host, the client of an API server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cluster.hosts import Host

__all__ = ["Kubectl"]


class Kubectl:
    """``confs`` is the folder of the kubeconfig files, as the host sees it."""

    def __init__(self, host: Host, programs: Path, confs: Path) -> None:
        self.host, self.programs, self.confs = host, programs, confs
        (host.folder / "kubectl").mkdir()

    def conf(self, name: str) -> Path:
        return self.confs / f"{name}.conf"

    def command(self, *words: str, conf: str = "admin") -> list[str]:
        """A command line of kubectl, for the host."""
        return [str(self.programs / "kubectl"), f"--kubeconfig={self.conf(conf)}", f"--cache-dir={self.host.folder}/kubectl", *words]

    def kubectl(self, *words: str, conf: str = "admin", text: str | None = None, limit: float = 120) -> str:
        """What kubectl prints; raises RuntimeError where it fails."""
        return self.host.run(*self.command(*words, conf=conf), text=text, limit=limit)

    def get(self, *words: str) -> Any:
        """The objects of ``kubectl get``, decoded."""
        return json.loads(self.kubectl("get", "-o", "json", *words))

    def apply(self, manifest: str) -> None:
        self.kubectl("apply", "-f", "-", text=manifest)

    def shell(self) -> None:
        """A shell on the host with kubectl, until it ends."""
        environment = f"PATH={self.programs}:$PATH KUBECONFIG={self.conf('admin')}"
        subprocess.run(self.host.entered("sh", "-c", f"{environment} exec bash"), cwd="/")
