"""k8s_external: properties, names and their records, addresses, hosts of load balancers, changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.reversename
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.k8s_external import Settings, parse
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.setup import Controller
from fastdns.system import interfaces
from tests.apiserver.process import ApiServer
from tests.plugins.kubernetes.objects import Object, alias, manifest, namespace, service, slice_of
from tests.server import Server
from tests.waiting import until

# ---- set-up ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("k8s_external", Settings(["example.org."])),
        ("k8s_external Example.NET 10.0.0.0/8", Settings(["example.net.", "10.in-addr.arpa."])),
        ("k8s_external x.test {\n apex Names\n ttl 30\n headless\n fallthrough\n}", Settings(["x.test."], "Names", 30, True, ["."])),
        ("k8s_external x.test {\n ttl 0 and more\n fallthrough A.test\n}", Settings(["x.test."], ttl=0, fallthrough=["a.test."])),
        ("k8s_external x.test {\n ttl 9\n}\nk8s_external y.test {\n headless\n}", Settings(["y.test."], ttl=9, headless=True)),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text, ["example.org"])) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k8s_external {\n ttl\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'ttl'"),
        ("k8s_external {\n ttl x\n}", r'^strconv.Atoi: parsing "x": invalid syntax$'),
        ("k8s_external {\n ttl 3601\n}", r"Testfile:2 - Error during parsing: ttl must be in range \[0, 3600\]: 3601"),
        ("k8s_external {\n ttl -1\n}", r"ttl must be in range \[0, 3600\]: -1"),
        ("k8s_external {\n apex\n}", "Wrong argument count or unexpected line ending after 'apex'"),
        ("k8s_external {\n upstream\n}", "unknown property 'upstream'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=message):
        parse(Controller.of(text, ["example.org"]))


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("k8s_external", "plugin/k8s_external: kubernetes plugin not loaded"),
        (f"k8s_external {'.'.join(['a' * 60] * 4)}.x", "plugin/k8s_external: .*"),
    ],
)
def test_what_cannot_serve(serve: Callable[..., Server], directive: str, message: str) -> None:
    server = serve(f"example.org:{{port}} {{\n {directive}\n}}", wait=False)
    server.wait_log(message)
    assert server.process.wait() == 1


# ---- answers ----


def balanced(name: str, ip: str, *targets: str, external: tuple[str, ...] = (), **rest: Any) -> Object:
    """A service of type LoadBalancer: targets are the addresses or host names that it got."""
    made = service(name, ip, type="LoadBalancer", externalIPs=list(external), **rest)
    made["status"] = {"loadBalancer": {"ingress": [{"ip" if target[0].isdigit() else "hostname": target} for target in targets]}}
    return made


TWO = ("http:TCP:80", "https:TCP:443")
SERVICES = [
    balanced("testns/web", "10.0.0.1", "203.0.113.1", "203.0.113.2", ports=TWO),
    balanced("testns/six", "10.0.0.2", "2001:db8::5"),
    balanced("testns/both", "10.0.0.3", "203.0.113.3", external=("203.0.113.3", "2001:db8::3", "203.0.113.1")),
    balanced("testns/host", "10.0.0.4", "lb.provider.test"),
    balanced("testns/hosts", "10.0.0.5", "lb.provider.test", "203.0.113.5", ports=TWO),
    balanced("testns/lost", "10.0.0.6", "no.provider.test"),
    balanced("testns/inside", "10.0.0.7", "web.testns.example.org"),
    balanced("testns/self", "10.0.0.8", "self.testns.example.org"),
    balanced("testns/ping", "10.0.0.9", "pong.testns.example.org"),
    balanced("testns/pong", "10.0.0.10", "ping.testns.example.org"),
    service("testns/portless", "10.0.0.11", ports=(), externalIPs=["203.0.113.11"]),
    service("testns/internal", "10.0.0.12"),
    service("testns/hdls", "None", ports=TWO),
    service("testns/bare", "None"),
    service("testns/hdext", "None", externalIPs=["203.0.113.14"]),
    service("other/web", "10.0.1.1", externalIPs=["203.0.113.1"]),
    service("gone/web", "10.0.2.1", externalIPs=["203.0.113.99"]),
    alias("testns/ext", "lb.provider.test"),
    service("testns/dns", "10.0.0.15", externalIPs=["203.0.113.53", "2001:db8::53"]),
]
SLICES = [
    slice_of("testns/hdls-1", "hdls", "172.17.0.20;ep-0", "172.17.0.21;;pod-1", ports=TWO),
    slice_of("testns/hdls-2", "hdls", "fd00::20;ep-0", ports=TWO),
    slice_of("testns/internal-1", "internal", "172.17.0.30;in-0"),
    slice_of("testns/hdext-1", "hdext", "172.17.0.40;ext-0"),
]
SPACES = [namespace("testns"), namespace("other")]
CLUSTER = manifest((Kind.NAMESPACE, SPACES), (Kind.SERVICE, SERVICES), (Kind.SLICE, SLICES))

COREFILE = """
.:{port} {
    bind 127.0.0.1
    kubernetes cluster.local {
        manifests {dir}/cluster.jsonl
        ttl 7
    }
    k8s_external example.org 203.in-addr.arpa 8.b.d.0.1.0.0.2.ip6.arpa {
        ttl 30
    }
    hosts {
        192.0.2.1 lb.provider.test
        2001:db8::1 lb.provider.test
        fallthrough
    }
}
example.net:{port} {
    bind 127.0.0.1
    transfer {
        to *
    }
    kubernetes cluster.local {
        manifests {dir}/cluster.jsonl
        namespaces testns
        endpoint_pod_names
    }
    k8s_external example.net sub.example.net 203.example.net {
        apex Names
        headless
        fallthrough
    }
    file {dir}/db
}
example.com:{port} {
    bind 127.0.0.1
    kubernetes cluster.local {
        manifests {dir}/cluster.jsonl
        noendpoints
    }
    k8s_external example.com x.dns.example.com {
        headless
        fallthrough nowhere.example.com
    }
}
"""

BELOW = """\
@ 3600 IN SOA file. admin 1 2 3 4 5
nosuch.testns 3600 IN A 192.0.2.9
gone 3600 IN A 192.0.2.9
testns 3600 IN A 192.0.2.9
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("external")
    (folder / "cluster.jsonl").write_text(CLUSTER)
    (folder / "db").write_text(BELOW)
    made = Server(folder, COREFILE)
    made.wait_started()
    yield made
    made.stop()


