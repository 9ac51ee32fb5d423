"""A cluster's objects as a zone (`objects`), and servers that have them from there in place of an API server (`replica`)."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.edns
import dns.message
import dns.query
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone import objects
from fastdns.plugins.kubernetes.zone.changes import Changes
from tests.certificates import write_certificates
from tests.conformance.kube_api import KubeAPI
from tests.plugins.kubernetes.objects import Object, give_events, give_list, manifest, namespace, pod, service, service_import, slice_of
from tests.plugins.kubernetes.test_journal import Replica
from tests.plugins.kubernetes.test_settings import read
from tests.plugins.kubernetes.test_store import Model, contents
from tests.plugins.kubernetes.test_topology import client, placed
from tests.plugins.secondary.primary import Primary
from tests.server import Server, free_port
from tests.waiting import REPLY, until

Serve = Callable[..., Server]
STALE_ANSWER = 3

#: Wire form of the zone.
ZONE = b"\x07objects\x00"
EVERYTHING = sum(1 << kind for kind in Kind)

CENTRE = """
cluster.local:{port} clusterset.test:{port} objects.test:{port} in-addr.arpa:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    transfer {
        to * PEER
    }
    kubernetes cluster.local clusterset.test in-addr.arpa {
        manifests {dir}/objects.jsonl
        objects objects.test EXTRAS
        MORE
    }
}
"""
NODE = """
cluster.local:{port} clusterset.test:{port} in-addr.arpa:{port} {
    bind 127.0.0.1
    transfer {
        to *
    }
    kubernetes cluster.local clusterset.test in-addr.arpa {
        replica objects.test
        startup_timeout 100ms
        MORE
    }
}
objects.test:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    secondary {
        transfer from FROM
        SECONDARY
    }
}
"""


# ---- the zone ----


@pytest.mark.parametrize("seed", range(12))
def test_the_objects_come_back(seed: int) -> None:
    """Who has the first version and then the changes has the objects, but for their resource versions, whatever happens."""
    model, store, copy = Model(seed), Store(), Store()
    model.fill(store, copy)
    options: dict[str, object] = {"kinds": EVERYTHING, "pods": "verified", "multicluster": ["cluster.local."], "objects": "objects."}
    handler = Kubernetes("kubernetes", store, ["cluster.local.", "objects."], "cluster.local.", **options)  # type: ignore[arg-type]
    changes = Changes(handler, ZONE)
    replica = Replica(changes)
    for _ in range(30):
        for _ in range(model.random.randrange(8)):
            model.change(store, relist=0.1)
        replica.follow()
        for kind in Kind:
            objects.begin(copy, kind)
        for owner in {row[0] for row in replica.rows if row[0] != ZONE and row[1] == objects.TYPE_OBJECT}:
            (head, *rest) = sorted((row[3] for row in replica.rows if row[0] == owner), key=lambda rdata: rdata[1])
            objects.upsert(copy, head[0], head[2:] + b"".join(part[2:] for part in rest))
        for kind in Kind:
            objects.commit(copy, kind)
        assert shown(copy) == shown(store)
    changes.close()


def shown(store: Store) -> dict[Kind, object]:
    """What a store has. Endpoints in any order, and each once: an RRset is a set, and EndpointSlices are written so."""
    return {kind: {key: plain(seen) for key, seen in of_kind.items()} for kind, of_kind in contents(store).items()}


def plain(seen: dict[str, object]) -> dict[str, object]:
    return {
        key: sorted(set(map(repr, value))) if key in ("endpoints", "places") and isinstance(value, list) else value
        for key, value in seen.items()
        if key != "version"
    }


def test_pods_that_come_and_go_between_two_versions_leave_no_difference() -> None:
    store = Store()
    for kind in Kind:
        give_list(store, kind)
    handler = Kubernetes(
        "kubernetes",
        store,
        ["cluster.local.", "objects."],
        "cluster.local.",
        kinds=EVERYTHING,
        pods="verified",
        objects="objects.",
        extras=objects.EXTRA_PLACES,
    )
    changes = Changes(handler, ZONE)
    changes.advance()
    first, second = pod("ns/a", "10.0.0.1"), pod("ns/a", "10.0.0.2")
    give_events(store, Kind.POD, ("ADDED", first), ("MODIFIED", second), ("MODIFIED", pod("ns/a", "10.0.0.1")), ("MODIFIED", pod("ns/a", "10.0.0.2")))
    deleted, added = changes.advance()[0] or ([], [])
    assert (deleted, len(added)) == ([], 1)
    give_events(store, Kind.POD, ("MODIFIED", pod("ns/a", "10.0.0.1")), ("MODIFIED", pod("ns/a", "10.0.0.2")))
    assert changes.advance()[0] == ([], [])
    give_events(store, Kind.POD, ("DELETED", pod("ns/a", "10.0.0.2")))
    assert changes.advance()[0] == (added, [])
    changes.close()


# ---- servers ----


class Files:
    """Objects in a file that a server reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[Kind, dict[str, Object]] = {kind: {} for kind in Kind}
        self.put(Kind.NAMESPACE, namespace("shop"), write=False)
        self.put(Kind.SERVICE, service("shop/web", "10.96.0.1"), service("shop/db", "None"), write=False)
        self.put(Kind.SLICE, slice_of("shop/db-1", "db", "172.0.0.1;a", "172.0.0.2;b"))

    def put(self, kind: Kind, *items: Object, write: bool = True) -> None:
        for item in items:
            data = item["metadata"]
            self.objects[kind][f"{data.get('namespace', '')}/{data['name']}"] = item
        if write:
            self.write()

    def remove(self, kind: Kind, name: str) -> None:
        del self.objects[kind][name]
        self.write()

    def write(self) -> None:
        new = self.folder / ".objects"
        new.write_text(manifest(*((kind, items.values()) for kind, items in self.objects.items())))
        new.rename(self.folder / "objects.jsonl")


