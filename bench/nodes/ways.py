"""Four ways of answering a cluster's names on a node, with the Corefiles that each project ships, reduced to the cluster's zone."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from fastdns.bench import measure
from fastdns.bench.servers import Adapter, Listen, Running, Work
from fastdns.bench.servers.corefiles import CoreDNS, Corefile, Fastdns
from fastdns.bench.servers.ports import free_port

__all__ = ["CENTRES", "NodeLocal", "Way", "centre_adapter", "kill", "ways"]

#: Of transfers. It protects nothing here: all that is transferred is made up.
KEY = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="

#: kubeadm's, which CoreDNS has as the cluster's DNS and as a DaemonSet.
COREDNS = """.:{port} {
    {bind}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        endpoint URL
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl TTL
    }
    prometheus 127.0.0.1:{http}
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    reload
    loadbalance
}
"""
#: The same with what replicas need (deploy/kustomize/overlays/replicas).
CENTRE = COREDNS.replace(
    "    kubernetes ",
    f"""    tsig objects.cluster.local {{
        secret replicas. {KEY}
        require AXFR IXFR
    }}
    transfer objects.cluster.local {{
        to *
    }}
    kubernetes """,
).replace("        pods insecure\n", "        objects objects.cluster.local\n        pods insecure\n")
#: NodeLocal DNSCache's, and that of deploy/node-local.
CACHE = """cluster.local:{port} {
    errors
    cache {
        success 9984 30
        denial 9984 5
    }
    reload
    bind 127.0.0.1
    forward . 127.0.0.1:CENTRE {
        force_tcp
    }
    prometheus 127.0.0.1:{http}
}
"""
#: That of deploy/node-replica.
REPLICA = f"""cluster.local:{{port}} in-addr.arpa:{{port}} ip6.arpa:{{port}} {{
    errors
    reload
    bind 127.0.0.1
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        replica objects.cluster.local
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl TTL
        startup_timeout 30s
    }}
    forward . 127.0.0.1:CENTRE {{
        force_tcp
    }}
    prometheus 127.0.0.1:{{http}}
}}
objects.cluster.local:OBJECTS {{
    errors
    bind 127.0.0.1
    secondary {{
        transfer from 127.0.0.1:CENTRE
        key replicas. {KEY}
        store {{dir}}
        stale serve 2s
    }}
    prometheus 127.0.0.1:{{http}}
}}
"""


class NodeLocal(Corefile):
    """``fastdns-node``, and by its path the ``node-cache`` of NodeLocal DNSCache: they have the same flags."""

    name = "fastdns-node"
    program = "fastdns-node"

    def executable(self) -> str:
        beside = Path(sys.executable).with_name("fastdns-node")
        return str(beside) if not self.path and beside.is_file() else super().executable()

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        template = self.write(work, listen, folder).rename(folder / "Corefile.base")
        command = [self.executable(), "-localip", "127.0.0.1", "-conf", str(folder / "Corefile"), "-basecorefile", str(template)]
        command += ["-dns.port", str(listen.port), "-metrics-listen-address", f"127.0.0.1:{free_port()}", "-kubednscm", str(folder / "none")]
        return [*command, "-setupinterface=false", "-setupiptables=false", "-skipteardown"]


@dataclass(frozen=True, slots=True)
class Way:
    """How a node answers."""

    name: str
    #: For tables and pictures.
    title: str
    node: Adapter
    corefile: str
    #: Over the network, for an answer.
    hops: str
    #: A name of ``CENTRES``; empty: the node watches the API server itself.
    centre: str = ""


#: Of caches.
MISS = "0, or 1 where the cache has none"

#: The cluster's DNS: Corefiles by name.
CENTRES = {"coredns": COREDNS, "fastdns": CENTRE}


def ways(coredns: str, node_cache: str) -> list[Way]:
    """Those whose programs are given."""
    found = []
    if coredns and node_cache:
        found.append(Way("nodelocal", "NodeLocal DNSCache, CoreDNS", NodeLocal(node_cache), CACHE, MISS, "coredns"))
    if coredns:
        found.append(Way("coredns", "CoreDNS on every node", CoreDNS(coredns), COREDNS, "0"))
    found.append(Way("cache", "fastdns-node: cache", NodeLocal(), CACHE, MISS, "fastdns"))
    found.append(Way("replica", "fastdns-node: replica", NodeLocal(), REPLICA, "0", "fastdns"))
    return found


def centre_adapter(name: str, coredns: str) -> Adapter:
    return Fastdns() if name == "fastdns" else CoreDNS(coredns)


def kill(running: Running) -> None:
    """Ends it and all that descend from it, at once."""
    for pid in list(measure.family(running.pid)):
        os.kill(pid, signal.SIGKILL)
    running.process.wait()
