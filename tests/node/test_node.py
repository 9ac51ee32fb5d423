"""The command around a real server, in a network namespace of its own, with the kernel's own interface and packet filter."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rdatatype
import pytest

from tests.networks import enter_network
from tests.programs import need
from tests.waiting import LIMIT, REPLY, until

LOCAL = ["169.254.20.10", "10.96.0.10"]
UPSTREAM = "10.96.0.99"
METRICS = "127.0.0.1:9353"

TEMPLATE = """
cluster.local:53 {
    errors
    cache {
        success 9984 30
        denial 9984 5
    }
    bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__
    forward . __PILLAR__CLUSTER__DNS__ {
        force_tcp
    }
    health 169.254.20.10:8080
}
.:53 {
    errors
    bind __PILLAR__LOCAL__DNS__
    template IN A {
        answer "{{ .Name }} 5 IN A 192.0.2.200"
    }
}
"""
CLUSTER = """.:53 {
    bind 10.96.0.99
    hosts {
        192.0.2.1 web.cluster.local
        192.0.2.2 www.acme.local
    }
}
"""


class Namespace:
    """A network namespace, entered by one thread; all that it does and starts is inside."""

    def __init__(self) -> None:
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        try:
            self.do(enter_network)
        except PermissionError:
            pytest.skip("needs root to make a network namespace")
        self.run("ip", "addr", "add", UPSTREAM, "dev", "lo")

    def do(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return self.thread.submit(function, *arguments, **options).result()

    def run(self, *command: str, check: bool = True) -> str:
        done = self.do(subprocess.run, command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0 or not check, done.stderr
        return str(done.stdout)

    def ask(self, name: str, address: str) -> list[str]:
        """The answer's data; empty where none comes soon: nobody may be listening yet, so who calls asks again."""
        try:
            reply = self.do(dns.query.udp, dns.message.make_query(name, "A"), address, timeout=1.0)
        except (OSError, dns.exception.DNSException):
            return []
        return [str(record) for rrset in reply.answer for record in rrset]

    def links(self) -> list[str]:
        return [name for _, name in self.do(socket.if_nameindex)]

    def rules(self, command: str = "iptables") -> list[str]:
        found = [f"{table} {line}" for table in ("raw", "filter") for line in self.run(command, "-w", "-t", table, "-S").splitlines()]
        return sorted(line for line in found if "NodeLocal DNS Cache" in line)

    def errors(self) -> dict[str, int]:
        try:
            page = self.do(lambda: urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=REPLY).read().decode())
        except OSError:
            return {}
        return {kind: int(count) for kind, count in re.findall(r'coredns_nodecache_setup_errors_total{errortype="(\w+)"} (\d+)', page)}