def centre_text(more: str = "", extras: str = "", peer: str = "") -> str:
    return CENTRE.replace("MORE", more).replace("EXTRAS", extras).replace(" PEER", f" {peer}" if peer else "")


def node_text(centre: str, more: str = "", secondary: str = "") -> str:
    return NODE.replace("FROM", centre).replace("MORE", more).replace("SECONDARY", secondary)


@pytest.fixture
def pair(serve: Serve) -> Callable[..., tuple[Server, Server, Files]]:
    """``pair(more, extras, secondary)`` starts a server and its replica, which is notified of changes."""

    def make(more: str = "", extras: str = "", secondary: str = "") -> tuple[Server, Server, Files]:
        made: list[Files] = []
        centre = serve(centre_text(more, extras), prepare=lambda folder: made.append(Files(folder)))
        node = serve(node_text(f"127.0.0.1:{centre.port}", more, secondary))
        node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
        centre.reload(centre_text(more, extras, f"127.0.0.1:{node.port}"))
        return centre, node, made[0]

    return make


def whole(server: Server) -> list[str]:
    """The records of cluster.local but for those of the version."""
    found = [
        line
        for message in dns.query.xfr("127.0.0.1", "cluster.local.", port=server.port, relativize=False, lifetime=20)
        for rrset in message.answer
        for line in rrset.to_text().splitlines()
    ]
    return sorted(line for line in found if line.split()[3] not in ("SOA", "ZONEMD"))


