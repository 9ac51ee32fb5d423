"""``kubeadm init`` and ``kubeadm upgrade apply`` with each DNS server as the cluster's: what becomes of its image and of what an operator has changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.cluster import control_plane_image, programs
from tests.cluster.churn import addresses_of, question
from tests.cluster.deployment import Deployment
from tests.cluster.images import BASELINE, FASTDNS, Archive, Images
from tests.cluster.kubeadm_host import KubeadmHost, kubeadm_host
from tests.cluster.nodes import DNS
from tests.cluster.page import Page, said
from tests.cluster.programs import COREDNS, PREVIOUS, VERSION
from tests.cluster.rolling import Client, Loss
from tests.waiting import until

__all__ = ["archives", "reason", "run"]

#: Of images: kubeadm adds "/coredns" and a tag.
REPOSITORIES = {"fastdns": "fastdns.test/kubeadm", "coredns": "coredns.test/kubeadm"}
#: The version of CoreDNS that kubeadm 1.34 installs. That of kubeadm 1.35 is asked for.
FORMER = "v1.12.1"
#: Seconds until what was changed is answered: kubelet and *reload* wait between attempts.
EFFECT = 300.0
SERVICE = "kubernetes.default.svc.cluster.local"
#: What an operator has added to the Corefile: what kubeadm's migration knows, and a plugin that it does not know.
KNOWN = """corp.test:53 {
    errors
    hosts {
        192.0.2.7 www.corp.test
    }
}
"""
UNKNOWN = """lab.test:53 {
    errors
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.8"
    }
}
"""
#: What the DNS server may read, and what an operator has added.
ROLE, RIGHT = "system:coredns", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
#: Those of kubeadm's preflight checks that are about CoreDNS.
CHECKS = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
#: Sends a query and prints the reply, both in hexadecimal.
ASK = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(5)
asking.sendto(bytes.fromhex(sys.argv[2]), (sys.argv[1], 53))
print(asking.recv(512).hex())
"""


def archives(images: Images) -> list[Archive]:
    """The images of both releases' control planes, of clients, and of both DNS servers under the names that kubeadm asks for."""
    built = images.built
    known = version(built)
    servers = {FASTDNS: "fastdns", BASELINE: "coredns"}
    found = []
    for archive in images.archives:
        if server := servers.get(archive.name):
            found.append(archive._replace(others=tuple(f"{REPOSITORIES[server]}/coredns:{tag}" for tag in (FORMER, known, COREDNS))))
        elif archive.name == images.tools or "/pause:" in archive.name:
            found.append(archive)
    own = Images(built)
    return [*found, control_plane_image.build(own, programs.previous(built), PREVIOUS), control_plane_image.build(own, built, VERSION)]


def version(built: Path) -> str:
    """The version of CoreDNS that this kubeadm installs."""
    return next(name.rpartition(":")[2] for name in control_plane_image.names(built, VERSION) if "/coredns:" in name)


def run(page: Page, folder: Path, built: Path, images: list[Archive], tools: str) -> None:
    """A cluster for each DNS server. Adds rows to the page."""
    for server in page.servers:
        with kubeadm_host(folder, f"kubeadm-{server}", programs.previous(built), page.proxy_mode) as host:
            host.start(images, built / "coredns")
            Operator(host, server, built, tools).run(page)