class Node:
    """The command under test and the cluster's DNS server, in a namespace."""

    def __init__(self, space: Namespace, folder: Path) -> None:
        self.space, self.folder = space, folder
        self.corefile, self.pidfile = folder / "Corefile", folder / "node-cache.pid"
        self.template = folder / "base" / "Corefile.base"
        self.template.parent.mkdir()
        self.template.write_text(TEMPLATE)
        self.kube_dns = folder / "kube-dns"
        self.kube_dns.mkdir()
        self.output = folder / "output"
        self.started: list[subprocess.Popen[bytes]] = []

    def start_cluster(self) -> None:
        corefile = self.folder / "Cluster"
        corefile.write_text(CLUSTER)
        self.start([sys.executable, "-m", "fastdns", "-conf", str(corefile)], self.folder / "cluster.log")
        until(lambda: self.space.ask("web.cluster.local", UPSTREAM), "the cluster's answer")

    def start(self, command: list[str], output: Path, **environment: str) -> subprocess.Popen[bytes]:
        with output.open("ab") as out:
            started: subprocess.Popen[bytes] = self.space.do(
                subprocess.Popen, command, stdout=out, stderr=out, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
            )
        self.started.append(started)
        return started

    def run(self, *flags: str, local: str = ",".join(LOCAL), **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fastdns.node", "-localip", local, "-conf", str(self.corefile), "-upstreamsvc", "kube-dns-upstream"]
        command += ["-pidfile", str(self.pidfile), "-basecorefile", str(self.template), "-kubednscm", str(self.kube_dns)]
        command += ["-metrics-listen-address", METRICS, *flags]
        return self.start(command, self.output, **{"KUBE_DNS_UPSTREAM_SERVICE_HOST": UPSTREAM, **environment})

    def log(self) -> str:
        return self.output.read_text()

    def stop(self) -> None:
        for process in reversed(self.started):
            if process.poll() is None:
                process.terminate()
                process.wait(LIMIT)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    need("ip", "iptables", "ip6tables")
    if os.geteuid() != 0:
        pytest.skip("needs root to make a network namespace")
    space = Namespace()
    node = Node(space, tmp_path)
    yield node
    node.stop()
    space.thread.shutdown()


def expected(addresses: list[str]) -> list[str]:
    """The rules as `iptables -S` tells them."""
    skip = '-m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK'
    allow = '-m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT'
    rules = []
    for address in addresses:
        prefix = f"{address}/128" if ":" in address else f"{address}/32"
        for kind in ("tcp", "udp"):
            towards, back = f"-d {prefix} -p {kind} -m {kind} --dport 53", f"-s {prefix} -p {kind} -m {kind} --sport 53"
            rules += [f"raw -A PREROUTING {towards} {skip}", f"raw -A OUTPUT {towards} {skip}", f"raw -A OUTPUT {back} {skip}"]
            rules += [f"filter -A INPUT {towards} {allow}", f"filter -A OUTPUT {back} {allow}"]
        rules += [f"raw -A OUTPUT -d {prefix} -p tcp -m tcp --dport 8080 {skip}", f"raw -A OUTPUT -s {prefix} -p tcp -m tcp --sport 8080 {skip}"]
    return sorted(rules)


def test_whole_life(node: Node) -> None:
    """Serves on both addresses, puts back what others remove, follows the ConfigMap, and leaves nothing behind."""
    space = node.space
    node.start_cluster()
    process = node.run("-syncinterval", "1", "-reloadwithsignal")
    for address in LOCAL:
        until(lambda address=address: space.ask("web.cluster.local", address) == ["192.0.2.1"], f"an answer of {address}")
        assert space.ask("elsewhere.example", address) == ["192.0.2.200"]
    until(lambda: space.rules() == expected(LOCAL), "all rules")
    assert space.do(lambda: urllib.request.urlopen("http://169.254.20.10:8080/health", timeout=REPLY).read()) == b"OK"
    # The packets do go through the rules.
    space.run("iptables", "-w", "-t", "raw", "-Z")
    until(lambda: space.ask("web.cluster.local", LOCAL[0]), "an answer")
    counted = re.findall(r"-p udp .*-c (\d+)", space.run("iptables", "-w", "-t", "raw", "-v", "-S", "OUTPUT"))
    assert sum(map(int, counted)) >= 2

    # What somebody else removes comes back.
    space.run("iptables", "-w", "-t", "raw", "-F")
    space.run("iptables", "-w", "-D", "INPUT", "1")
    until(lambda: space.rules() == expected(LOCAL), "the rules again")
    space.run("ip", "link", "del", "nodelocaldns")
    until(lambda: space.ask("web.cluster.local", LOCAL[1]) == ["192.0.2.1"], "the interface again")

    # The ConfigMap kube-dns, first with nonsense.
    (node.kube_dns / "stubDomains").write_text("{")
    until(lambda: space.errors().get("configmap") == 1, "the count of a configuration that is none")
    (node.kube_dns / "stubDomains").write_text(json.dumps({"acme.local": [UPSTREAM]}))
    until(lambda: space.ask("www.acme.local", LOCAL[0]) == ["192.0.2.2"], "the stub domain")
    assert space.errors() == {"configmap": 1, "interface_add": 0, "interface_check": 0, "iptables": 0, "iptables_lock": 0}

    process.terminate()
    assert process.wait(LIMIT) == 0
    assert space.rules() == []
    assert "nodelocaldns" not in space.links()
    assert not node.pidfile.exists()


def test_dead_server_gives_the_addresses_back(node: Node) -> None:
    process = node.run()
    until(lambda: len(node.space.rules()) == 24, "all rules")
    os.kill(int(node.pidfile.read_text()), signal.SIGKILL)
    assert process.wait(LIMIT) == 128 + signal.SIGKILL
    assert node.space.rules() == []
    assert "nodelocaldns" not in node.space.links()


def test_broken_corefile_ends_it(node: Node) -> None:
    """Without rules ever: queries go to the cluster."""
    node.template.write_text(".:53 {\n    nonsense\n}\n")
    assert node.run().wait(LIMIT) == 1
    assert "nonsense" in node.log()
    assert "Added back nodelocaldns rule" not in node.log()
    assert "nodelocaldns" not in node.space.links()


def test_ipv6(node: Node) -> None:
    node.template.write_text(TEMPLATE.replace("169.254.20.10:8080", "[fd00::10]:8080"))
    process = node.run("-interfacename", "dns6", local="fd00::10")
    until(lambda: node.space.rules("ip6tables") == expected(["fd00::10"]), "the rules")
    until(lambda: node.space.ask("elsewhere.example", "fd00::10") == ["192.0.2.200"], "an answer")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert node.space.rules("ip6tables") == []
    assert "dns6" not in node.space.links()


@pytest.mark.parametrize(
    ("flags", "during", "after"),
    [
        (["-skipteardown"], (True, True), (True, True)),
        (["-setupiptables=false"], (True, False), (False, False)),
        (["-setupinterface=false"], (False, True), (False, False)),
    ],
)
def test_switches(node: Node, flags: list[str], during: tuple[bool, bool], after: tuple[bool, bool]) -> None:
    """Whether there is an interface, and whether there are rules."""
    space = node.space

    def state() -> tuple[bool, bool]:
        return "nodelocaldns" in space.links(), space.rules() == expected(LOCAL)

    if "-setupinterface=false" in flags:
        for address in LOCAL:
            space.run("ip", "addr", "add", address, "dev", "lo")
    process = node.run(*flags)
    until(lambda: space.ask("elsewhere.example", LOCAL[0]), "an answer")
    until(lambda: state() == during, "the set-up")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert state() == after


def test_errors_are_counted(node: Node) -> None:
    """Without the iptables command it serves all the same; a template that is gone changes nothing."""
    node.run("-syncinterval", "1", PATH="/nowhere")
    until(lambda: node.space.errors().get("iptables", 0) >= 24, "the count")
    until(lambda: node.space.ask("elsewhere.example", LOCAL[0]) == ["192.0.2.200"], "an answer")
    node.template.unlink()
    until(lambda: node.space.errors()["configmap"] == 1, "the count")
    until(lambda: node.space.ask("elsewhere.example", LOCAL[0]) == ["192.0.2.200"], "an answer")


def test_rules_without_a_pidfile_come_after_the_interval(node: Node) -> None:
    node.run("-pidfile", "", "-syncinterval", "1")
    until(lambda: node.space.rules() == expected(LOCAL), "the rules")
