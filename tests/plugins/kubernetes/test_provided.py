"""What kubernetes gives to other plugins and to the zone itself: transfers, search paths, name servers, metrics."""

from __future__ import annotations

import threading
import time
from ipaddress import ip_address
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest

from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.system import interfaces
from tests.plugins.kubernetes.objects import Object, alias, give_events, give_list, manifest, namespace, pod, service, service_import, slice_of
from tests.server import Server
from tests.waiting import LIMIT, REPLY


def rows(server: Server, zone: str, **options: object) -> list[str]:
    """The records of a transfer in their order, without class."""
    found = []
    for message in dns.query.xfr("127.0.0.1", zone, port=server.port, relativize=False, lifetime=LIMIT, **options):  # type: ignore[arg-type]
        for rrset in message.answer:
            found += [line.replace(" IN ", " ") for line in rrset.to_text().splitlines()]
    return found


OBJECTS = [
    (Kind.NAMESPACE, [namespace("a"), namespace("b")]),
    (
        Kind.SERVICE,
        [
            service("b/web", "10.0.0.1", "fd00::1", ports=("Http:TCP:80", ":UDP:9")),
            service("a/web", "10.0.0.2", ports=("https:TCP:443",)),
            service("a/db", "None"),
            service("gone/web", "10.0.0.3"),
            alias("a/out", "example.com"),
        ],
    ),
    (Kind.SLICE, [slice_of("a/db-1", "db", "172.0.0.1;db-0", "172.0.0.2", "172.0.0.3", ports=("pg:TCP:5432", ":TCP:9"))]),
    (Kind.IMPORT, [service_import("a/far")]),
    (Kind.IMPORT_SLICE, [slice_of("a/far-1", "far", "172.9.0.1;x", cluster="c1")]),
]

RECORDS = """\
cluster.local. 5 SOA
db.a.svc.cluster.local. 5 A 172.0.0.1
db-0.db.a.svc.cluster.local. 5 A 172.0.0.1
_pg._tcp.db.a.svc.cluster.local. 5 SRV 0 33 5432 db-0.db.a.svc.cluster.local.
db.a.svc.cluster.local. 5 A 172.0.0.2
172-0-0-2.db.a.svc.cluster.local. 5 A 172.0.0.2
_pg._tcp.db.a.svc.cluster.local. 5 SRV 0 33 5432 172-0-0-2.db.a.svc.cluster.local.
db.a.svc.cluster.local. 5 A 172.0.0.3
172-0-0-3.db.a.svc.cluster.local. 5 A 172.0.0.3
_pg._tcp.db.a.svc.cluster.local. 5 SRV 0 33 5432 172-0-0-3.db.a.svc.cluster.local.
out.a.svc.cluster.local. 5 CNAME example.com.
web.a.svc.cluster.local. 5 A 10.0.0.2
web.a.svc.cluster.local. 5 SRV 0 100 443 web.a.svc.cluster.local.
_https._tcp.web.a.svc.cluster.local. 5 SRV 0 100 443 web.a.svc.cluster.local.
web.b.svc.cluster.local. 5 A 10.0.0.1
web.b.svc.cluster.local. 5 AAAA fd00::1
web.b.svc.cluster.local. 5 SRV 0 100 80 web.b.svc.cluster.local.
_http._tcp.web.b.svc.cluster.local. 5 SRV 0 100 80 web.b.svc.cluster.local.
web.b.svc.cluster.local. 5 SRV 0 100 9 web.b.svc.cluster.local.
cluster.local. 5 SOA
"""


@pytest.fixture
def giver(serve, tmp_path: Path) -> Server:
    (tmp_path / "m.jsonl").write_text(manifest(*OBJECTS))
    return serve(
        ".:{port} {\n bind 127.0.0.1\n transfer {\n to *\n }\n kubernetes cluster.local set.test {\n"
        f" manifests {tmp_path}/m.jsonl\n multicluster set.test\n }}\n}}"
    )


def test_a_transfer_has_all_services_by_name(giver: Server) -> None:
    got = [" ".join(line.split()[:3]) if " SOA " in line else line for line in rows(giver, "cluster.local.")]
    assert got == RECORDS.splitlines()


