"""Queries of a pod while something happens to the cluster: how many are lost."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.cluster.containerd import Containerd
from tests.cluster.kubectl import Kubectl
from tests.cluster.nodes import DNS
from tests.waiting import REPLY, until

__all__ = ["RATE", "SOCKETS", "Client", "Loss", "addresses", "counted"]

NAMES = ("kubernetes.default.svc.cluster.local A", "kube-dns.kube-system.svc.cluster.local A", "nothing.default.svc.cluster.local A",
         "kube-dns.kube-system.svc.cluster.local AAAA")  # fmt: skip
RATE, SOCKETS = 300, 40
#: Seconds of queries before a change and after it.
AROUND = 5.0
POD = "client"


class Loss(NamedTuple):
    sent: int
    lost: int
    #: Seconds that the change took.
    seconds: float

    @property
    def share(self) -> float:
        return self.lost / self.sent


class Client:
    """A pod with dnsperf and dig. Its node's containerd starts them, so that they do without the API server."""

    def __init__(self, control: Kubectl, node: Containerd, image: str) -> None:
        self.control, self.node = control, node
        self.numbers = itertools.count()
        overrides = {"spec": {"nodeName": node.host.name, "terminationGracePeriodSeconds": 0}}
        words = [f"--image={image}", "--image-pull-policy=IfNotPresent", "--restart=Never", f"--overrides={json.dumps(overrides)}"]
        control.kubectl("run", POD, *words, "--command", "--", "sleep", "infinity")
        control.kubectl("wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=120s", limit=150)
        self.container = control.get("pod", POD)["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        self.run("sh", "-c", 'printf "%s\\n" "$@" > /tmp/queries', "sh", *NAMES)

    def command(self, *words: str) -> list[str]:
        """A command line for the node."""
        return self.node.ctr("tasks", "exec", "--exec-id", f"command-{next(self.numbers)}", self.container, *words)

    def run(self, *words: str, check: bool = True) -> str:
        return self.node.host.run(*self.command(*words), check=check)

    def asked(self, name: str, server: str = DNS) -> str:
        """The addresses of a name."""
        return addresses(self.run("dig", "+short", "+tries=1", "+timeout=1", f"@{server}", name, check=False))

    def during(self, change: Callable[[], float], server: str = DNS) -> Loss:
        """RATE queries a second from SOCKETS sockets, from some seconds before a change until some after it; the change tells its own."""
        load = ["dnsperf", "-s", server, "-d", "/tmp/queries", "-l", "1800", "-Q", str(RATE), "-c", str(SOCKETS), "-t", "2", "-q", "5000"]
        process = subprocess.Popen(self.node.host.entered(*self.command(*load)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/")
        try:
            until(lambda: self.run("pgrep", "dnsperf", check=False), "the start of dnsperf", REPLY)
            time.sleep(AROUND)
            seconds = change()
            time.sleep(AROUND)
        finally:
            # It then prints what it has counted.
            self.run("pkill", "-INT", "dnsperf", check=False)
            output = process.communicate(timeout=60)[0]
        return counted(output, seconds)

    def close(self) -> None:
        self.control.kubectl("delete", "pod", POD)


def addresses(output: str) -> str:
    """What dig found: the lines of its short output but those, behind a semicolon, that say why there is no answer."""
    return "\n".join(line for line in output.splitlines() if not line.startswith(";"))


def counted(output: str, seconds: float) -> Loss:
    """What dnsperf counted. Queries that were under way when it was interrupted were neither answered nor lost."""
    counts = dict(re.findall(r"Queries (\w+):\s*(\d+)", output))
    if "sent" not in counts:
        raise RuntimeError(f"dnsperf does not tell Queries sent: {output[-1000:]}")
    return Loss(int(counts["sent"]), int(counts.get("lost", 0)), seconds)
