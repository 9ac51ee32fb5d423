"""Names and their answers, asked through the socket of a server that serves from manifests, and of a replica of such a one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.reversename
import pytest

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.plugins.kubernetes.objects import alias, manifest, namespace, pod, service, service_import, slice_of
from tests.server import Server

SPACES = [namespace(name) for name in ("default", "testns", "other", "svc")]
SERVICES = [
    service("default/kubernetes", "10.96.0.1", ports=("https:TCP:443",)),
    service("testns/web", "10.0.0.100", ports=("http:TCP:80", "metrics:TCP:9090")),
    service("testns/dual", "10.0.0.110", "fd00:10::110"),
    service("testns/v6only", "fd00:10::6"),
    service("testns/multi", "10.0.0.130", ports=("dns:UDP:53", "dns:TCP:53", "sctp:SCTP:5000")),
    service("testns/noports", "10.0.0.140", ports=()),
    service("testns/hdls", "None", ports=("http:TCP:80", "dns:UDP:53")),
    service("testns/bare", "None", ports=()),
    service("testns/empty", "None"),
    service("testns/six", "None", ports=("c-port:UDP:1234",)),
    service("testns/twins", "None"),
    service("testns/odd", "None"),
    service("other/web", "10.0.1.100"),
    service("gone/web", "10.0.2.100"),
    service("svc/svc", "10.0.3.1"),
    alias("testns/ext", "target.example.com"),
    alias("testns/inside", "web.testns.svc.cluster.local"),
    alias("testns/twice", "inside.testns.svc.cluster.local."),
    alias("testns/dangling", "nosuch.testns.svc.cluster.local"),
    alias("testns/self", "self.testns.svc.cluster.local"),
    alias("testns/below", "x.below.testns.svc.cluster.local"),
    alias("testns/round", "about.testns.svc.cluster.local"),
    alias("testns/about", "round.testns.svc.cluster.local"),
    alias("testns/address", "192.0.2.1"),
    *(alias(f"testns/link-{n}", f"link-{n + 1}.testns.svc.cluster.local") for n in range(12)),
    service("testns/link-12", "10.0.0.112"),
]
SLICES = [
    slice_of("testns/web-1", "web", "172.0.0.10;;web-0;zone-a", "172.0.0.11", ports=("http:TCP:80", "metrics:TCP:9090")),
    slice_of(
        "testns/hdls-1", "hdls", "172.0.0.20;db-0;pod-0;zone-a", "172.0.0.21;DB-1;pod-1;zone-b", "172.0.0.22;;pod-2;zone-b", ports=("http:TCP:80", "dns:UDP:53")
    ),
    slice_of("testns/hdls-2", "hdls", "fd00::20;db-0;pod-0;zone-a", "fd00:0:0:1::", ports=("http:TCP:80", "dns:UDP:53")),
    slice_of("testns/bare-1", "bare", "172.0.0.30;solo", ports=()),
    slice_of("testns/six-1", "six", *(f"172.0.1.{n};dup-name" for n in range(1, 7)), ports=("c-port:UDP:1234",)),
    # the same endpoint in two slices, as while the controller moves it
    slice_of("testns/twins-1", "twins", "172.0.2.1;a", "172.0.2.2;b"),
    slice_of("testns/twins-2", "twins", "172.0.2.1;a", "172.0.2.3;c"),
    slice_of("testns/odd-1", "odd", "::102:304", "::5", "::1:0:0:5", "255.10.0.9"),
    slice_of("other/web-1", "web", "172.0.0.10"),
    slice_of("gone/web-1", "web", "172.0.9.1"),
]
PODS = [pod("testns/web-0", "172.0.0.10"), pod("other/client", "172.0.0.99"), pod("other/six", "fd00::99"), pod("testns/twin", "172.0.0.10")]
IMPORTS = [service_import("testns/shared", "10.7.0.1", "fd00:7::1"), service_import("testns/far"), service_import("testns/portless", "10.7.0.3", ports=())]
IMPORT_SLICES = [
    slice_of("testns/far-1", "far", "172.20.1.1;a", "172.20.1.2", cluster="c1"),
    slice_of("testns/far-2", "far", "172.20.2.1;a", cluster="c2"),
]
CLUSTER = manifest(
    (Kind.NAMESPACE, SPACES), (Kind.SERVICE, SERVICES), (Kind.SLICE, SLICES), (Kind.POD, PODS), (Kind.IMPORT, IMPORTS), (Kind.IMPORT_SLICE, IMPORT_SLICES)
)

COREFILE = """
. {{
    bind 127.0.0.1
    kubernetes cluster.local clusterset.test k8s.test 172.in-addr.arpa 10.in-addr.arpa ip6.arpa {{
        manifests {{dir}}/cluster.jsonl
        multicluster clusterset.test
        {properties}
    }}
    hosts {{
        192.0.2.7 target.example.com
        fallthrough
    }}
    whoami
}}
"""
SETTINGS = {
    "verified": "pods verified\n zonal",
    "insecure": "pods insecure\n ttl 30\n endpoint_pod_names\n fallthrough k8s.test 10.in-addr.arpa",
    "sparse": "noendpoints\n ignore empty_service",
    "chosen": "namespaces testns nowhere\n ignore empty_service\n ttl 0",
}


CENTRE = """
cluster.local:{port} objects.test:{port} {
    bind 127.0.0.1
    transfer objects.test {
        to *
    }
    kubernetes cluster.local all.test {
        manifests {dir}/cluster.jsonl
        multicluster all.test
        pods verified
        objects objects.test
    }
}
"""
COPY = """
objects.test:{{port}} {{
    bind 127.0.0.1
    secondary {{
        transfer from 127.0.0.1:{port}
    }}
}}
"""


@pytest.fixture(scope="module", params=["manifests", "replica"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    made: dict[str, Server] = {}

    def start(name: str, corefile: str) -> Server:
        folder: Path = tmp_path_factory.mktemp(name)
        (folder / "cluster.jsonl").write_text(CLUSTER)
        made[name] = Server(folder, corefile)
        return made[name]

    if request.param == "replica":
        start("centre", CENTRE).wait_started()
    for name, properties in SETTINGS.items():
        corefile = COREFILE.format(properties=properties).replace(". {", ".:{port} {", 1)
        if request.param == "replica":
            corefile = corefile.replace("manifests {dir}/cluster.jsonl", "replica objects.test") + COPY.format(port=made["centre"].port)
        start(name, corefile)
    for server in made.values():
        server.wait_started()
    yield made
    for server in made.values():
        server.stop()


def shown(reply: dns.message.Message) -> str:
    """``RCODE``, or records: answers, then ``+`` additional ones, names without the zone where they have one of ours."""
    if reply.rcode() != dns.rcode.NOERROR:
        return dns.rcode.to_text(reply.rcode())
    parts = []
    for mark, section in (("", reply.answer), ("+", reply.additional)):
        for rrset in section:
            parts += [mark + line.replace(" IN ", " ") for line in rrset.to_text().splitlines()]
    lines = sorted(part.replace(".svc.cluster.local.", "").replace(" 5 ", " ") for part in parts)
    return ", ".join(lines) or "NODATA"


Z = "svc.cluster.local."

TABLE = [
    # ---- services ----
    ("web.testns.svc", "A", "web.testns A 10.0.0.100"),
    ("web.testns.svc", "AAAA", "NODATA"),
    ("web.testns.svc", "SRV", "+web.testns A 10.0.0.100, web.testns SRV 0 50 80 web.testns, web.testns SRV 0 50 9090 web.testns"),
    ("web.testns.svc", "MX", "NODATA"),
    ("web.testns.svc", "TXT", "NODATA"),
    ("web.testns.svc", "CNAME", "NODATA"),
    ("web.testns.svc", "NS", "NODATA"),
    ("web.testns.svc", "SOA", "NODATA"),
    ("web.testns.svc", "PTR", "NODATA"),
    ("web.testns.svc", "ANY", "NODATA"),
    ("WEB.TestNs.svc", "A", "WEB.TestNs A 10.0.0.100"),
    ("dual.testns.svc", "AAAA", "dual.testns AAAA fd00:10::110"),
    ("dual.testns.svc", "SRV", "+dual.testns A 10.0.0.110, +dual.testns AAAA fd00:10::110, dual.testns SRV 0 50 80 dual.testns"),
    ("v6only.testns.svc", "A", "NODATA"),
    ("multi.testns.svc", "SRV", "+multi.testns A 10.0.0.130, multi.testns SRV 0 33 5000 multi.testns, multi.testns SRV 0 33 53 multi.testns"),
    ("noports.testns.svc", "A", "noports.testns A 10.0.0.140"),
    ("noports.testns.svc", "SRV", "NODATA"),
    ("svc.svc.svc", "A", "svc.svc A 10.0.3.1"),
    ("web.gone.svc", "A", "NXDOMAIN"),
    ("nosuch.testns.svc", "A", "NXDOMAIN"),
    ("nosuch.testns.svc", "SOA", "NODATA"),
    ("nosuch.testns.svc", "MX", "NXDOMAIN"),
    # ---- ports ----
    ("_http._tcp.web.testns.svc", "SRV", "+web.testns A 10.0.0.100, _http._tcp.web.testns SRV 0 100 80 web.testns"),
    ("http.tcp.web.testns.svc", "A", "http.tcp.web.testns A 10.0.0.100"),
    ("_HTTP._TCP.web.testns.svc", "A", "_HTTP._TCP.web.testns A 10.0.0.100"),
    ("_._udp.multi.testns.svc", "SRV", "+multi.testns A 10.0.0.130, _._udp.multi.testns SRV 0 100 53 multi.testns"),
    ("_http._udp.web.testns.svc", "SRV", "NXDOMAIN"),
    ("_http._tcp.noports.testns.svc", "A", "NXDOMAIN"),
    ("__http._tcp.web.testns.svc", "SRV", "NXDOMAIN"),
    ("_http._tcp.x.web.testns.svc", "SRV", "NXDOMAIN"),
    ("*.web.testns.svc", "A", "NXDOMAIN"),
    ("any.any.web.testns.svc", "A", "NXDOMAIN"),
    # ---- headless services and endpoints ----
    ("hdls.testns.svc", "A", "hdls.testns A 172.0.0.20, hdls.testns A 172.0.0.21, hdls.testns A 172.0.0.22"),
    ("hdls.testns.svc", "AAAA", "hdls.testns AAAA fd00:0:0:1::, hdls.testns AAAA fd00::20"),
    ("db-0.hdls.testns.svc", "A", "db-0.hdls.testns A 172.0.0.20"),
    ("DB-0.hdls.testns.svc", "AAAA", "DB-0.hdls.testns AAAA fd00::20"),
    (
        "db-1.hdls.testns.svc",
        "SRV",
        "+DB-1.hdls.testns A 172.0.0.21, db-1.hdls.testns SRV 0 50 53 DB-1.hdls.testns, db-1.hdls.testns SRV 0 50 80 DB-1.hdls.testns",
    ),
    ("172-0-0-22.hdls.testns.svc", "A", "172-0-0-22.hdls.testns A 172.0.0.22"),
    ("172-0-0-20.hdls.testns.svc", "A", "NXDOMAIN"),  # it has a hostname
    ("fd00-0-0-1--0.hdls.testns.svc", "AAAA", "fd00-0-0-1--0.hdls.testns AAAA fd00:0:0:1::"),
    ("pod-2.hdls.testns.svc", "A", "NXDOMAIN"),
    ("172-0-0-10.web.testns.svc", "A", "172-0-0-10.web.testns A 172.0.0.10"),
    ("172-0-0-010.web.testns.svc", "A", "NXDOMAIN"),
    ("bare.testns.svc", "A", "bare.testns A 172.0.0.30"),
    ("bare.testns.svc", "SRV", "NODATA"),
    ("empty.testns.svc", "A", "NXDOMAIN"),
    ("empty.testns.svc", "SRV", "NXDOMAIN"),
    ("_dns._udp.hdls.testns.svc", "A", "_dns._udp.hdls.testns A 172.0.0.20, _dns._udp.hdls.testns A 172.0.0.21, _dns._udp.hdls.testns A 172.0.0.22"),
    ("twins.testns.svc", "A", "twins.testns A 172.0.2.1, twins.testns A 172.0.2.2, twins.testns A 172.0.2.3"),
    # ---- names in between ----
    ("testns.svc", "A", "NODATA"),
    ("testns.svc", "TXT", "NXDOMAIN"),
    ("gone.svc", "A", "NXDOMAIN"),
    ("", "A", "NODATA"),
    ("a.b.c.d.e.svc", "A", "NXDOMAIN"),
    # ---- ExternalName ----
    ("ext.testns.svc", "A", "ext.testns CNAME target.example.com., target.example.com. 3600 A 192.0.2.7"),
    ("ext.testns.svc", "AAAA", "ext.testns CNAME target.example.com."),
    ("ext.testns.svc", "CNAME", "ext.testns CNAME target.example.com."),
    ("ext.testns.svc", "SRV", "NODATA"),
    ("ext.testns.svc", "TXT", "NODATA"),
    ("x.ext.testns.svc", "A", "NXDOMAIN"),
    ("_http._tcp.ext.testns.svc", "SRV", "NXDOMAIN"),
    ("_._.ext.testns.svc", "CNAME", "_._.ext.testns CNAME target.example.com."),
    ("inside.testns.svc", "A", "inside.testns CNAME web.testns, web.testns A 10.0.0.100"),
    ("inside.testns.svc", "AAAA", "NODATA"),
    ("twice.testns.svc", "A", "inside.testns CNAME web.testns, twice.testns CNAME inside.testns, web.testns A 10.0.0.100"),
    ("dangling.testns.svc", "A", "NODATA"),
    ("dangling.testns.svc", "CNAME", "dangling.testns CNAME nosuch.testns"),
    ("self.testns.svc", "A", "NODATA"),
    ("below.testns.svc", "A", "NODATA"),
    ("round.testns.svc", "A", "NODATA"),
    ("address.testns.svc", "A", "NXDOMAIN"),
    ("address.testns.svc", "CNAME", "NXDOMAIN"),
    ("link-0.testns.svc", "A", "NODATA"),  # too many links
    # ---- zonal ----
    ("zone-a.pin._zone.hdls.testns.svc", "A", "zone-a.pin._zone.hdls.testns A 172.0.0.20"),
    ("ZONE-B.pin._zone.hdls.testns.svc", "A", "ZONE-B.pin._zone.hdls.testns A 172.0.0.21, ZONE-B.pin._zone.hdls.testns A 172.0.0.22"),
    ("zone-c.pin._zone.hdls.testns.svc", "A", "NODATA"),
    ("zone-c.pin._zone.hdls.testns.svc", "TXT", "NODATA"),
    ("zone-c.prefer._zone.hdls.testns.svc", "AAAA", "zone-c.prefer._zone.hdls.testns AAAA fd00:0:0:1::, zone-c.prefer._zone.hdls.testns AAAA fd00::20"),
    ("a.b.pin._zone.hdls.testns.svc", "A", "NODATA"),
    ("zone-a.only._zone.hdls.testns.svc", "A", "NXDOMAIN"),
    ("zone-a.pin._zone.web.testns.svc", "A", "NXDOMAIN"),
]


@pytest.mark.parametrize(("name", "rdtype", "wanted"), TABLE)
def test_the_zone(servers: dict[str, Server], name: str, rdtype: str, wanted: str) -> None:
    zone = f"{name}.cluster.local." if name else "cluster.local."
    reply = servers["verified"].query(zone, rdtype, payload=4096)
    assert shown(reply) == wanted
    assert reply.flags & dns.flags.AA
    assert not reply.flags & dns.flags.RA or rdtype in ("A", "AAAA")
    # Whatever has no answer has the zone's SOA.
    assert bool(reply.authority) is (not reply.answer)


MORE = [
    # ---- pods ----
    ("verified", "172-0-0-10.testns.pod.cluster.local.", "A", "172-0-0-10.testns.pod.cluster.local. A 172.0.0.10"),
    ("verified", "x.y.172-0-0-10.testns.pod.cluster.local.", "A", "x.y.172-0-0-10.testns.pod.cluster.local. A 172.0.0.10"),
    ("verified", "172-0-0-10.testns.pod.cluster.local.", "AAAA", "NODATA"),
    (
        "verified",
        "172-0-0-10.testns.pod.cluster.local.",
        "SRV",
        "+172-0-0-10.testns.pod.cluster.local. A 172.0.0.10, 172-0-0-10.testns.pod.cluster.local. SRV 0 50 0 172-0-0-10.testns.pod.cluster.local.",
    ),
    ("verified", "172-0-0-10.other.pod.cluster.local.", "A", "NXDOMAIN"),
    ("verified", "fd00--99.other.pod.cluster.local.", "AAAA", "fd00--99.other.pod.cluster.local. AAAA fd00::99"),
    ("verified", "fd00-0--99.other.pod.cluster.local.", "AAAA", "NXDOMAIN"),  # another spelling
    ("verified", "testns.pod.cluster.local.", "A", "NODATA"),
    ("verified", "gone.pod.cluster.local.", "A", "NXDOMAIN"),
    ("insecure", "1-2-3-4.testns.pod.cluster.local.", "A", "1-2-3-4.testns.pod.cluster.local. 30 A 1.2.3.4"),
    ("insecure", "1-2-3-400.testns.pod.cluster.local.", "A", "NXDOMAIN"),
    ("insecure", "--1.testns.pod.cluster.local.", "AAAA", "--1.testns.pod.cluster.local. 30 AAAA ::1"),
    ("insecure", "--ffff-102-304.testns.pod.cluster.local.", "A", "--ffff-102-304.testns.pod.cluster.local. 30 A 1.2.3.4"),
    ("insecure", "1-2-3-4.gone.pod.cluster.local.", "A", "NXDOMAIN"),
    ("insecure", "a.testns.pod.cluster.local.", "A", "NXDOMAIN"),
    ("sparse", "1-2-3-4.testns.pod.cluster.local.", "A", "NXDOMAIN"),
    ("sparse", "testns.pod.cluster.local.", "A", "NXDOMAIN"),
    ("sparse", "pod.cluster.local.", "A", "NODATA"),
    # ---- other properties ----
    ("insecure", "pod-2.hdls.testns.svc.cluster.local.", "A", "pod-2.hdls.testns 30 A 172.0.0.22"),
    ("insecure", "172-0-0-22.hdls.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("insecure", "zone-a.pin._zone.hdls.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("insecure", "web.testns.svc.k8s.test.", "A", "web.testns.svc.k8s.test. 30 A 10.0.0.100"),
    ("verified", "fell.through.k8s.test.", "A", "NXDOMAIN"),
    ("sparse", "hdls.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("sparse", "db-0.hdls.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("sparse", "web.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("chosen", "web.testns.svc.cluster.local.", "A", "web.testns 0 A 10.0.0.100"),
    ("chosen", "dual.testns.svc.cluster.local.", "A", "NXDOMAIN"),  # without endpoints
    ("chosen", "web.other.svc.cluster.local.", "A", "NXDOMAIN"),
    ("chosen", "nowhere.svc.cluster.local.", "A", "NXDOMAIN"),
    ("chosen", "172.0.0.10", "PTR", "172-0-0-10.web.testns"),
    # ---- reverse ----
    ("verified", "10.0.0.100", "PTR", "web.testns"),
    ("verified", "10.0.2.100", "PTR", "web.gone"),  # CoreDNS asks for no namespace here
    ("verified", "fd00:10::110", "PTR", "dual.testns"),
    ("verified", "172.0.0.20", "PTR", "db-0.hdls.testns"),
    ("verified", "172.0.0.10", "PTR", "172-0-0-10.web.other, 172-0-0-10.web.testns"),
    ("verified", "172.0.2.1", "PTR", "a.twins.testns"),
    ("verified", "::102:304", "PTR", "--102-304.odd.testns"),
    ("verified", "::5", "PTR", "--5.odd.testns"),
    ("verified", "::1:0:0:5", "PTR", "--1-0-0-5.odd.testns"),
    ("verified", "--102-304.odd.testns.svc.cluster.local.", "A", "NODATA"),
    ("verified", "255-10-0-9.odd.testns.svc.cluster.local.", "A", "255-10-0-9.odd.testns A 255.10.0.9"),
    ("verified", "172.0.0.99", "PTR", "NXDOMAIN"),  # a pod that is no endpoint
    ("verified", "20.0.0.172.in-addr.arpa.", "A", "NXDOMAIN"),
    ("verified", "0.0.172.in-addr.arpa.", "PTR", "NXDOMAIN"),
    ("verified", "172.in-addr.arpa.", "PTR", "NODATA"),
    ("verified", "020.0.0.172.in-addr.arpa.", "PTR", "NXDOMAIN"),
    ("verified", "web.testns.svc.10.in-addr.arpa.", "A", "NXDOMAIN"),
    ("verified", "web.testns.svc.cluster.local.", "PTR", "NODATA"),
    # ---- multicluster ----
    ("verified", "shared.testns.svc.clusterset.test.", "A", "shared.testns.svc.clusterset.test. A 10.7.0.1"),
    ("verified", "shared.testns.svc.clusterset.test.", "AAAA", "shared.testns.svc.clusterset.test. AAAA fd00:7::1"),
    ("verified", "shared.testns.svc.cluster.local.", "A", "NXDOMAIN"),
    ("verified", "web.testns.svc.clusterset.test.", "A", "NXDOMAIN"),
    ("verified", "portless.testns.svc.clusterset.test.", "A", "NXDOMAIN"),
    (
        "verified",
        "far.testns.svc.clusterset.test.",
        "A",
        "far.testns.svc.clusterset.test. A 172.20.1.1, far.testns.svc.clusterset.test. A 172.20.1.2, far.testns.svc.clusterset.test. A 172.20.2.1",
    ),
    ("verified", "a.c2.far.testns.svc.clusterset.test.", "A", "a.c2.far.testns.svc.clusterset.test. A 172.20.2.1"),
    ("verified", "a.far.testns.svc.clusterset.test.", "A", "NXDOMAIN"),
    (
        "verified",
        "_http._tcp.172-20-1-2.c1.far.testns.svc.clusterset.test.",
        "SRV",
        "NXDOMAIN",
    ),
    (
        "verified",
        "172-20-1-2.c1.far.testns.svc.clusterset.test.",
        "SRV",
        (
            "+172-20-1-2.c1.far.testns.svc.clusterset.test. A 172.20.1.2, "
            "172-20-1-2.c1.far.testns.svc.clusterset.test. SRV 0 100 80 172-20-1-2.c1.far.testns.svc.clusterset.test."
        ),
    ),
    ("verified", "1-2-3-4.testns.pod.clusterset.test.", "A", "NXDOMAIN"),
    ("verified", "172-0-0-10.testns.pod.clusterset.test.", "A", "172-0-0-10.testns.pod.clusterset.test. A 172.0.0.10"),
    # ---- the zone's own names ----
    ("verified", "dns-version.cluster.local.", "TXT", 'dns-version.cluster.local. 28800 TXT "1.1.0"'),
    ("verified", "dns-version.cluster.local.", "A", "NXDOMAIN"),
    ("verified", "x.dns-version.cluster.local.", "TXT", "NXDOMAIN"),
    ("verified", "cluster.local.", "NS", "NODATA"),  # bind is used: the server does not know its address
    ("verified", "ns.dns.cluster.local.", "A", "NODATA"),
    ("verified", "ns.dns.cluster.local.", "TXT", "NXDOMAIN"),
    ("verified", "ns.dns.Cluster.local.", "A", "NXDOMAIN"),
    ("verified", "cluster.local.", "AXFR", "REFUSED"),
]


@pytest.mark.parametrize(("which", "name", "rdtype", "wanted"), MORE)
def test_properties(servers: dict[str, Server], which: str, name: str, rdtype: str, wanted: str) -> None:
    server = servers[which]
    if not name.endswith("."):
        name = str(dns.reversename.from_address(name))
        answers = server.answers(name, rdtype)
        assert ", ".join(text.replace(".svc.cluster.local.", "") for text in answers) == wanted
        return
    assert shown(server.query(name, rdtype, payload=4096, tcp=rdtype == "AXFR")) == wanted


def test_fallthrough(servers: dict[str, Server]) -> None:
    """Only names that do not exist, and only in the zones given."""
    assert {asked: bool(servers["insecure"].query(*asked).additional) for asked in FALLS} == FALLS


FALLS = {
    ("nosuch.testns.svc.k8s.test.", "A"): True,
    ("nonsense.k8s.test.", "TXT"): True,
    ("k8s.test.", "TXT"): True,
    ("9.9.9.10.in-addr.arpa.", "PTR"): True,
    ("web.testns.svc.k8s.test.", "AAAA"): False,
    ("nosuch.testns.svc.k8s.test.", "SOA"): False,
    ("testns.svc.k8s.test.", "A"): False,
    ("nosuch.testns.svc.cluster.local.", "A"): False,
}


def test_soa_and_case(servers: dict[str, Server]) -> None:
    """Names of the query keep its case; those made from objects have the objects', with the zone as it was asked for."""
    reply = servers["verified"].query("nope.Cluster.LOCAL.", "A")
    line = reply.authority[0].to_text().split()
    assert line[:7] == ["Cluster.LOCAL.", "5", "IN", "SOA", "ns.dns.Cluster.LOCAL.", "hostmaster.Cluster.LOCAL.", line[6]]
    assert int(line[6]) > 1_700_000_000
    assert line[7:] == ["7200", "1800", "86400", "5"]
    reply = servers["verified"].query("_HTTP._tcp.Web.testns.svc.Cluster.LOCAL.", "SRV")
    assert reply.answer[0].to_text() == "_HTTP._tcp.Web.testns.svc.Cluster.LOCAL. 5 IN SRV 0 100 80 web.testns.svc.Cluster.LOCAL."
    assert reply.additional[0].to_text() == "web.testns.svc.Cluster.LOCAL. 5 IN A 10.0.0.100"