def test_a_replica_has_each_change(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    centre, node, files = pair("pods verified")
    assert node.answers("db.shop.svc.cluster.local.") == ["172.0.0.1", "172.0.0.2"]
    assert node.answers("1.0.96.10.in-addr.arpa.", "PTR") == ["web.shop.svc.cluster.local."]
    files.put(Kind.SERVICE, service("shop/new", "10.96.0.2"))
    node.until("new.shop.svc.cluster.local.", "A", ["10.96.0.2"])
    files.put(Kind.SLICE, slice_of("shop/db-1", "db", "172.0.0.2;b", "172.0.0.3;c"))
    node.until("db.shop.svc.cluster.local.", "A", ["172.0.0.2", "172.0.0.3"])
    files.put(Kind.POD, pod("shop/p", "172.0.0.9"))
    node.until("172-0-0-9.shop.pod.cluster.local.", "A", ["172.0.0.9"])
    files.put(Kind.NAMESPACE, namespace("later"))
    files.put(Kind.SERVICE, service("later/web", "10.96.0.3"))
    node.until("web.later.svc.cluster.local.", "A", ["10.96.0.3"])
    files.remove(Kind.SERVICE, "shop/new")
    node.until("new.shop.svc.cluster.local.", "A", ["NXDOMAIN"])
    files.remove(Kind.POD, "shop/p")
    node.until("172-0-0-9.shop.pod.cluster.local.", "A", ["NXDOMAIN"])
    files.remove(Kind.NAMESPACE, "/later")
    node.until("web.later.svc.cluster.local.", "A", ["NXDOMAIN"])
    sample = 'fastdns_transfer_transfers_total{kind="difference",zone="objects.test."}'
    assert centre.metric(centre.ports["port2"], sample) >= 5
    assert whole(centre) == whole(node)


def test_random_changes(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    """The zone that clients see is the same on both, whatever happens."""
    centre, node, files = pair()
    model, chance = Model(7), random.Random(7)
    for number in range(25):
        for _ in range(chance.randrange(1, 20)):
            kind = chance.choice([Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE])
            model.event(kind)
        for kind in (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE):
            files.objects[kind] = dict(model.standing[kind])
        files.put(Kind.NAMESPACE, namespace("last"), write=False)
        files.put(Kind.SERVICE, service("last/marker", f"10.97.0.{number}"))
        for server in (centre, node):
            server.until("marker.last.svc.cluster.local.", "A", [f"10.97.0.{number}"])
        until(lambda: whole(node) == whole(centre), "the same records")


def test_imports(serve: Serve) -> None:
    """Names of other clusters are there too, and a replica that wants what its server does not watch is not ready, and says so."""
    made: list[Files] = []
    more = "multicluster clusterset.test"
    centre = serve(centre_text(more), prepare=lambda folder: made.append(Files(folder)))
    made[0].put(Kind.IMPORT, service_import("shop/far", "10.7.0.1"))
    centre.until("far.shop.svc.clusterset.test.", "A", ["10.7.0.1"])
    node = serve(node_text(f"127.0.0.1:{centre.port}", more))
    node.until("far.shop.svc.clusterset.test.", "A", ["10.7.0.1"])
    other = serve(centre_text(), prepare=lambda folder: Files(folder) and None)
    poor = serve(node_text(f"127.0.0.1:{other.port}", more))
    poor.wait_log("objects.test. has no import import_slice: the server that it is from does not watch them")


def test_topology_and_labels_come_where_they_are_asked_for(serve: Serve) -> None:
    made: list[Files] = []
    more = "pods verified\n topology zone"

    def prepare(folder: Path) -> None:
        made.append(Files(folder))
        made[0].put(Kind.POD, client("client", "127.0.0.1", "n1"), write=False)
        made[0].put(Kind.SLICE, placed("shop/db-1", "db", "172.0.0.1 n1 a", "172.0.0.2 n2 b"))

    centre = serve(centre_text("pods verified", "topology labels"), prepare=prepare)
    node = serve(node_text(f"127.0.0.1:{centre.port}", more))
    node.until("db.shop.svc.cluster.local.", "A", ["172.0.0.1"])
    assert centre.answers("db.shop.svc.cluster.local.") == ["172.0.0.1", "172.0.0.2"]
    without = serve(centre_text("pods verified"), prepare=prepare)
    poor = serve(node_text(f"127.0.0.1:{without.port}", more))
    poor.wait_log("objects.test. has no topology: the server that it is from has to name it behind `objects`")


def test_names_below_the_zone_of_objects_tell_nothing(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    """Its records are for who may transfer it."""
    centre, _, _ = pair()
    reply = dns.query.tcp(dns.message.make_query("objects.test.", "TYPE65281"), "127.0.0.1", port=centre.port, timeout=20)
    assert not reply.answer
    assert len(list(dns.query.xfr("127.0.0.1", "objects.test.", port=centre.port, lifetime=20))) == 1
    centre.reload(centre_text().replace("to *", "to 127.0.0.9"))
    reply = dns.query.tcp(dns.message.make_query("objects.test.", "AXFR"), "127.0.0.1", port=centre.port, timeout=20)
    assert reply.rcode() == dns.rcode.REFUSED


# ---- without the centre ----


def test_a_restart_answers_from_disk(serve: Serve, tmp_path: Path) -> None:
    centre = serve(centre_text(), prepare=lambda folder: Files(folder) and None)
    text = node_text(f"127.0.0.1:{centre.port}", secondary=f"store {tmp_path}")
    node = serve(text)
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
    until(lambda: any(tmp_path.iterdir()), "the zone on disk")
    centre.stop()
    node.stop()
    again = serve(text)
    assert again.answers("web.shop.svc.cluster.local.") == ["10.96.0.1"]
    assert again.answers("nothing.shop.svc.cluster.local.") == ["NXDOMAIN"]


def nameless_files(server: Server, folder: Path) -> int:
    """Files of the folder that a server has open and that have no name."""
    links = [os.readlink(f"/proc/{server.pid}/fd/{number}") for number in os.listdir(f"/proc/{server.pid}/fd")]
    return sum(link.startswith(f"{folder}/") and link.endswith(" (deleted)") for link in links)


def test_the_zone_of_a_large_cluster_is_on_disk(serve: Serve, tmp_path: Path) -> None:
    """Its records are in a nameless file, which changes, transfers and the zone's own file are made from."""
    made: list[Files] = []
    store = tmp_path / "store"
    store.mkdir()
    slices = [slice_of(f"shop/s{i}-1", f"s{i}", *(f"10.{i}.{k // 250}.{k % 250};{'e' * 40}{k}" for k in range(1000))) for i in range(20)]

    def prepare(folder: Path) -> None:
        made.append(Files(folder))
        made[0].put(Kind.SERVICE, *(service(f"shop/s{i}", "None") for i in range(20)), write=False)
        made[0].put(Kind.SLICE, *slices)

    centre = serve(centre_text(), prepare=prepare)
    node = serve(node_text(f"127.0.0.1:{centre.port}", secondary=f"store {store}"))
    centre.reload(centre_text(peer=f"127.0.0.1:{node.port}"))
    last, first = "19.0.10.10.in-addr.arpa.", "0.0.10.10.in-addr.arpa."
    node.until(last, "PTR", [f"{'e' * 40}19.s10.shop.svc.cluster.local."])
    assert nameless_files(node, store) == 1
    moved = slice_of("shop/s10-1", "s10", *(f"10.10.{k // 250}.{k % 250};{'e' * 40}{k}" for k in range(1, 1000)))
    files = made[0]
    files.put(Kind.SLICE, moved)
    node.until(first, "PTR", ["NXDOMAIN"])
    assert centre.metric(centre.ports["port2"], 'fastdns_transfer_transfers_total{kind="difference",zone="objects.test."}') >= 1
    assert whole(node) == whole(centre)
    until(lambda: os.listdir(store) == ["db.objects.test"], "the zone on disk")


def errors(server: Server) -> list[int]:
    """EDE codes of an answer."""
    reply = server.query("web.shop.svc.cluster.local.", use_edns=0)
    assert reply.rcode() == dns.rcode.NOERROR, dns.rcode.to_text(reply.rcode())
    return [int(option.code) for option in reply.options if isinstance(option, dns.edns.EDEOption)]


def test_stale_answers_say_so(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    centre, node, _ = pair(secondary="stale serve 2s")
    assert errors(node) == []
    centre.signal(signal.SIGSTOP)
    until(lambda: errors(node) == [STALE_ANSWER], "a stale answer")
    centre.signal(signal.SIGCONT)
    until(lambda: errors(node) == [], "a confirmed one")


def test_stale_answers_may_fail(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    centre, node, files = pair(secondary="stale fail 2s")
    centre.stop()
    node.until("web.shop.svc.cluster.local.", "A", ["SERVFAIL"])
    assert files.objects


def test_the_age_of_the_cluster_comes_along(serve: Serve, fakekube: Callable[..., KubeAPI]) -> None:
    """The centre answers, but its watches are away: the replica is as old as they are."""
    api = fakekube(["ns shop", "svc shop/web 10.96.0.1"])
    centre = serve(centre_text().replace("manifests {dir}/objects.jsonl", f"endpoint {api.url}"))
    node = serve(node_text(f"127.0.0.1:{centre.port}", secondary="stale serve 2s"))
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
    until(lambda: errors(node) == [], "a fresh cluster")
    api.set_down("close")
    until(lambda: errors(node) == [STALE_ANSWER], "a stale cluster")
    api.set_down(False)
    until(lambda: errors(node) == [], "watches again")


# ---- reloads ----


def test_a_reload_keeps_the_objects(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    centre, node, files = pair()
    text = node_text(f"127.0.0.1:{centre.port}")
    centre.stop()
    for more in ("ttl 20", "ttl 30", "pods insecure"):
        node.reload(text.replace("startup_timeout", f"{more}\n startup_timeout"))
        assert node.answers("web.shop.svc.cluster.local.") == ["10.96.0.1"]
    assert files.objects


def test_another_secondary_block_takes_over(serve: Serve) -> None:
    """The zone comes from another server, with other objects; what is gone there is gone."""
    made: list[Files] = []
    centres = [serve(centre_text(), prepare=lambda folder: made.append(Files(folder))) for _ in range(2)]
    made[1].remove(Kind.SERVICE, "shop/web")
    made[1].put(Kind.SERVICE, service("shop/other", "10.96.0.9"))
    centres[1].until("other.shop.svc.cluster.local.", "A", ["10.96.0.9"])
    node = serve(node_text(f"127.0.0.1:{centres[0].port}"))
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
    node.reload(node_text(f"127.0.0.1:{centres[1].port}"))
    node.until("other.shop.svc.cluster.local.", "A", ["10.96.0.9"])
    node.until("web.shop.svc.cluster.local.", "A", ["NXDOMAIN"])


def test_the_objects_stay_when_the_secondary_block_goes(pair: Callable[..., tuple[Server, Server, Files]]) -> None:
    centre, node, files = pair()
    text = node_text(f"127.0.0.1:{centre.port}")
    node.reload(text[: text.index("objects.test:{port}")])
    assert node.answers("web.shop.svc.cluster.local.") == ["10.96.0.1"]
    assert files.objects


def test_without_the_zone_nothing_is_ready(serve: Serve) -> None:
    text = node_text("127.0.0.1:1")
    node = serve(text[: text.index("objects.test:{port}")] + ".:{port} {\n bind 127.0.0.1\n ready 127.0.0.1:{port3}\n}\n")
    node.wait_log("objects.test. is no zone of secondary: nothing is known of the cluster")
    assert node.answers("web.shop.svc.cluster.local.") == ["SERVFAIL"]


# ---- zones that are none of objects ----

HEAD = "@ 60 IN SOA ns hostmaster {serial} 3600 600 86400 60\n@ 60 IN NS ns\n"


def octets(data: bytes) -> str:
    return f"\\# {len(data)} {data.hex()}"


def record(owner: str, data: bytes) -> str:
    return f"{owner} 60 IN TYPE65281 {octets(data)}\n"


def message(name: str, space: str = "", address: str = "") -> bytes:
    """A namespace, or a service with one address, in Kubernetes' protobuf."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    spec = field(1, field(1, b"http") + field(2, b"TCP") + b"\x18\x50") + bytes([18 << 3 & 0x7F | 0x82, 1, len(address)]) + address.encode()
    return field(1, field(1, name.encode()) + (field(3, space.encode()) if space else b"")) + (field(2, spec) if address else b"")


APEX = bytes([objects.FORMAT, 0b111, 0])
GOOD = (
    HEAD.replace("{serial}", "1")
    + record("@", APEX)
    + record("a", bytes([Kind.NAMESPACE, objects.PART_HEAD]) + message("shop"))
    + record("b", bytes([Kind.SERVICE, objects.PART_HEAD]) + message("web", "shop", "10.96.0.1"))
)


@pytest.fixture
def primary() -> Iterator[Primary]:
    one = Primary(GOOD, origin="objects.test.")
    yield one
    one.close()


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("", "is no zone of objects that this version reads"),
        (record("@", bytes([99, 7, 0])), "is no zone of objects that this version reads"),
        (record("@", APEX + b"\0"), "is no zone of objects that this version reads"),
        (record("@", APEX) + record("c", b"\x01"), "an object has no head, or several"),
        (record("@", APEX) + record("c", bytes([Kind.SLICE, objects.PART_ENDPOINT])), "an object has no head, or several"),
        (record("@", APEX) + record("c", bytes([Kind.SERVICE, objects.PART_HEAD]) + b"\xff\xff"), "malformed object"),
    ],
)
def test_a_zone_that_cannot_be_read_leaves_the_objects(serve: Serve, primary: Primary, records: str, said: str) -> None:
    node = serve(node_text(primary.address))
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
    primary.add(HEAD.format(serial=2) + records)
    primary.notify(node.port)
    node.wait_log(said)
    assert node.answers("web.shop.svc.cluster.local.") == ["10.96.0.1"]
    primary.add(GOOD.replace("hostmaster 1", "hostmaster 3").replace(b"10.96.0.1".hex(), b"10.96.0.7".hex()))
    primary.notify(node.port)
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.7"])


# ---- the Corefile ----


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("replica objects.test\n endpoint http://127.0.0.1:1", "replica takes the place of endpoint, kubeconfig and manifests; remove them"),
        ("replica objects.test\n manifests /tmp", "replica takes the place of endpoint, kubeconfig and manifests; remove them"),
        ("replica objects.test\n snapshot /tmp/s", "replica needs no snapshot: secondary has the property store; remove it"),
        ("replica objects.test\n labels a=b", "remove labels and namespace_labels"),
        ("replica 10.0.0.0/8", "replica must be one zone, and no reverse zone"),
        ("replica", "Wrong argument count"),
        ("objects 10.in-addr.arpa", "objects must be one zone, and no reverse zone"),
        ("objects cluster.local", "objects must be a zone of its own: cluster.local."),
        ("objects objects.test pods", "wrong value for objects: pods, must be of: labels topology"),
        ("objects objects.test labels", "objects with labels requires pods verified"),
        ("objects", "Wrong argument count"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=re.escape(error)):
        read("kubernetes cluster.local {\n" + text + "\n}")


# ---- mutual TLS instead of a key ----

SECURE = """
cluster.local:{port} {
    bind 127.0.0.1
    kubernetes {
        endpoint URL
    }
}
tls://cluster.local:TLS tls://objects.test:TLS {
    bind 127.0.0.1
    tls FILES {
        client_auth require_and_verify
    }
    transfer objects.test {
        to *
    }
    kubernetes cluster.local {
        endpoint URL
        objects objects.test
    }
}
"""
SECURE_NODE = """
objects.test:{port} {
    bind 127.0.0.1
    secondary {
        transfer from tls://127.0.0.1:TLS
        tls FILES
        tls_servername server.test
        stale serve 2s
    }
}
cluster.local:{port} {
    bind 127.0.0.1
    kubernetes {
        replica objects.test
    }
}
"""


def test_mutual_tls_alone(serve: Serve, fakekube: Callable[..., KubeAPI], tmp_path: Path) -> None:
    """A server block of its own offers the objects, over TLS alone: who has no certificate gets them nowhere. Both blocks share the watches."""
    folder = write_certificates(tmp_path)
    api = fakekube(["ns ns", "svc ns/web 10.0.0.1"])
    files = " ".join(str(folder / name) for name in ("server.pem", "server.key", "ca.pem"))
    own = " ".join(str(folder / name) for name in ("client.pem", "client.key", "ca.pem"))
    port = free_port()
    centre = serve(SECURE.replace("URL", api.url).replace("TLS", str(port)).replace("FILES", files))
    replica = serve(SECURE_NODE.replace("TLS", str(port)).replace("FILES", own))
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.1"])
    api.apply("svc ns/web 10.0.0.2")
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.2"])
    query = dns.message.make_query("objects.test.", "AXFR")
    assert dns.query.tcp(query, "127.0.0.1", port=centre.port, timeout=REPLY).rcode() == dns.rcode.REFUSED
    with pytest.raises((OSError, EOFError)):
        dns.query.tls(query, "127.0.0.1", port=port, timeout=REPLY, verify=str(folder / "ca.pem"), server_hostname="server.test")
    lists = [request for request in api.requests if "sendInitialEvents" in request]
    assert len(lists) == len(set(re.findall(r"/(\w+)\?", " ".join(lists))))
