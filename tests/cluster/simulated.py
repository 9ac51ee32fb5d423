"""Ten services for each deployment of ten pods, on a real API server without kubelets: kwok says what they would. Both DNS servers are processes.

They see the same writes at the same time, on the host of the control plane, which has no other host beside it, no containers and no images.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.certificates import Certificates
from tests.cluster.churn import LIMIT
from tests.cluster.cluster import clean
from tests.cluster.control_plane import ADDRESS, SERVICES, ControlPlane
from tests.cluster.deployment import kubeadm_manifest
from tests.cluster.hosts import Host, set_address
from tests.cluster.page import Page
from tests.waiting import until

__all__ = ["PROGRAMS", "run", "told"]

ROOT = Path(__file__).resolve().parents[2]
#: Those of `programs` that it needs.
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl", "kubeadm", "kwok", "coredns")
PORTS = {"fastdns": 5301, "coredns": 5302}
COREFILE = """.:%d {
    bind 127.0.0.1
    errors
    ready 127.0.0.1:%d
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
}
"""
CONTROLLERS = ("deployment", "replicaset", "endpointslice", "namespace", "serviceaccount", "serviceaccount-token", "root-ca-certificate-publisher")
#: By default a controller writes 20 objects a second.
RATE = ("--kube-api-qps=2000", "--kube-api-burst=4000")
WORKERS = [f"--concurrent-{kind}-syncs=20" for kind in ("deployment", "replicaset", "service-endpoint")]


class Usage(NamedTuple):
    """Of a process."""

    #: Seconds of CPU.
    cpu: float
    #: Octets.
    memory: int
    peak: int


class Server:
    """A DNS server on the host of the control plane."""

    def __init__(self, control: ControlPlane, name: str, command: Path) -> None:
        self.host, self.name, self.command = control.host, name, command
        self.corefile = self.host.folder / f"{name}.Corefile"
        self.corefile.write_text(COREFILE % (PORTS[name], self.ready_port, control.certificates.conf("super-admin")))

    @property
    def ready_port(self) -> int:
        return PORTS[self.name] + 3000

    def start(self) -> float:
        """Seconds until it is ready."""
        began = time.monotonic()
        self.host.start(self.name, str(self.command), "-conf", str(self.corefile))
        until(self._ready, f"{self.name} ready", LIMIT)
        return time.monotonic() - began

    def restart(self) -> float:
        self.host.stop(self.name)
        return self.start()

    def usage(self) -> Usage:
        process = self.host.programs[self.name]
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        sizes = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        memory, peak = (int(sizes[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return Usage((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), memory, peak)

    def _ready(self) -> bool:
        return self.host.run("curl", "-s", f"http://127.0.0.1:{self.ready_port}/ready", check=False) == "OK"


def run(page: Page, folder: Path, built: Path, deployments: int) -> None:
    """Adds rows to the page. Raises RuntimeError, AssertionError."""
    commands = {"fastdns": ROOT / ".venv/bin/fastdns", "coredns": built / "coredns"}
    if not commands["fastdns"].exists():
        raise RuntimeError(f"{commands['fastdns']} is missing: make build makes it")
    with control_plane(folder, built) as control:
        servers = [Server(control, name, commands[name]) for name in page.servers]
        page.add_check("simulated nodes: `fastdns migrate` of kubeadm's DNS server", "fastdns", migrated(control, commands["fastdns"]))
        for server in servers:
            server.start()
        for what, name in (("while the cluster is made", "fill"), (f"while the pods of {deployments} deployments are replaced", "roll")):
            if name == "roll":
                for server in servers:
                    _add_restart(page, server)
            before = [server.usage() for server in servers]
            found = _step(control, name, deployments, servers)
            for server, first in zip(servers, before, strict=True):
                last = server.usage()
                page.add(f"simulated nodes: CPU {what}, {found['seconds']:.0f} s", server.name, f"{last.cpu - first.cpu:.1f} s")
                page.add(f"simulated nodes: memory after {what[6:]}, and its peak", server.name, f"{last.memory >> 20} MiB, {last.peak >> 20} MiB")
            for server, times in zip(servers, found.get("propagation", ()), strict=False):
                page.add("simulated nodes: from a write to the answers meanwhile, median, p99, longest", server.name, told(times))
        compared = _step(control, "compare", deployments, servers)
        if compared["different"]:
            page.failures.append(f"simulated nodes: {len(compared['different'])} of {compared['names']} services differ: {compared['different'][:5]}")
        page.add("simulated nodes: services whose addresses are the same in all answers", page.servers[0], str(compared["names"] - len(compared["different"])))


@contextlib.contextmanager
def control_plane(folder: Path, built: Path) -> Iterator[ControlPlane]:
    host = Host("control-plane", folder / "control-plane")
    try:
        set_address(host, ADDRESS)
        control = ControlPlane(host, built, Certificates(built / "kubeadm", folder / "certificates", ADDRESS, SERVICES))
        control.start_etcd()
        control.start_apiserver()
        control.bind_administrator()
        names = ",".join(f"{name}-controller" for name in CONTROLLERS)
        control.start_managers("controller-manager", options=[f"--controllers={names}", *RATE, *WORKERS])
        conf = control.certificates.conf("super-admin")
        host.start("kwok", str(built / "kwok"), f"--kubeconfig={conf}", "--manage-all-nodes", f"--node-ip={ADDRESS}", "--cidr=10.128.0.1/9")
        host.start("kubectl-proxy", *control.command("proxy", "--port=8001", conf="super-admin"))
        until(lambda: host.run("curl", "-s", "http://127.0.0.1:8001/readyz", check=False) == "ok", "kubectl's proxy")
        yield control
    finally:
        host.close()
        clean(folder)


def _step(control: ControlPlane, name: str, deployments: int, servers: Sequence[Server]) -> Any:
    ports = [str(PORTS[server.name]) for server in servers]
    words = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.cluster.churn", name, str(deployments), *ports]
    return json.loads(control.host.run(*words, limit=2 * LIMIT))


def _add_restart(page: Page, server: Server) -> None:
    seconds = server.restart()
    usage = server.usage()
    page.add("simulated nodes: ready again in the whole cluster", server.name, f"{seconds:.1f} s, {usage.cpu:.1f} s of CPU, {usage.memory >> 20} MiB")


def migrated(control: ControlPlane, command: Path) -> str | RuntimeError:
    """Nothing may stand against fastdns in place of kubeadm's CoreDNS, which is installed."""
    control.apply(kubeadm_manifest(control))
    report = json.loads(control.host.run(str(command), "migrate", "-json", "-kubeconfig", str(control.certificates.conf("super-admin"))))
    against = [f"{finding['subject']}: {finding['message']}" for finding in report["findings"] if finding["severity"] != "note"]
    return RuntimeError("; ".join(against)) if against else f"{report['workload']}: nothing against it"


def told(times: Sequence[float | None]) -> str:
    """Median, p99 and the longest of seconds; None: it never came."""
    found = sorted(each for each in times if each is not None)
    lost = len(times) - len(found)
    if not found:
        return f"{lost} never"
    told = ", ".join(f"{1000 * each:.0f} ms" for each in (statistics.median(found), found[int(0.99 * (len(found) - 1))], found[-1]))
    return f"{told} of {len(found)}" + (f"; {lost} never" if lost else "")
