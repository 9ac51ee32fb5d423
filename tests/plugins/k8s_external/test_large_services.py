"""Services whose addresses and ports make millions of records: what one query and one transfer of them cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import dns.flags
import dns.rdatatype

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.plugins.k8s_external.test_transfer import rows
from tests.plugins.kubernetes.objects import manifest, namespace, service, slice_of
from tests.server import Server

#: As in zone/selection.pxd.
SRV_FREE, SRV_EACH = 4_096, 4
#: Seconds of CPU for a few queries; entries without a bound took 10 s for one.
CPU_MOST = 2.0


def ports(count: int, number: int = 0) -> list[str]:
    return [f"p{port}:TCP:{number or 1000 + port}" for port in range(count)]


def hosts(count: int, net: int) -> list[str]:
    return [f"10.{net}.{host >> 8}.{host & 255}" for host in range(count)]


COREFILE = """.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    transfer {
        to *
    }
    kubernetes cluster.local {
        manifests cluster.jsonl
    }
    k8s_external example.org {
        headless
    }
}
"""


def start(serve: Callable[..., Server], endpoints: int, addresses: int, same: int) -> Server:
    """Start a server with two headless services, of which one has ``same`` ports with one number, one with external addresses, and a small one."""
    services = [
        service("evil/big", "None"),
        service("evil/same", "None"),
        service("evil/lb", "10.96.0.1", ports=ports(addresses), externalIPs=hosts(addresses, 203)),
        service("evil/web", "10.96.0.2", externalIPs=["192.0.2.1"]),
    ]
    slices = [
        slice_of("evil/big-0", "big", *hosts(endpoints, 8), ports=ports(2_000)),
        slice_of("evil/same-0", "same", *hosts(endpoints, 9), ports=ports(same, 80)),
    ]
    text = manifest((Kind.NAMESPACE, [namespace("evil")]), (Kind.SERVICE, services), (Kind.SLICE, slices))
    return serve(COREFILE, prepare=lambda folder: (folder / "cluster.jsonl").write_text(text))


def test_a_query_costs_by_its_answer(serve: Callable[..., Server]) -> None:
    server = start(serve, 1_000, 2_000, 3_000)
    before = server.cpu()
    for name in ("big", "same", "lb"):
        for kind in ("A", "AAAA", "SRV"):
            server.query(f"{name}.evil.example.org", kind, tcp=True)
    for zone in ("example.org", "svc.cluster.local"):
        assert server.query(f"_p7._tcp.big.evil.{zone}", "SRV").flags & dns.flags.TC
    assert len(server.query("lb.evil.example.org", "A", tcp=True).answer[0]) == 2_000
    ports_of_lb = server.query("lb.evil.example.org", "SRV", tcp=True)
    assert len(ports_of_lb.answer[0]) > 1_000
    assert server.answers("web.evil.example.org") == ["192.0.2.1"]
    assert server.cpu() - before < CPU_MOST


def test_a_transfer_is_bounded(serve: Callable[..., Server]) -> None:
    server = start(serve, 5, 400, 1)
    transferred = rows(server, "example.org.")
    kinds: dict[str, Counter[str]] = {name: Counter() for name in ("big", "same", "lb", "web")}
    different: dict[str, set[str]] = {name: set() for name in kinds}
    for row in transferred[1:-1]:
        owner, _, kind, *_ = row.split()
        name = owner.split(".")[-5] if owner.endswith("evil.example.org.") else ""
        if name in kinds:
            kinds[name][kind] += 1
            different[name].add(row)
    pairs = SRV_FREE + SRV_EACH * 5
    assert kinds["big"]["SRV"] <= 5 * pairs
    assert kinds["lb"]["A"] <= SRV_FREE + (SRV_EACH + 1) * 400
    addresses = {row.split()[-1] for row in different["lb"] if row.split()[2] == "A"}
    assert addresses == set(hosts(400, 203)), "no address is left out"
    assert sum(row.split()[2] == "SRV" for row in different["lb"]) == 401, "no port is left out"
    assert kinds["web"] == Counter(A=1, SRV=2)
    server.wait_log("example.org.: Service evil/big is too large")
    assert server.metric(server.ports["port2"], 'fastdns_kubernetes_object_records_left_out_total{plugin="k8s_external"}') > 0
