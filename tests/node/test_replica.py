"""The server of a node as a replica of the cluster's DNS (`kubernetes-mode`), in a network namespace of its own."""

from __future__ import annotations

import subprocess
import sys

import dns.message
import dns.query
import dns.rcode
import yaml

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.deploy.conftest import DEPLOY
from tests.node.nodes import LOCAL, UPSTREAM, Node
from tests.plugins.kubernetes.objects import manifest, namespace, service
from tests.waiting import LIMIT, until

SECRET = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
CENTRE = """.:53 {
    bind 10.96.0.99
    tsig objects.cluster.local {
        secret replicas. SECRET
        require AXFR IXFR
    }
    transfer objects.cluster.local {
        to *
    }
    kubernetes cluster.local in-addr.arpa {
        manifests FOLDER/objects.jsonl
        objects objects.cluster.local
    }
    hosts {
        192.0.2.1 outside.example
        fallthrough
    }
}
"""


def replica_template() -> str:
    """The Corefile that is shipped, with what kustomize and sed replace."""
    (document,) = yaml.safe_load_all((DEPLOY / "node-replica" / "configmap.yaml").read_text())
    text: str = document["data"]["Corefile.replica"]
    for pillar, value in (("DNS__DOMAIN", "cluster.local"), ("LOCAL__DNS", "169.254.20.10"), ("DNS__SERVER", "10.96.0.10"), ("UPSTREAM__SERVERS", UPSTREAM)):
        text = text.replace(f"__PILLAR__{pillar}__", value)
    return text.replace("    loop\n", "")


def write_objects(node: Node, **services: str) -> None:
    new = node.folder / ".objects"
    new.write_text(manifest((Kind.NAMESPACE, [namespace("shop")]), (Kind.SERVICE, [service(f"shop/{name}", address) for name, address in services.items()])))
    new.rename(node.folder / "objects.jsonl")


def start_centre(node: Node) -> subprocess.Popen[bytes]:
    corefile = node.folder / "Cluster"
    corefile.write_text(CENTRE.replace("SECRET", SECRET).replace("FOLDER", str(node.folder)))
    process = node.start([sys.executable, "-m", "fastdns", "-conf", str(corefile)], node.folder / "cluster.log")
    until(lambda: node.space.ask("web.shop.svc.cluster.local", UPSTREAM), "the cluster's answer")
    return process


def test_replica(node: Node) -> None:
    """A key of the ConfigMap turns the cache into a replica, which goes on without the cluster's DNS, also over a restart; and back."""
    space = node.space
    write_objects(node, web="10.96.1.1")
    centre = start_centre(node)
    store = node.folder / "store"
    store.mkdir()
    (node.template.parent / "Corefile.replica").write_text(replica_template().replace("/var/lib/fastdns", str(store)))
    process = node.run("-syncinterval", "1", "-reloadwithsignal", FASTDNS_REPLICA_KEY=SECRET)
    until(lambda: space.ask("web.shop.svc.cluster.local", LOCAL[0]) == ["10.96.1.1"], "an answer of the cache")
    mode = node.template.parent / "kubernetes-mode"
    mode.write_text("neither\n")
    until(lambda: space.errors().get("configmap") == 1, "the count of a mode that is none")
    mode.write_text("replica\n")
    until(lambda: (store / "db.objects.cluster.local").exists(), "the objects on disk")
    # A cache would keep the name's absence for 5 s, and then ask.
    assert space.ask("new.shop.svc.cluster.local", LOCAL[0]) == []
    write_objects(node, web="10.96.1.1", new="10.96.1.2")
    until(lambda: space.ask("new.shop.svc.cluster.local", LOCAL[0]) == ["10.96.1.2"], "a new service")
    assert space.ask("outside.example", LOCAL[0]) == ["192.0.2.1"]
    # Pods get no objects: neither from the node nor, without the key, from the cluster's DNS.
    for address, rcode in ((LOCAL[0], dns.rcode.NOTAUTH), (UPSTREAM, dns.rcode.REFUSED)):
        reply = space.do(dns.query.tcp, dns.message.make_query("objects.cluster.local", "AXFR"), address, timeout=LIMIT)
        assert (reply.rcode() in (rcode, dns.rcode.REFUSED), reply.answer) == (True, [])

    centre.terminate()
    centre.wait(LIMIT)
    process.terminate()
    assert process.wait(LIMIT) == 0
    process = node.run("-syncinterval", "1", "-reloadwithsignal", FASTDNS_REPLICA_KEY=SECRET)
    until(lambda: space.ask("new.shop.svc.cluster.local", LOCAL[1]) == ["10.96.1.2"], "an answer from disk")

    start_centre(node)
    mode.write_text("cache\n")
    until(lambda: "secondary" not in node.corefile.read_text(), "the Corefile of the cache")
    until(lambda: space.ask("web.shop.svc.cluster.local", LOCAL[0]) == ["10.96.1.1"], "an answer of the cache")
    process.terminate()
    assert process.wait(LIMIT) == 0