def test_many_endpoints_of_one_name(servers: dict[str, Server]) -> None:
    """One SRV record for a hostname that six endpoints share, with a share of the weight of six, and all their addresses."""
    reply = servers["verified"].query("six.testns.svc.cluster.local.", "SRV")
    assert [rrset.to_text() for rrset in reply.answer] == [f"six.testns.{Z} 5 IN SRV 0 16 1234 dup-name.six.testns.{Z}"]
    assert sorted(rdata.address for rrset in reply.additional for rdata in rrset) == [f"172.0.1.{n}" for n in range(1, 7)]


def test_a_large_headless_service(serve, tmp_path: Path) -> None:
    """Thousands of endpoints in many slices, some in two of them: over TCP every address once, over UDP what fits."""
    slices = [slice_of(f"a/s-{n}", "big", *(f"10.{n}.0.{k};h-{n}-{k}" for k in range(100)), *(["10.0.0.1;h-0-1"] if n else [])) for n in range(30)]
    (tmp_path / "big.jsonl").write_text(manifest((Kind.NAMESPACE, [namespace("a")]), (Kind.SERVICE, [service("a/big", "None")]), (Kind.SLICE, slices)))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n kubernetes cluster.local {{\n manifests {tmp_path}/big.jsonl\n }}\n}}")
    name = "big.a.svc.cluster.local."
    whole = server.answers(name, "A", tcp=True)
    assert len(whole) == len(set(whole)) == 3000
    cut = server.query(name, "A", payload=1232)
    assert cut.flags & dns.flags.TC
    assert len(cut.to_wire()) <= 1232
    srv = server.query(name, "SRV", tcp=True)
    targets = [rdata.target.to_text() for rrset in srv.answer for rdata in rrset]
    assert len(targets) == len(set(targets)) > 500
    assert srv.flags & dns.flags.TC