class Operator:
    """Who runs kubeadm on a host, and changes what it has installed. Each step begins where the one before has ended."""

    def __init__(self, host: KubeadmHost, server: str, built: Path, tools: str) -> None:
        self.host, self.server, self.built, self.tools = host, server, built, tools
        self.control, self.known = host.control, version(built)
        self.deployment = Deployment(host.control, f"{REPOSITORIES[server]}/coredns:{FORMER}")
        #: Names that are answered, and the Corefile as an operator has left it.
        self.names, self.corefile = [SERVICE], ""

    def run(self, page: Page) -> None:
        """Where the cluster does not come up, nothing further is tried."""
        if self.attempt(page, "kubeadm init", self.init):
            for what, step in self.steps().items():
                self.attempt(page, what, step)

    def attempt(self, page: Page, what: str, step: Callable[[], str | tuple[Loss, str]]) -> bool:
        """Adds what came of a step to the page; whether it went as it should."""
        found: str | Exception
        try:
            with page.timed(f"{self.server}: {what}"):
                told = step()
            if isinstance(told, str):
                found = told
            else:
                loss, found = told
                page.add_loss(what, self.server, loss)
        except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
            found = error
        page.add_check(what, self.server, found)
        said(f"{self.server}: {what}: {page.rows[what][self.server]}")
        return isinstance(found, str)

    def steps(self) -> dict[str, Callable[[], str | tuple[Loss, str]]]:
        return {
            f"kubeadm upgrade apply, {PREVIOUS} to {VERSION}": self.upgrade,
            f"kubeadm upgrade apply, tag {FORMER} to {self.known}": self.upgrade_image,
            "kubeadm upgrade apply --patches": self.upgrade_patched,
            "kubeadm upgrade apply over a plugin that it does not know": self.upgrade_unknown_plugin,
            f"kubeadm upgrade apply over the tag {COREDNS}": self.upgrade_unknown_version,
            "kubeadm upgrade apply over the other server's image": self.switch,
        }

    # ---- steps ----

    def init(self) -> str:
        """With the image as kubeadm 1.34 would have it."""
        self.host.init(PREVIOUS, self.dns(FORMER))
        self.deployment.settle()
        self.client = Client(self.control, self.host, self.tools)
        return self.state()

    def upgrade(self) -> tuple[Loss, str]:
        """Of the control plane, and of kubelet after it. The Corefile has been changed."""
        self.change_corefile(KNOWN, "www.corp.test")
        self.host.use(self.built)
        loss = self.during_upgrade()
        self.host.restart_kubelet()
        until(lambda: self.kubelet_version() == VERSION, "kubelet's new version", EFFECT)
        return loss, self.state()

    def upgrade_image(self) -> tuple[Loss, str]:
        """The image of the configuration, over a deployment that has been changed."""
        spec = json.dumps({"spec": {"replicas": 3, **probe()}})
        self.control.kubectl("-n", "kube-system", "patch", "deployment", "coredns", "--patch", spec)
        self.deployment.settle()
        self.control.kubectl("patch", "clusterrole", ROLE, "--type=json", "--patch", json.dumps([{"op": "add", "path": "/rules/-", "value": RIGHT}]))
        self.host.upload_configuration(VERSION, self.dns(self.known))
        return self.during_upgrade(), f"{self.state()}; {self.changes()}"

    def upgrade_patched(self) -> tuple[Loss, str]:
        """The readiness probe of the deployment from a file beside kubeadm's manifests."""
        folder = self.host.host.folder / "patches"
        folder.mkdir()
        (folder / "corednsdeployment.json").write_text(json.dumps({"spec": probe()}))
        return self.during_upgrade(f"--patches={folder}"), f"{self.state()}; {self.changes()}"

    def upgrade_unknown_plugin(self) -> str:
        """From the former image, with a plugin in the Corefile that kubeadm does not know."""
        self.change_corefile(UNKNOWN, "any.lab.test")
        self.set_image(self.server, FORMER)
        told = [f"ends by {self.refused()}"]
        self.host.upgrade(VERSION, ignored=CHECKS)
        told.append(f"if ignored: {self.state()}")
        return "; ".join(told)

    def upgrade_unknown_version(self) -> str:
        """Over a version that kubeadm does not know, which an operator has set."""
        self.set_image(self.server, COREDNS)
        told = [f"ends by {self.refused()}", f"if ignored: {self.refused(CHECKS)}"]
        self.host.upgrade(VERSION, "--skip-phases=addon/coredns", ignored=CHECKS)
        told.append(f"with --skip-phases=addon/coredns besides: {self.state()}")
        return "; ".join(told)

    def switch(self) -> str:
        """To the other server, without and with kubeadm's configuration."""
        other = next(name for name in REPOSITORIES if name != self.server)
        self.set_image(other, self.known)
        told = [self.state()]
        self.host.upgrade(VERSION)
        told.append(f"after the upgrade: {self.state()}")
        # The tag is then that of kubeadm's own version.
        self.host.upload_configuration(VERSION, {"imageRepository": REPOSITORIES[other]})
        self.host.upgrade(VERSION)
        told.append(f"with that repository in the configuration: {self.state()}")
        return "; ".join(told)

    # ---- what they are made of ----

    def dns(self, tag: str) -> dict[str, str]:
        return {"imageRepository": REPOSITORIES[self.server], "imageTag": tag}

    def change_corefile(self, block: str, name: str) -> None:
        """Add a server block, until a name in it is answered."""
        self.corefile = self.control.get("-n", "kube-system", "configmap", "coredns")["data"]["Corefile"] + block
        self.control.kubectl("-n", "kube-system", "patch", "configmap", "coredns", "--patch", json.dumps({"data": {"Corefile": self.corefile}}))
        self.names.append(name)
        until(lambda: self.client.asked(name), f"an answer to {name}", EFFECT)

    def set_image(self, server: str, tag: str) -> None:
        self.control.kubectl("-n", "kube-system", "set", "image", "deployment/coredns", f"coredns={REPOSITORIES[server]}/coredns:{tag}")
        self.deployment.settle()

    def during_upgrade(self, *words: str) -> Loss:
        """What a client loses meanwhile."""

        def upgrade() -> float:
            began = time.monotonic()
            self.host.upgrade(VERSION, *words)
            self.deployment.settle()
            return time.monotonic() - began

        return self.client.during(upgrade)

    def refused(self, ignored: Sequence[str] = ()) -> str:
        """What ends an upgrade: names of preflight checks, or an error. Raises AssertionError where nothing does."""
        try:
            self.host.upgrade(VERSION, ignored=ignored)
        except RuntimeError as error:
            return reason(str(error))
        raise AssertionError("the upgrade goes through")

    def state(self) -> str:
        """The image, and whether the Corefile is the one that an operator has left. Raises AssertionError where a client or the node has no answer."""
        self.deployment.settle()
        for name in self.names:
            until(partial(self.answered, name), f"an answer to {name}", EFFECT)
        (image,) = {container["image"] for pod in self.deployment.pods() for container in pod["spec"]["containers"]}
        told = [image]
        data = self.control.get("-n", "kube-system", "configmap", "coredns")["data"]
        if self.corefile:
            told.append("the Corefile is kept" if data == {"Corefile": self.corefile} else f"ConfigMap with {', '.join(data)}")
        return ", ".join(told)

    def changes(self) -> str:
        """What is there of the changes of the deployment and its rights."""
        spec = self.control.get("-n", "kube-system", "deployment", "coredns")["spec"]
        probe = spec["template"]["spec"]["containers"][0]["readinessProbe"]
        rights = "kept" if RIGHT in self.control.get("clusterrole", ROLE)["rules"] else "taken away"
        return f"{spec['replicas']} replicas, readiness asked for every {probe['periodSeconds']} s, the added right {rights}"

    def answered(self, name: str) -> bool:
        """Whether a pod and the node have the same addresses for a name, from the address of the service."""
        reply = self.host.host.run(sys.executable, "-c", ASK, DNS, question(1, name).hex(), check=False).strip()
        return bool(reply) and addresses_of(bytes.fromhex(reply)) == set(self.client.asked(name).split()) != set()

    def kubelet_version(self) -> str:
        return str(self.control.get("node", self.host.host.name)["status"]["nodeInfo"]["kubeletVersion"])


def reason(said: str) -> str:
    """Why kubeadm ends: the names of the preflight checks that failed, or else its error."""
    checks = re.findall(r"\[ERROR (\w+)\]", said)
    return ", ".join(checks) if checks else re.findall(r"(?m)^error: (?:error execution )?(.*)$", said)[-1]


def probe() -> dict[str, object]:
    """Of a deployment's ``spec``: the readiness probe of docs/operating.md."""
    probe = {"periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1}
    return {"template": {"spec": {"containers": [{"name": "coredns", "readinessProbe": probe}]}}}