def test_a_transfer_of_imports(giver: Server) -> None:
    """Endpoints have no label of their cluster here, and the serial is that of ordinary zones, as in CoreDNS."""
    got = rows(giver, "set.test.")
    assert got[1:-1] == [
        "far.a.svc.set.test. 5 A 172.9.0.1",
        "x.far.a.svc.set.test. 5 A 172.9.0.1",
        "_http._tcp.far.a.svc.set.test. 5 SRV 0 100 80 x.far.a.svc.set.test.",
    ]
    assert got[0].split()[5] == rows(giver, "cluster.local.")[0].split()[5]


def test_an_incremental_transfer(giver: Server) -> None:
    serial = giver.query("cluster.local.", "SOA").answer[0][0].serial
    request = dns.message.make_query("cluster.local.", "IXFR")
    mine = dns.rrset.from_text("cluster.local.", 0, "IN", "SOA", f". . {serial} 0 0 0 0")
    request.authority.append(mine)
    reply = dns.query.tcp(request, "127.0.0.1", REPLY, giver.port)
    assert len(reply.answer) == 1
    assert len(reply.answer[0]) == 1
    request.authority[0] = dns.rrset.from_text("cluster.local.", 0, "IN", "SOA", f". . {serial - 1} 0 0 0 0")
    reply = dns.query.tcp(request, "127.0.0.1", REPLY, giver.port)
    assert len(reply.answer) > 10


def test_zones_of_others_are_not_given(giver: Server) -> None:
    assert giver.query("other.test.", "AXFR", tcp=True).rcode() == dns.rcode.SERVFAIL


# ---- name servers ----


def own_addresses() -> list[str]:
    found = [text for texts in interfaces.addresses().values() for text in texts]
    return [text for text in (text.partition("%")[0] for text in found) if not ip_address(text).is_loopback]


def extra(server: Server) -> tuple[list[str], list[str]]:
    """Targets and addresses of the zone's NS records."""
    reply = server.query("cluster.local.", "NS", payload=4096)
    targets = sorted(rdata.target.to_text() for rrset in reply.answer for rdata in rrset)
    return targets, sorted(f"{rrset.name} {rdata.address}" for rrset in reply.additional for rdata in rrset)


def test_name_servers(serve, tmp_path: Path) -> None:
    """Our own addresses; once one of them is an endpoint, the services that it is behind."""
    own = own_addresses()
    if not own:
        pytest.skip("needs an interface besides loopback")
    path = tmp_path / "m.jsonl"
    spaces = (Kind.NAMESPACE, [namespace("kube-system")])
    path.write_text(manifest(spaces))
    server = serve(f".:{{port}} {{\n kubernetes cluster.local {{\n manifests {path}\n ttl 9\n }}\n}}")
    assert extra(server) == (["ns.dns.cluster.local."], sorted(f"ns.dns.cluster.local. {text}" for text in own))
    by_family = server.answers("ns.dns.cluster.local.", "A") + server.answers("ns.dns.cluster.local.", "AAAA")
    assert sorted(by_family) == sorted(own)
    assert server.query("cluster.local.", "NS").answer[0].ttl == 9
    assert server.query("Cluster.local.", "NS").answer == []

    services = [service("kube-system/dns", "10.96.0.10"), service("kube-system/hl", "None")]
    slices = [
        slice_of("kube-system/dns-1", "dns", own[0], "172.0.0.1"),
        slice_of("kube-system/hl-1", "hl", f"{own[0]};me", "172.0.0.2;other"),
    ]
    path.with_suffix(".new").write_text(manifest(spaces, (Kind.SERVICE, services), (Kind.SLICE, slices)))
    path.with_suffix(".new").replace(path)
    server.until("ns.dns.cluster.local.", "A", ["10.96.0.10", *sorted([own[0], "172.0.0.2"])])
    targets, addresses = extra(server)
    assert targets == sorted(["dns.kube-system.svc.cluster.local.", "me.hl.kube-system.svc.cluster.local.", "other.hl.kube-system.svc.cluster.local."])
    assert f"me.hl.kube-system.svc.cluster.local. {own[0]}" in addresses
    assert "dns.kube-system.svc.cluster.local. 10.96.0.10" in addresses


