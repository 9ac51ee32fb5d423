"""Zone transfers of k8s_external."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable

import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.plugins.kubernetes.objects import Object, manifest, namespace, service, slice_of
from tests.server import Server
from tests.waiting import LIMIT


def hosted(name: str, *hosts: str) -> Object:
    made = service(name, "10.0.0.9", type="LoadBalancer")
    made["status"] = {"loadBalancer": {"ingress": [{"hostname": host} for host in hosts]}}
    return made


TWO = ("http:TCP:80", "dns:UDP:53")
OBJECTS = manifest(
    (Kind.NAMESPACE, [namespace("a")]),
    (
        Kind.SERVICE,
        [
            service("a/web", "10.0.0.1", ports=TWO, externalIPs=["203.0.113.1", "2001:db8::1"]),
            service("a/plain", "10.0.0.2", ports=(":TCP:9",), externalIPs=["203.0.113.2"]),
            service("a/portless", "10.0.0.3", ports=(), externalIPs=["203.0.113.3"]),
            service("a/inside", "10.0.0.4"),
            service("hidden/web", "10.0.0.5", externalIPs=["203.0.113.5"]),
            service("a/db", "None", ports=(*TWO, ":TCP:9")),
            hosted("a/host", "lb.provider.test"),
            hosted("a/short", "lb.test"),
        ],
    ),
    (
        Kind.SLICE,
        [
            slice_of("a/db-1", "db", "172.0.0.1;db-0", "172.0.0.2", ports=(*TWO, ":TCP:9")),
            slice_of("a/db-2", "db", "fd00::1;db-0", ports=(*TWO, ":TCP:9")),
            slice_of("a/inside-1", "inside", "172.0.0.9;in-0"),
        ],
    ),
)

#: As often as CoreDNS sends them, with the zone left out.
SERVICES = """
web 3 A 203.0.113.1
web 3 A 203.0.113.1
web 3 AAAA 2001:db8::1
web 3 AAAA 2001:db8::1
web 7 SRV 0 100 80 web
_http._tcp.web 7 SRV 0 100 80 web
_dns._udp.web 7 SRV 0 100 53 web
plain 3 A 203.0.113.2
plain 7 SRV 0 100 9 plain
_._tcp.plain 7 SRV 0 100 9 plain
portless 3 A 203.0.113.3
host 7 CNAME lb.provider.test.
host 7 CNAME lb.provider.test.
host 7 SRV 0 100 80 lb.provider.test.
_http._tcp.host 7 SRV 0 100 80 test.
short 7 CNAME lb.test.
short 7 CNAME lb.test.
short 7 SRV 0 100 80 lb.test.
_http._tcp.short 7 SRV 0 100 80 lb.test.
"""
HEADLESS = """
db 3 A 172.0.0.1
db 3 A 172.0.0.2
db 3 AAAA fd00::1
""" + "".join(
    f"db 7 SRV 0 11 {port} {target}\n" * 2
    + f"{target} 7 SRV 0 100 {port} {target}\n" * (4 if target == "db-0.db" else 2)
    + "".join(f"{target} 3 {kind}\n" for kind in (["A 172.0.0.1", "AAAA fd00::1"] if target == "db-0.db" else ["A 172.0.0.2"]))
    + (f"_{name}.db 7 SRV 0 33 {port} {target}\n" if name else "")
    for port, name in ((80, "http._tcp"), (53, "dns._udp"), (9, ""))
    for target in ("db-0.db", "172-0-0-2.db")
)


def full(lines: str, zone: str) -> Counter[str]:
    """The lines with names made absolute."""
    made = []
    for line in lines.split("\n"):
        words = line.split()
        if words:
            words[0] = zone if words[0] == "." else f"{words[0]}.a.{zone}"
            if words[2] == "SRV" and not words[-1].endswith("."):
                words[-1] = f"{words[-1]}.a.{zone}"
            made.append(" ".join(words))
    return Counter(made)


def rows(server: Server, zone: str, serial: int | None = None) -> list[str]:
    """The records of a transfer in their order, each as often as it comes, without class; or the rcode of a reply without."""
    request = dns.message.make_query(zone, "AXFR" if serial is None else "IXFR")
    if serial is not None:
        request.authority.append(dns.rrset.from_text(zone, 0, "IN", "SOA", f". . {serial} 0 0 0 0"))
    found: list[str] = []
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as connection:
        dns.query.send_tcp(connection, request)
        while sum(" SOA " in row for row in found) < 2:
            message, _ = dns.query.receive_tcp(connection, time.time() + LIMIT, one_rr_per_rrset=True)
            if not message.answer:
                return [dns.rcode.to_text(message.rcode())]
            found += [rrset.to_text().replace(" IN ", " ") for rrset in message.answer]
            if serial is not None and len(found) == 1:
                break
    return found


def soa(zone: str) -> str:
    return f"{zone} 3 SOA ns1.dns.{zone} hostmaster.dns.{zone} 0 7200 1800 86400 3"


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    block = "bind 127.0.0.1\n transfer {\n to *\n }\n kubernetes cluster.local {\n manifests cluster.jsonl\n ttl 7\n }"
    return serve(
        f".:{{port}} {{\n {block}\n k8s_external example.org 203.in-addr.arpa {{\n ttl 3\n }}\n}}\n"
        f"example.net:{{port}} {{\n {block}\n k8s_external {{\n ttl 3\n headless\n }}\n}}\n",
        prepare=lambda folder: (folder / "cluster.jsonl").write_text(OBJECTS),
    )


@pytest.mark.parametrize(
    ("zone", "wanted"),
    [("example.org.", SERVICES), ("example.net.", SERVICES + HEADLESS), ("203.in-addr.arpa.", SERVICES)],
)
def test_a_transfer_has_what_the_namespaces_show(server: Server, zone: str, wanted: str) -> None:
    first, *found, last = rows(server, zone)
    assert first == last == soa(zone)
    assert Counter(found) == full(f". 3 NS ns1.dns.{zone}\n{wanted}", zone)


def test_an_incremental_transfer(server: Server) -> None:
    """The serial is 0 as long as nothing was changed, and whoever has any is up to date."""
    assert rows(server, "example.org.", serial=17) == [soa("example.org.")]
    assert len(rows(server, "example.org.", serial=0)) > 2


@pytest.mark.parametrize(("zone", "wanted"), [("a.example.org.", "NOERROR"), ("web.a.example.org.", "NOERROR"), ("x.example.org.", "NXDOMAIN")])
def test_only_zones_are_transferred(server: Server, zone: str, wanted: str) -> None:
    assert rows(server, zone) == [wanted]