def shown(reply: dns.message.Message) -> str:
    """``RCODE`` or ``NODATA`` with the SOA's owner or, of plugin file, its MNAME; or records: answers, then ``+`` additional ones."""
    lines = []
    for mark, section in (("", reply.answer), ("+", reply.additional)):
        for rrset in section:
            lines += sorted(mark + line.replace(" IN ", " ") for line in rrset.to_text().splitlines())
    if lines:
        assert not reply.authority
        return ", ".join(lines)
    soas = ["file." if rrset[0].mname.to_text() == "file." else rrset.name.to_text() for rrset in reply.authority]
    return " ".join([dns.rcode.to_text(reply.rcode()) if reply.rcode() else "NODATA", *soas])


SOA = "ns1.dns.example.org. hostmaster.dns.example.org. 0 7200 1800 86400 30"

NAMES = [
    # addresses
    ("web.testns.example.org", "A", "web.testns.example.org. 30 A 203.0.113.1, web.testns.example.org. 30 A 203.0.113.2"),
    ("web.testns.example.org", "AAAA", "NODATA example.org."),
    ("web.testns.example.org", "MX", "NODATA example.org."),
    ("WEB.testns.Example.Org", "A", "WEB.testns.Example.Org. 30 A 203.0.113.1, WEB.testns.Example.Org. 30 A 203.0.113.2"),
    ("six.testns.example.org", "AAAA", "six.testns.example.org. 30 AAAA 2001:db8::5"),
    ("both.testns.example.org", "A", "both.testns.example.org. 30 A 203.0.113.1, both.testns.example.org. 30 A 203.0.113.3"),
    ("portless.testns.example.org", "A", "portless.testns.example.org. 30 A 203.0.113.11"),
    ("portless.testns.example.org", "SRV", "NODATA example.org."),
    ("internal.testns.example.org", "A", "NXDOMAIN example.org."),
    ("hdls.testns.example.org", "A", "NXDOMAIN example.org."),
    ("ext.testns.example.org", "A", "NXDOMAIN example.org."),
    ("nosuch.testns.example.org", "TXT", "NXDOMAIN example.org."),
    ("web.gone.example.org", "A", "NXDOMAIN example.org."),
    ("testns.example.org", "A", "NODATA example.org."),
    ("gone.example.org", "A", "NXDOMAIN example.org."),
    # endpoint, port and protocol
    ("any.web.testns.example.org", "A", "any.web.testns.example.org. 30 A 203.0.113.1, any.web.testns.example.org. 30 A 203.0.113.2"),
    ("_https._tcp.six.testns.example.org", "AAAA", "NXDOMAIN example.org."),
    ("_http._udp.web.testns.example.org", "A", "NXDOMAIN example.org."),
    ("x._http._tcp.web.testns.example.org", "A", "NXDOMAIN example.org."),
    (
        "_HTTP.tcp.web.testns.example.org",
        "SRV",
        (
            "_HTTP.tcp.web.testns.example.org. 7 SRV 0 50 80 web.testns.example.org., "
            "+web.testns.example.org. 30 A 203.0.113.1, +web.testns.example.org. 30 A 203.0.113.2"
        ),
    ),
    (
        "web.testns.example.org",
        "SRV",
        (
            "web.testns.example.org. 7 SRV 0 25 443 web.testns.example.org., web.testns.example.org. 7 SRV 0 25 80 web.testns.example.org., "
            "+web.testns.example.org. 30 A 203.0.113.1, +web.testns.example.org. 30 A 203.0.113.2"
        ),
    ),
    ("_._.web.testns.example.org", "TXT", "NODATA example.org."),
    # the apex, and the name servers' part
    ("example.org", "SOA", f"example.org. 30 SOA {SOA}"),
    ("EXAMPLE.org", "SOA", f"example.org. 30 SOA {SOA}"),
    ("example.org", "NS", "example.org. 30 NS ns1.dns.example.org."),
    ("example.org", "A", "NODATA example.org."),
    ("dns.example.org", "NS", "NODATA example.org."),
    ("ns1.dns.example.org", "A", "NODATA example.org."),  # with bind no address of ours is known, as in CoreDNS
    ("ns2.dns.example.org", "A", "NXDOMAIN example.org."),
    ("x.ns1.dns.example.org", "A", "NXDOMAIN example.org."),
    ("dns.testns.example.org", "A", "dns.testns.example.org. 30 A 203.0.113.53"),
    ("names.example.net", "A", "NODATA example.net."),
    ("dns.example.net", "A", "NXDOMAIN file."),
    ("x.dns.example.com", "SOA", "NODATA x.dns.example.com."),
    ("web.testns.x.dns.example.com", "A", "NXDOMAIN x.dns.example.com."),
    # host names of load balancers
    ("host.testns.example.org", "A", "host.testns.example.org. 7 CNAME lb.provider.test., lb.provider.test. 3600 A 192.0.2.1"),
    ("host.testns.example.org", "AAAA", "host.testns.example.org. 7 CNAME lb.provider.test., lb.provider.test. 3600 AAAA 2001:db8::1"),
    ("host.testns.example.org", "CNAME", "NODATA example.org."),
    (
        "host.testns.example.org",
        "SRV",
        "host.testns.example.org. 7 SRV 0 100 80 lb.provider.test., +lb.provider.test. 3600 A 192.0.2.1, +lb.provider.test. 3600 AAAA 2001:db8::1",
    ),
    (
        "hosts.testns.example.org",
        "SRV",
        (
            "hosts.testns.example.org. 7 SRV 0 25 443 hosts.testns.example.org., hosts.testns.example.org. 7 SRV 0 25 443 lb.provider.test., "
            "hosts.testns.example.org. 7 SRV 0 25 80 hosts.testns.example.org., hosts.testns.example.org. 7 SRV 0 25 80 lb.provider.test., "
            "+hosts.testns.example.org. 30 A 203.0.113.5, +lb.provider.test. 3600 A 192.0.2.1, +lb.provider.test. 3600 AAAA 2001:db8::1"
        ),
    ),
    (
        "hosts.testns.example.org",
        "A",
        "hosts.testns.example.org. 7 CNAME lb.provider.test., hosts.testns.example.org. 30 A 203.0.113.5, lb.provider.test. 3600 A 192.0.2.1",
    ),
    ("lost.testns.example.org", "A", "lost.testns.example.org. 7 CNAME no.provider.test."),
    ("lost.testns.example.org", "SRV", "lost.testns.example.org. 7 SRV 0 100 80 no.provider.test."),
    (
        "inside.testns.example.org",
        "A",
        "inside.testns.example.org. 7 CNAME web.testns.example.org., web.testns.example.org. 30 A 203.0.113.1, web.testns.example.org. 30 A 203.0.113.2",
    ),
    ("self.testns.example.org", "A", "NODATA example.org."),
    # headless
    ("hdls.testns.example.net", "A", "hdls.testns.example.net. 5 A 172.17.0.20, hdls.testns.example.net. 5 A 172.17.0.21"),
    ("ep-0.hdls.testns.example.net", "AAAA", "ep-0.hdls.testns.example.net. 5 AAAA fd00::20"),
    ("_ep-0.hdls.testns.example.net", "A", "_ep-0.hdls.testns.example.net. 5 A 172.17.0.20"),
    ("pod-1.hdls.testns.sub.example.net", "A", "pod-1.hdls.testns.sub.example.net. 5 A 172.17.0.21"),
    ("172-17-0-21.hdls.testns.example.net", "A", "NXDOMAIN file."),
    (
        "_https._tcp.hdls.testns.example.net",
        "SRV",
        (
            "_https._tcp.hdls.testns.example.net. 5 SRV 0 33 443 ep-0.hdls.testns.example.net., "
            "_https._tcp.hdls.testns.example.net. 5 SRV 0 33 443 pod-1.hdls.testns.example.net., "
            "+ep-0.hdls.testns.example.net. 5 AAAA fd00::20, +ep-0.hdls.testns.example.net. 5 A 172.17.0.20, +pod-1.hdls.testns.example.net. 5 A 172.17.0.21"
        ),
    ),
    ("internal.testns.example.net", "A", "NXDOMAIN file."),
    ("in-0.internal.testns.example.net", "A", "in-0.internal.testns.example.net. 5 A 172.17.0.30"),
    ("ext-0.hdext.testns.example.net", "A", "ext-0.hdext.testns.example.net. 5 A 203.0.113.14"),
    ("bare.testns.example.net", "A", "NXDOMAIN file."),
    ("hdls.testns.example.com", "A", "NXDOMAIN example.com."),  # noendpoints, though another block watches them
    ("web.other.example.net", "A", "NXDOMAIN file."),  # not among namespaces
    # fallthrough: only for names that do not exist
    ("nosuch.testns.example.net", "A", "nosuch.testns.example.net. 3600 A 192.0.2.9"),
    ("gone.example.net", "A", "gone.example.net. 3600 A 192.0.2.9"),
    ("testns.example.net", "A", "NODATA example.net."),
    # reverse
    ("1.113.0.203.in-addr.arpa", "PTR", ["both.testns.example.org.", "web.other.example.org.", "web.testns.example.org."]),
    ("3.113.0.203.in-addr.arpa", "PTR", ["both.testns.example.org."]),
    ("99.113.0.203.in-addr.arpa", "PTR", ["web.gone.example.org."]),
    (dns.reversename.from_address("2001:db8::5").to_text(), "PTR", ["six.testns.example.org."]),
    (dns.reversename.from_address("2001:db8::6").to_text(), "PTR", "NXDOMAIN 8.b.d.0.1.0.0.2.ip6.arpa."),
    ("4.113.0.203.in-addr.arpa", "PTR", "NXDOMAIN 203.in-addr.arpa."),
    ("1.113.0.203.in-addr.arpa", "A", "NXDOMAIN 203.in-addr.arpa."),
    ("web.testns.example.org", "PTR", "NODATA example.org."),
    ("nosuch.testns.example.org", "PTR", "NXDOMAIN example.org."),
]