# ---- search paths ----


def test_search_paths_of_pods(serve, tmp_path: Path) -> None:
    """A pod's first query along its search path gets the last one's answer; who is no pod walks by itself."""
    objects = [
        (Kind.NAMESPACE, [namespace("a"), namespace("b")]),
        (Kind.SERVICE, [service("a/web", "10.0.0.1"), service("b/api", "10.0.0.2")]),
        (Kind.POD, [pod("a/client", "127.0.0.20")]),
    ]
    (tmp_path / "m.jsonl").write_text(manifest(*objects))
    corefile = (
        ".:{port} {\n bind 127.0.0.1\n autopath @kubernetes\n kubernetes cluster.local {\n"
        f" manifests {tmp_path}/m.jsonl\n pods MODE\n }}\n hosts {{\n 192.0.2.1 www.example.org\n fallthrough\n }}\n}}"
    )
    server = serve(corefile.replace("MODE", "verified"))
    ask = {"web.a.svc.cluster.local.": "10.0.0.1", "api.b.a.svc.cluster.local.": "10.0.0.2", "api.b.svc.a.svc.cluster.local.": "10.0.0.2"}
    for name, address in ask.items():
        assert address in server.answers(name, source="127.0.0.20")
    reply = server.query("api.b.a.svc.cluster.local.", source="127.0.0.20")
    assert reply.answer[0].to_text() == "api.b.a.svc.cluster.local. 5 IN CNAME api.b.svc.cluster.local."
    assert server.answers("api.b.a.svc.cluster.local.", source="127.0.0.21") == ["NXDOMAIN"]
    server.reload(corefile.replace("MODE", "insecure"))
    assert server.answers("api.b.a.svc.cluster.local.", source="127.0.0.20") == ["NXDOMAIN"]


def test_search_paths_of_questions(serve, tmp_path: Path) -> None:
    """The namespace in the question gives the path, whoever asks; what may be a name of the cluster leads nowhere else."""
    objects = [
        (Kind.NAMESPACE, [namespace("a"), namespace("b"), namespace("c"), namespace("db")]),
        (Kind.SERVICE, [service("a/web", "10.0.0.1"), service("a/db", "None"), service("b/api", "10.0.0.2"), service("db/db-7", "10.0.0.3")]),
        (Kind.SLICE, [slice_of("a/db-1", "db", "172.0.0.1;db-0")]),
        (Kind.IMPORT, [service_import("b/api", "10.7.0.1")]),
    ]
    (tmp_path / "m.jsonl").write_text(manifest(*objects))
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n autopath @kubernetes {\n namespace_from question\n }\n"
        f" kubernetes cluster.local set.test {{\n manifests {tmp_path}/m.jsonl\n namespaces a b db\n multicluster set.test\n }}\n"
        " hosts {\n 192.0.2.1 www.example.org single api.web db.test db-7.db\n fallthrough\n }\n}"
    )
    walks = {
        "www.example.org.a.svc.cluster.local.": ["www.example.org.", "192.0.2.1"],
        "WWW.Example.org.a.svc.Cluster.local.": ["www.example.org.", "192.0.2.1"],
        "api.b.a.svc.cluster.local.": ["api.b.svc.cluster.local.", "10.0.0.2"],
        "api.b.svc.a.svc.cluster.local.": ["api.b.svc.cluster.local.", "10.0.0.2"],
        "api.b.svc.cluster.local.a.svc.cluster.local.": ["api.b.svc.cluster.local.", "10.0.0.2"],
        "db.test.a.svc.cluster.local.": ["db.test.", "192.0.2.1"],
    }
    passes = {
        "web.a.svc.cluster.local.": ["10.0.0.1"],
        "db-0.db.a.svc.cluster.local.": ["172.0.0.1"],
        "db-7.db.a.svc.cluster.local.": ["NXDOMAIN"],  # no endpoint now; there is a service db-7 in a namespace db, and even a host db-7.db
        "api.web.a.svc.cluster.local.": ["NXDOMAIN"],
        "single.a.svc.cluster.local.": ["NXDOMAIN"],  # one label is how services are asked for
        "www.example.org.c.svc.cluster.local.": ["NXDOMAIN"],  # not exposed
        "www.example.org.nowhere.svc.cluster.local.": ["NXDOMAIN"],
        "www.example.org.a.pod.cluster.local.": ["NXDOMAIN"],
        "www.example.org.a.svc.set.test.": ["NXDOMAIN"],  # pods have no path into a multicluster zone
        "www.example.org.svc.cluster.local.": ["NXDOMAIN"],
        "a.svc.cluster.local.": [],
        "www.example.org.": ["192.0.2.1"],
    }
    for name, (target, address) in walks.items():
        for source in ("127.0.0.20", "127.0.0.21"):
            reply = server.query(name, source=source)
            assert reply.answer[0].to_text().split()[0::2] == [name, "IN", target]
            assert reply.answer[-1][0].to_text() == address
    for name, wanted in passes.items():
        assert server.answers(name) == wanted, name
    walked = server.metric(server.ports["port2"], f'coredns_autopath_success_total{{server="dns://127.0.0.1:{server.port}"}}')
    assert walked == 2 * len(walks)