def test_changes_show(serve, tmp_path: Path) -> None:
    """Added, changed and removed objects, seen through the manifests that they are in."""
    path = tmp_path / "m.jsonl"
    spaces = (Kind.NAMESPACE, [namespace("a")])

    def write(*listed: tuple[Kind, list]) -> None:
        new = path.with_suffix(".new")
        new.write_text(manifest(spaces, *listed))
        new.replace(path)

    write((Kind.SERVICE, [service("a/web", "10.0.0.1")]))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n kubernetes cluster.local 10.in-addr.arpa {{\n manifests {path}\n }}\n}}")
    name, pointer = "web.a.svc.cluster.local.", "1.0.0.10.in-addr.arpa."
    assert server.answers(pointer, "PTR") == ["web.a.svc.cluster.local."]
    write((Kind.SERVICE, [service("a/web", "10.0.0.2")]))
    server.until(name, "A", ["10.0.0.2"])
    assert server.answers(pointer, "PTR") == ["NXDOMAIN"]
    write((Kind.SERVICE, [service("a/web", "None")]), (Kind.SLICE, [slice_of("a/s", "web", "10.0.0.1", "10.0.0.3")]))
    server.until(name, "A", ["10.0.0.1", "10.0.0.3"])
    assert server.answers(pointer, "PTR") == ["10-0-0-1.web.a.svc.cluster.local."]
    write((Kind.SERVICE, [alias("a/web", "other.a.svc.cluster.local"), service("a/other", "10.0.0.9")]))
    server.until(name, "A", ["10.0.0.9", "other.a.svc.cluster.local."])
    write()
    server.until(name, "A", ["NXDOMAIN"])
    server.until(pointer, "PTR", ["NXDOMAIN"])