@pytest.mark.parametrize(("name", "rdtype", "wanted"), NAMES, ids=[f"{name} {rdtype}" for name, rdtype, _ in NAMES])
def test_names(server: Server, name: str, rdtype: str, wanted: str | list[str]) -> None:
    reply = server.query(name, rdtype)
    if isinstance(wanted, list):
        wanted = ", ".join(f"{dns.name.from_text(name)} 30 PTR {target}" for target in wanted)
    assert shown(reply) == wanted
    assert reply.flags & dns.flags.AA


def test_host_names_that_lead_in_a_circle_end(server: Server) -> None:
    reply = server.query("ping.testns.example.org", "A")
    assert {rrset.rdtype for rrset in reply.answer} <= {dns.rdatatype.CNAME}


def test_the_root_zone(serve: Callable[..., Server]) -> None:
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n kubernetes cluster.local {\n manifests cluster.jsonl\n }\n k8s_external . cluster.test\n}",
        prepare=lambda folder: (folder / "cluster.jsonl").write_text(CLUSTER),
    )
    assert server.answers("web.testns") == ["203.0.113.1", "203.0.113.2"]
    assert server.answers("1.113.0.203.in-addr.arpa", "PTR") == ["both.testns.", "web.other.", "web.testns."]
    assert shown(server.query(".", "NS")) == ". 5 NS ns1.dns."
    assert server.answers("web.testns", "SRV")[0] == "0 25 443 web.testns."
    assert shown(server.query("nosuch.cluster.test", "A")) == "NXDOMAIN cluster.test."


