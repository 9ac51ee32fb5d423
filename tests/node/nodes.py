"""``fastdns-node`` around a real server, in a network namespace of its own, with the kernel's own interface and packet filter."""

from __future__ import annotations

import concurrent.futures
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rdatatype
import pytest

from tests.networks import enter_network
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

    def page(self) -> str:
        """The page of metrics; empty where none is there yet."""
        try:
            return str(self.do(lambda: urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=REPLY).read().decode()))
        except OSError:
            return ""

    def errors(self) -> dict[str, int]:
        return {kind: int(count) for kind, count in re.findall(r'coredns_nodecache_setup_errors_total{errortype="(\w+)"} (\d+)', self.page())}


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
        self.started: list[subprocess.Popen[Any]] = []

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