def test_a_reload_keeps_what_is_there(serve, tmp_path: Path) -> None:
    """The store is adopted: the new configuration answers at once, and with its own properties."""
    (tmp_path / "m.jsonl").write_text(CLUSTER)
    corefile = f".:{{port}} {{\n bind 127.0.0.1\n kubernetes cluster.local {{\n manifests {tmp_path}/m.jsonl\n PROPERTY\n }}\n}}"
    server = serve(corefile.replace("PROPERTY", "ttl 7"))
    assert server.query("web.testns.svc.cluster.local.").answer[0].ttl == 7
    for ttl in (8, 9):
        server.reload(corefile.replace("PROPERTY", f"ttl {ttl}\n pods verified"))
        assert server.query("web.testns.svc.cluster.local.").answer[0].ttl == ttl
        assert server.answers("172-0-0-10.testns.pod.cluster.local.") == ["172.0.0.10"]
    server.reload(corefile.replace("PROPERTY", ""))
    assert server.answers("172-0-0-10.testns.pod.cluster.local.") == ["NXDOMAIN"]


def test_without_an_api_server(serve) -> None:
    """Not synced: what cannot be found is a failure, not a denial; what needs no objects is answered."""
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n kubernetes cluster.local fall.test {\n endpoint http://127.0.0.1:9\n startup_timeout 100ms\n fallthrough fall.test\n }\n"
        " whoami\n}"
    )
    assert "[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API" in server.log()
    reply = server.query("web.a.svc.cluster.local.")
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert reply.flags & dns.flags.AA
    assert reply.authority[0].to_text().split()[:7] == ["cluster.local.", "5", "IN", "SOA", "ns.dns.cluster.local.", "hostmaster.cluster.local.", "0"]
    assert server.query("svc.cluster.local.").rcode() == dns.rcode.NOERROR
    assert server.query("cluster.local.", "SOA").answer
    assert server.answers("dns-version.cluster.local.", "TXT") == ['"1.1.0"']
    assert server.query("web.a.svc.fall.test.").additional  # whoami's
