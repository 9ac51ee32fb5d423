"""Pods of ``fastdns-node`` on one node, and a load that is there while something happens to them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from tests import load
from tests.node import nodes
from tests.node.memory import Memory
from tests.node.nodes import LOCAL, Node, expected
from tests.waiting import LIMIT, until

RATE = 5000
#: Queries that a server has taken from its socket, and not answered, when it is killed: a batch of each worker.
IN_HAND = 32
#: Most queries without an answer: fewer than a socket holds, also where a server takes longer to start than clients wait.
WINDOW = 20_000
#: Seconds in which the load is sent before and after what happens.
AROUND = 1.0
NAME = "some.example."
#: A template answers: a new server has nothing in its cache. The load takes answers of network 10 for right, and their last octets for a version.
TEMPLATE = nodes.TEMPLATE.replace("192.0.2.200", "10.0.0.1")


class Load:
    """RATE queries a second until `end`. Each answer is checked, and each query is waited for."""

    def __init__(self, node: Node) -> None:
        start = partial(node.space.do, subprocess.Popen)
        self.load = load.Load(53, RATE, 600, NAME, WINDOW, host=LOCAL[0], start=start)
        node.started.append(self.load.process)
        time.sleep(AROUND)

    def end(self) -> int:
        """How many queries were lost."""
        time.sleep(AROUND)
        found = self.load.result()
        assert found["sent"] >= RATE, found
        assert found["wrong"] == found["drops"] == 0, found
        lost: int = found["lost"]
        return lost


class Pod:
    """A container of `fastdns-node`, which may be started again in its files."""

    def __init__(self, node: Node, name: str, template: str = TEMPLATE, local: Sequence[str] = LOCAL, memory: Memory | None = None) -> None:
        self.node, self.name, self.local, self.memory = node, name, local, memory
        self.folder = node.folder / name
        self.folder.mkdir()
        self.template = self.folder / "Corefile.base"
        self.template.write_text(template)
        self.pidfile = self.folder / "pid"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "fastdns.node", "-localip", ",".join(self.local), "-handover", str(self.node.folder / "run"), "-workers", "1"]
        command += ["-conf", str(self.folder / "Corefile"), "-pidfile", str(self.pidfile), "-basecorefile", str(self.template)]
        command += ["-upstreamsvc", "kube-dns-upstream", "-metrics-listen-address", "127.0.0.1:9353", "-reloadwithsignal"]
        command += ["-syncinterval", "1h"]
        if self.memory is not None:
            command = self.memory.command(command)
        self.process = self.node.start(command, self.folder / "log", KUBE_DNS_UPSTREAM_SERVICE_HOST="10.96.0.99")

    def serves(self, former: int = 0) -> int:
        """Wait until a server serves that is another than the former one; its process id."""

        def pid() -> int:
            with suppress(OSError, ValueError):
                found = int(self.pidfile.read_text())
                return found if found != former else 0
            return 0

        return until(pid, f"the server of pod {self.name}")

    def change(self, template: str) -> None:
        """At once, as the kubelet does it."""
        new = self.folder / "new"
        new.write_text(template)
        new.rename(self.template)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def said(self, text: str) -> None:
        until(lambda: text in self.log(), text)

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(LIMIT) == 0, self.log()


def whole(node: Node) -> bool:
    """Interface and rules are there."""
    return node.space.rules() == expected(LOCAL) and "nodelocaldns" in node.space.links()


def nothing_is_left(node: Node) -> bool:
    return node.space.rules() == [] and "nodelocaldns" not in node.space.links()