# ---- the zone's name server ----


def own_addresses() -> list[str]:
    found = [text for texts in interfaces.addresses().values() for text in texts if not text.startswith(("127.", "::1"))]
    return sorted({text.partition("%")[0] for text in found})


@pytest.mark.parametrize("case", ["behind a service", "behind a headless service", "alone"])
def test_the_name_server_has_the_addresses_of_its_service(serve: Callable[..., Server], case: str) -> None:
    own = own_addresses()
    if not own:
        pytest.skip("needs an address that is not of the loopback interface")
    slices = [] if case == "alone" else [slice_of("testns/dns-1", "dns", own[0])]
    services = SERVICES
    wanted = own if case == "alone" else ["203.0.113.53", "2001:db8::53"]
    if case == "behind a headless service":
        services, wanted = [service("testns/dns", "None")], [own[0], "172.17.0.9"]
        slices = [slice_of("testns/dns-1", "dns", own[0], "172.17.0.9")]
    text = manifest((Kind.NAMESPACE, SPACES), (Kind.SERVICE, services), (Kind.SLICE, slices))
    server = serve(
        ".:{port} {\n kubernetes cluster.local {\n manifests cluster.jsonl\n }\n k8s_external example.org {\n headless\n }\n}",
        prepare=lambda folder: (folder / "cluster.jsonl").write_text(text),
    )
    assert sorted(server.answers("ns1.dns.example.org", "A") + server.answers("ns1.dns.example.org", "AAAA")) == sorted(wanted)
    reply = server.query("Example.org", "NS")
    assert [rrset.to_text() for rrset in reply.answer] == ["example.org. 5 IN NS ns1.dns.example.org."]
    assert {rrset.name.to_text() for rrset in reply.additional} == {"ns1.dns.Example.org."}
    assert sorted(rdata.to_text() for rrset in reply.additional for rdata in rrset) == sorted(wanted)
    assert shown(server.query("ns1.dns.example.org", "NS")) == "NODATA example.org."