# ---- metrics ----


def triggered(item: Object, ago: float) -> Object:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))
    item["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": when}
    return item


def test_programming_latency() -> None:
    """Slices that come in a watch tell how late they are, by the kind of their service; those of lists do not."""
    from fastdns.plugins.kubernetes.store.store import latency

    def counts() -> dict[str, int]:
        return {labels[0]: sum(value[0]) for labels, value in latency.collect()}

    store = Store()
    give_list(store, Kind.SERVICE, service("a/web", "10.0.0.1"), service("a/db", "None"))
    before = counts()
    give_list(store, Kind.SLICE, triggered(slice_of("a/web-1", "web", "172.0.0.1"), 9))
    assert counts() == before
    give_events(
        store,
        Kind.SLICE,
        ("MODIFIED", triggered(slice_of("a/web-1", "web", "172.0.0.2"), 5)),
        ("ADDED", triggered(slice_of("a/db-1", "db", "172.0.0.3"), 3)),
        ("ADDED", triggered(slice_of("a/x-1", "unknown", "172.0.0.4"), 3)),
        ("MODIFIED", slice_of("a/db-1", "db", "172.0.0.5")),
    )
    after = counts()
    assert {kind: after[kind] - before.get(kind, 0) for kind in after} == {"cluster_ip": 1, "headless_with_selector": 1}
    buckets, _ = dict(latency.collect())[("cluster_ip",)]
    # 5 s, and the part of a second that the annotation does not tell: above 4.096 and at most 8.192.
    assert buckets[13] >= 1


def test_programming_latency_of_two_clusters() -> None:
    """Each is written by a thread of its own: nothing is counted less than once."""
    from fastdns.plugins.kubernetes.store.store import latency

    def count() -> int:
        return sum(sum(value[0]) for labels, value in latency.collect() if labels[0] == "cluster_ip")

    changes = 5000
    stores = [Store() for _ in range(2)]
    for store in stores:
        give_list(store, Kind.SERVICE, service("a/web", "10.0.0.1"))
        give_list(store, Kind.SLICE, slice_of("a/web-1", "web", "172.0.9.1"))
    events = [("MODIFIED", triggered(slice_of("a/web-1", "web", f"172.0.{number % 2}.1"), 5)) for number in range(changes)]
    before = count()
    threads = [threading.Thread(target=give_events, args=(store, Kind.SLICE, *events)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count() - before == 2 * changes


def test_objects_in_the_metrics(serve, tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(manifest(*OBJECTS))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{{port2}}\n kubernetes cluster.local {{\n manifests {tmp_path}/m.jsonl\n }}\n}}")
    port = server.ports["port2"]
    assert server.metric(port, 'coredns_kubernetes_objects{kind="services"}') == 5
    assert server.metric(port, 'coredns_kubernetes_objects{kind="endpointslices"}') == 1
    assert server.metric(port, 'coredns_kubernetes_store_bytes{state="used"}') > 500
