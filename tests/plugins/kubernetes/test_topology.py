"""Endpoints of headless services near the client, asked through sockets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.flags
import dns.rcode
import dns.rdatatype
import pytest

from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.conformance.kube_api import KubeAPI
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.objects import Object, alias, give_events, give_list, manifest, namespace, pod, service, slice_of
from tests.server import Server, free_port
from tests.waiting import until

#: Clients: on node-a1 and node-a2 (zone a), node-b1 (zone b), node-x (of no known zone), node-c1 (its zone is in its labels), and two that are no pods
#: of one node.
A1, A2, B1, X, C1, MOVING, NOBODY = (f"127.0.0.{n}" for n in (11, 12, 13, 14, 15, 16, 99))


def client(name: str, address: str, node: str, **rest: Any) -> Object:
    return {**pod(f"shop/{name}", address, **rest), "spec": {"nodeName": node}}


def placed(name: str, owner: str, *endpoints: str, **rest: Any) -> Object:
    """Endpoints are ``IP NODE [ZONE [HINT...]]``; a hint is ``zone:NAME`` or ``node:NAME``."""
    made = slice_of(name, owner, *(text.split()[0] for text in endpoints), **rest)
    for point, text in zip(made["endpoints"], endpoints, strict=True):
        node, zone, *hints = [*text.split()[1:], "", ""][:2] + text.split()[3:]
        point |= {"nodeName": node} if node else {}
        point |= {"zone": zone} if zone else {}
        named = [hint.partition(":")[::2] for hint in hints]
        if named:
            point["hints"] = {key: [{"name": value} for kind, value in named if kind == short] for key, short in (("forZones", "zone"), ("forNodes", "node"))}
    return made


PODS = [
    client("a1", A1, "node-a1"),
    client("a2", A2, "node-a2"),
    client("b1", B1, "node-b1"),
    client("x", X, "node-x"),
    client("c1", C1, "node-c1", labels={"topology.kubernetes.io/zone": "c"}),
    client("old", MOVING, "node-a1"),
    client("new", MOVING, "node-b1"),
    # Everything on the node has its address.
    client("agent", "127.0.0.20", "node-a1"),
    client("proxy", "127.0.0.20", "node-a1"),
]
SERVICES = [
    service("shop/db", "None", ports=("sql:TCP:5432",)),
    service("shop/far", "None"),
    service("shop/hinted", "None"),
    service("shop/for-nodes", "None"),
    service("shop/empty", "None"),
    service("shop/dual", "None"),
    service("shop/web", "10.96.0.1"),
    service("shop/six", "None"),
    alias("shop/same", "db.shop.svc.cluster.local"),
]
SLICES = [
    placed("shop/db-1", "db", "10.0.0.1 node-a1 a", "10.0.0.2 node-a2 a", ports=("sql:TCP:5432",)),
    placed("shop/db-2", "db", "10.0.0.3 node-b1 b", "10.0.0.5 node-c1 c", ports=("sql:TCP:5432",)),
    placed("shop/far-1", "far", "10.0.1.4 node-d1 d"),
    # Hints say for whom an endpoint is, wherever it is.
    placed("shop/hinted-1", "hinted", "10.0.2.1 node-a1 a zone:b", "10.0.2.2 node-b1 b zone:a zone:c", "10.0.2.3 node-a2 a"),
    placed("shop/for-nodes-1", "for-nodes", "10.0.3.1 node-a1 a node:node-a2", "10.0.3.2 node-a2 a zone:a node:node-b1 node:node-a1"),
    placed("shop/dual-1", "dual", "10.0.4.1 node-a1 a", "10.0.4.2 node-b1 b"),
    placed("shop/dual-2", "dual", "fd00::1 node-a1 a", "fd00::2 node-b1 b"),
    placed("shop/web-1", "web", "10.0.5.1 node-a1 a", "10.0.5.2 node-b1 b"),
    slice_of("shop/six-1", "six", "10.0.6.1", "10.0.6.2"),
]
OBJECTS = ((Kind.NAMESPACE, [namespace("shop")]), (Kind.SERVICE, SERVICES), (Kind.SLICE, SLICES), (Kind.POD, PODS))


def prepare(folder: Path) -> None:
    (folder / "objects.jsonl").write_text(manifest(*OBJECTS))


def corefile(topology: str, more: str = "", where: str = "manifests {dir}/objects.jsonl") -> str:
    return f""".:{{port}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{port2}}
    {more}
    kubernetes cluster.local in-addr.arpa {{
        {where}
        pods verified
        zonal
        {topology}
    }}
}}
"""


def ask(server: Server, name: str, source: str, rdtype: str = "A") -> list[str]:
    """The addresses, behind aliases too."""
    found = server.answers(f"{name}.shop.svc.cluster.local.", rdtype, source=source)
    return sorted(text for text in found if not text.endswith("."))


def ready(server: Server) -> Server:
    until(lambda: ask(server, "web", NOBODY) == ["10.96.0.1"])
    return server


def fixture(topology: str) -> Callable[[pytest.TempPathFactory], Iterator[Server]]:
    @pytest.fixture(scope="module")
    def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        folder = tmp_path_factory.mktemp("topology")
        prepare(folder)
        with Server(folder, corefile(topology)) as running:
            yield ready(running)

    return serving


by_zone = fixture("topology zone")
by_zone_only = fixture("topology zone only")
by_node = fixture("topology node")
by_node_and_zone = fixture("topology node zone only")

DB = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.5"]
HINTED = ["10.0.2.1", "10.0.2.2", "10.0.2.3"]
NODES = ["10.0.3.1", "10.0.3.2"]


@pytest.mark.parametrize(
    ("name", "source", "wanted"),
    [
        ("db", A1, DB[:2]),
        ("db", A2, DB[:2]),
        ("db", B1, DB[2:3]),
        ("db", C1, DB[3:]),
        ("db", "127.0.0.20", DB[:2]),
        # Nobody knows where these are.
        ("db", X, DB),
        ("db", MOVING, DB),
        ("db", NOBODY, DB),
        # Its zone is its label's, although no endpoint is on its node.
        ("hinted", C1, HINTED[1:2]),
        ("hinted", A1, HINTED[1:]),
        ("hinted", B1, HINTED[:1]),
        ("for-nodes", A1, NODES),
        ("same", B1, DB[2:3]),
        # Endpoints that say nothing of where they are.
        ("six", A1, ["10.0.6.1", "10.0.6.2"]),
        # Not what is asked for by its own name, nor Services with an address.
        ("10-0-0-3.db", A1, DB[2:3]),
        ("b.pin._zone.db", A1, DB[2:3]),
        ("web", A1, ["10.96.0.1"]),
    ],
)
def test_zones(by_zone: Server, by_zone_only: Server, name: str, source: str, wanted: list[str]) -> None:
    assert ask(by_zone, name, source) == wanted
    if name != "six":
        assert ask(by_zone_only, name, source) == wanted


@pytest.mark.parametrize(
    ("name", "source", "node", "both"),
    [
        ("db", A1, DB[:1], DB[:1]),
        ("db", A2, DB[1:2], DB[1:2]),
        ("db", X, DB, DB),
        ("db", NOBODY, DB, DB),
        ("for-nodes", A1, NODES[1:], NODES[1:]),
        ("for-nodes", A2, NODES[:1], NODES[:1]),
        ("for-nodes", B1, NODES[1:], NODES[1:]),
        ("hinted", C1, HINTED, HINTED[1:2]),
        ("far", A1, ["10.0.1.4"], []),
    ],
)
def test_nodes(by_node: Server, by_node_and_zone: Server, name: str, source: str, node: list[str], both: list[str]) -> None:
    assert ask(by_node, name, source) == node
    assert ask(by_node_and_zone, name, source) == both


def test_where_no_endpoint_is_near(by_zone: Server, by_zone_only: Server) -> None:
    assert ask(by_zone, "far", A1) == ["10.0.1.4"]
    for rdtype in ("A", "AAAA", "SRV"):
        reply = by_zone_only.query("far.shop.svc.cluster.local.", rdtype, source=A1)
        assert (reply.rcode(), reply.answer) == (dns.rcode.NOERROR, []), rdtype
        assert [rrset.rdtype for rrset in reply.authority] == [dns.rdatatype.SOA]
        assert reply.flags & dns.flags.AA
    assert ask(by_zone_only, "far", NOBODY) == ["10.0.1.4"]
    # A service without endpoints is what it was.
    for server in (by_zone, by_zone_only):
        assert server.query("empty.shop.svc.cluster.local.", source=A1).rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("name", ["db.shop.svc.cluster.local.", "_sql._tcp.db.shop.svc.cluster.local."])
def test_ports(by_zone: Server, name: str) -> None:
    reply = by_zone.query(name, "SRV", source=A1)
    assert sorted(record.to_text() for record in reply.answer[0]) == [f"0 50 5432 10-0-0-{n}.db.shop.svc.cluster.local." for n in (1, 2)]
    assert sorted(record.to_text() for rrset in reply.additional for record in rrset) == DB[:2]
    assert len(by_zone.query(name, "SRV", source=NOBODY).answer[0]) == 4


def test_both_families(by_zone: Server) -> None:
    assert ask(by_zone, "dual", A1) == ["10.0.4.1"]
    assert ask(by_zone, "dual", A1, "AAAA") == ["fd00::1"]
    assert ask(by_zone, "dual", B1, "AAAA") == ["fd00::2"]


def test_other_types_and_addresses_are_for_all(by_zone_only: Server) -> None:
    reply = by_zone_only.query("far.shop.svc.cluster.local.", "MX", source=A1)
    assert (reply.rcode(), reply.answer) == (dns.rcode.NOERROR, [])
    assert by_zone_only.answers("4.1.0.10.in-addr.arpa.", "PTR", source=A1) == ["10-0-1-4.far.shop.svc.cluster.local."]


def test_caches_do_not_pass_on(serve: Callable[..., Server]) -> None:
    server = ready(serve(corefile("topology zone", more="cache 30"), prepare=prepare))
    for _ in range(2):
        for source, wanted in ((A1, DB[:2]), (B1, DB[2:3]), (NOBODY, DB)):
            assert ask(server, "db", source) == ask(server, "same", source) == wanted
    # What is the same for all is kept.
    hits = f'coredns_cache_hits_total{{server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."}}'
    before = server.metric(server.ports["port2"], hits)
    for source in (A1, B1):
        ask(server, "web", source)
    assert server.metric(server.ports["port2"], hits) == before + 2


def test_lookups_are_counted(serve: Callable[..., Server]) -> None:
    server = ready(serve(corefile("topology node zone only"), prepare=prepare))
    wanted = {"node": 2, "zone": 3, "none": 1, "unknown": 2}
    for name, source in (
        ("db", A1),
        ("db", B1),
        ("hinted", C1),
        ("dual", A2),
        ("dual", A2),
        ("far", A1),
        ("db", X),
        ("db", NOBODY),
        ("empty", A1),
        ("web", A1),
    ):
        server.query(f"{name}.shop.svc.cluster.local.", source=source)
    sample = 'fastdns_kubernetes_topology_lookups_total{result="%s",server="dns://127.0.0.1:%d",view=""}'
    assert {result: server.metric(server.ports["port2"], sample % (result, server.port)) for result in wanted} == wanted


def test_without_it_nobody_is_preferred(serve: Callable[..., Server]) -> None:
    server = ready(serve(corefile(""), prepare=prepare))
    assert ask(server, "db", A1) == DB


# ---- changes ----


def test_changes_of_manifests_are_followed(serve: Callable[..., Server]) -> None:
    server = ready(serve(corefile("topology zone"), prepare=prepare))
    assert ask(server, "db", A1) == DB[:2]
    moved = [client("a1", A1, "node-b1") if item["metadata"]["name"] == "a1" else item for item in PODS]
    (server.folder / "objects.jsonl").write_text(manifest(*OBJECTS[:-1], (Kind.POD, moved)))
    until(lambda: ask(server, "db", A1) == DB[2:3])


def test_from_an_api_server_and_its_snapshot(serve: Callable[..., Server], tmp_path: Path, fakekube: Callable[..., KubeAPI]) -> None:
    """Rights in nodes are not needed: it has none of their paths. A restart answers alike before the API server is there again."""
    port = free_port()
    api = fakekube([json.loads(line) for line in manifest(*OBJECTS).splitlines()], port)
    text = corefile("topology zone", where=f"endpoint http://127.0.0.1:{port}\n        snapshot {tmp_path}/snapshot")
    server = ready(serve(text))
    wanted = {A1: DB[:2], B1: DB[2:3], C1: DB[3:], X: DB}
    assert {source: ask(server, "db", source) for source in wanted} == wanted
    until((tmp_path / "snapshot").exists)
    server.stop()
    api.stop()
    again = ready(serve(text))
    assert {source: ask(again, "db", source) for source in wanted} == wanted
    assert ask(again, "hinted", B1) == HINTED[:1]


def test_zones_of_nodes_go_with_their_endpoints() -> None:
    """The store keeps no node that nothing is on."""
    store = Store(places=True)
    give_list(store, Kind.SLICE, *SLICES)
    give_list(store, Kind.POD, *PODS)
    for _ in range(3):
        store.reclaim()
    steady = store.memory()[1]
    for generation in range(50):
        moved = [placed("shop/db-1", "db", *(f"10.1.0.{n} node-{generation}-{n} zone-{generation % 3}" for n in range(40)))]
        give_events(store, Kind.SLICE, *(("MODIFIED", item) for item in moved))
    give_events(store, Kind.SLICE, *(("MODIFIED", item) for item in SLICES))
    for _ in range(3):
        store.reclaim()
    # Only tables that have grown.
    assert store.memory()[1] < steady + 6000
    give_list(store, Kind.SLICE)
    give_list(store, Kind.POD)
    for _ in range(3):
        store.reclaim()
    assert store.memory()[1] < 6000


def test_places_come_back_from_the_store() -> None:
    store, model, copy = Store(places=True), Recorder(), Recorder()
    for kind, listed in OBJECTS:
        give_list(store, kind, *listed)
        give_list(model, kind, *listed)
    copy.take(store)
    assert {kind: copy.objects(kind) for kind, _ in OBJECTS} == {kind: model.objects(kind) for kind, _ in OBJECTS}
    assert model.objects(Kind.SLICE)["shop", "hinted-1"]["places"][1] == ("node-b1", b"\n\3\n\1a\n\3\n\1c")


@pytest.mark.parametrize("hint", ["x" * 126, "x" * 2000])
def test_hints_that_are_too_long_are_left_out(hint: str) -> None:
    store, copy = Store(places=True), Recorder()
    give_list(store, Kind.SLICE, placed("shop/db-1", "db", f"10.0.0.1 node-1 a zone:{hint} zone:b node:{'y' * 125}"))
    copy.take(store)
    ((_, hints),) = copy.objects(Kind.SLICE)["shop", "db-1"]["places"]
    assert hints == b"\n\3\n\1b" + b"\x12\x7f\n\x7d" + b"y" * 125