# ---- changes ----


def test_changes_are_followed(serve: Callable[..., Server]) -> None:
    def write(*targets: str) -> None:
        text = manifest((Kind.NAMESPACE, SPACES), (Kind.SERVICE, [balanced("testns/web", "10.0.0.1", *targets)]))
        new = server_folder / "new"
        new.write_text(text)
        new.replace(server_folder / "cluster.jsonl")

    server_folder = Path()

    def prepare(folder: Path) -> None:
        nonlocal server_folder
        server_folder = folder
        write("203.0.113.1", "203.0.113.1", "203.0.113.2", "lb.provider.test")

    server = serve(
        ".:{port} {\n bind 127.0.0.1\n kubernetes cluster.local {\n manifests cluster.jsonl\n }\n k8s_external example.org 203.in-addr.arpa\n}",
        prepare=prepare,
    )
    # A load balancer may name an address twice, and stop to: it is listed once for PTR queries, and gone with the last.
    for targets, pointers in [
        (("203.0.113.1", "203.0.113.3"), {1: True, 2: False, 3: True}),
        (("203.0.113.3", "203.0.113.3"), {1: False, 2: False, 3: True}),
        (("lb.provider.test",), {1: False, 2: False, 3: False}),
        (("203.0.113.2",), {1: False, 2: True, 3: False}),
    ]:
        write(*targets)
        for last, there in pointers.items():
            server.until(f"{last}.113.0.203.in-addr.arpa", "PTR", ["web.testns.example.org."] if there else ["NXDOMAIN"])
    assert int(server.answers("example.org", "SOA")[0].split()[2]) > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_load_balancer_gets_its_address_from_the_api(serve: Callable[..., Server], apiserver: ApiServer) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]}
    body = {"metadata": {"name": "outside", "namespace": "default"}, "spec": spec, "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}}
    made = apiserver.create(body)
    server = serve(
        f".:{{port}} {{\n bind 127.0.0.1\n kubernetes cluster.local {{\n endpoint {apiserver.http}\n }}\n k8s_external example.org 203.in-addr.arpa\n}}"
    )
    server.until("outside.default.example.org", "A", ["203.0.113.1"])
    path = "/api/v1/namespaces/default/services/outside"
    made["status"]["loadBalancer"]["ingress"] = [{"ip": "203.0.113.2"}, {"ip": "2001:db8::2"}]
    apiserver.ask("PUT", path, made)
    server.until("outside.default.example.org", "A", ["203.0.113.2"])
    assert server.answers("outside.default.example.org", "AAAA") == ["2001:db8::2"]
    assert server.answers("2.113.0.203.in-addr.arpa", "PTR") == ["outside.default.example.org."]
    assert server.answers("1.113.0.203.in-addr.arpa", "PTR") == ["NXDOMAIN"]
    serial = int(server.answers("example.org", "SOA")[0].split()[2])
    assert serial > 0
    apiserver.ask("DELETE", path)
    server.until("outside.default.example.org", "A", ["NXDOMAIN"])
    assert server.answers("2.113.0.203.in-addr.arpa", "PTR") == ["NXDOMAIN"]
    until(lambda: int(server.answers("example.org", "SOA")[0].split()[2]) == serial, "the serial that only updates move")
