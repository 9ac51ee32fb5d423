"""Names of what comes into a cluster, from the objects of a small API server, asked through a socket."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError

import dns.flags
import dns.query
import dns.zone
import pytest

from fastdns.plugins.k8s_gateway.gateway import Gateway
from fastdns.plugins.k8s_gateway.kinds import GATEWAY, HTTP_ROUTE
from fastdns.plugins.k8s_gateway.settings import Settings
from fastdns.plugins.kubernetes.objects import Watched
from fastdns.plugins.kubernetes.objects.informer import Informer
from tests.plugins.k8s_gateway.objects import Object, endpoint, gateway, ingress, node, route, service, slice_of
from tests.waiting import REPLY

IGNORED = {"k8s-gateway.dns/ignore": "true"}

OBJECTS: list[Object] = [
    service("shop/web", "192.0.2.1", "2001:db8::1"),
    service("shop/six", "2001:db8::6"),
    service("shop/none"),
    service("shop/inside", "192.0.2.2", type="ClusterIP"),
    service("shop/hidden", "192.0.2.3", labels=IGNORED),
    service("shop/fixed", "192.0.2.4", spec={"externalIPs": ["192.0.2.5", "192.0.2.6"]}),
    service("shop/named", "192.0.2.7", hostnames="named.example.org, Two.Example.org,relative"),
    service("shop/external", "192.0.2.8", annotations={"external-dns.alpha.kubernetes.io/hostname": "external.example.org"}),
    service("shop/wild", "192.0.2.9", hostnames="*.wild.example.org"),
    service("shop/alias", "lb.example.net"),
    service("shop/both", "192.0.2.10", "lb.example.net"),
    service("kube-system/dns1", "192.0.2.53", "2001:db8::53"),
    service("kube-system/dns2", "192.0.2.54"),
    ingress("shop/one", "198.51.100.1", hosts=("one.example.org", "", "apex.example.com")),
    ingress("shop/two", "198.51.100.2", hosts=("one.example.org", "two.example.org")),
    ingress("shop/apex", "198.51.100.3", hosts=("example.org",)),
    ingress("shop/hidden", "198.51.100.4", hosts=("hidden.example.org",), labels=IGNORED),
    ingress("shop/deep", "198.51.100.5", hosts=("a.deep.example.org",)),
    ingress("shop/foreign", "198.51.100.6", hosts=("www.example.net",)),
    gateway("edge/lab", "203.0.113.1", "2001:db8:1::1"),
    gateway("shop/edge", "203.0.113.2", klass="other"),
    gateway("shop/named", "gw.example.net"),
    route("shop/route", "route.example.org", "*.routes.example.org"),
    route("shop/far", "far.example.org", parents=("edge/lab", "edge")),
    route("shop/nowhere", "nowhere.example.org", parents=("missing",)),
    route("shop/mesh", "mesh.example.org", parents=({"name": "edge", "kind": "Service", "group": ""},)),
    route("shop/over", "one.example.org"),
    route("shop/alias", "gw.example.org", parents=("named",)),
    route("shop/tls", "tls.example.org", kind="TLSRoute"),
    route("shop/grpc", "grpc.example.org", kind="GRPCRoute"),
    endpoint(
        "shop/records",
        ("a.records.example.org", "A", ["192.0.2.20", "192.0.2.21", "not an address"], 30),
        ("a.records.example.org", "AAAA", ["2001:db8::20", "192.0.2.20"]),
        ("c.records.example.org", "CNAME", ["a.records.example.org"]),
        ("t.records.example.org", "TXT", ["heritage=external-dns", '"quoted text"', "x" * 300]),
        ("m.records.example.org", "MX", ["10 mail.example.org", "ten mail"]),
        ("s.records.example.org", "SRV", ["0 50 80 web.shop.example.org."]),
        ("example.org", "SOA", ["a. b. 1 2 3 4 5"]),
        ("example.org", "NS", ["ns.example.net"]),
        ("kube-system.example.org", "NS", ["ns.example.net"]),
        ("dns1.kube-system.example.org", "CNAME", ["elsewhere.example.net"]),
    ),
]

ANSWERS = [
    # services
    ("web.shop.example.org", "A", ["A 192.0.2.1"]),
    ("web.shop.example.org", "AAAA", ["AAAA 2001:db8::1"]),
    ("web.shop.example.org", "MX", []),
    ("six.shop.example.org", "A", []),
    ("none.shop.example.org", "A", ["NXDOMAIN"]),
    ("inside.shop.example.org", "A", ["NXDOMAIN"]),
    ("hidden.shop.example.org", "A", ["NXDOMAIN"]),
    ("fixed.shop.example.org", "A", ["A 192.0.2.5", "A 192.0.2.6"]),
    ("named.example.org", "A", ["A 192.0.2.7"]),
    ("two.example.org", "A", ["A 198.51.100.2"]),  # an ingress comes first
    ("relative.example.org", "A", ["A 192.0.2.7"]),
    ("named.shop.example.org", "A", ["NXDOMAIN"]),
    ("external.example.org", "A", ["A 192.0.2.8"]),
    ("any.wild.example.org", "A", ["A 192.0.2.9"]),
    ("any.time.wild.example.org", "A", ["A 192.0.2.9"]),
    ("wild.example.org", "A", []),
    ("alias.shop.example.org", "CNAME", ["CNAME lb.example.net."]),
    ("both.shop.example.org", "A", ["A 192.0.2.10"]),
    ("both.shop.example.org", "CNAME", []),
    # ingresses
    ("one.example.org", "A", ["A 203.0.113.2"]),  # a route comes first
    ("example.org", "A", ["A 198.51.100.3"]),
    ("hidden.example.org", "A", ["NXDOMAIN"]),
    ("deep.example.org", "A", []),  # there is a name below it
    ("b.deep.example.org", "A", ["NXDOMAIN"]),
    ("www.example.net.example.org", "A", ["A 198.51.100.6"]),
    ("one.example.org.example.org", "A", ["NXDOMAIN"]),
    # routes
    ("route.example.org", "A", ["A 203.0.113.2"]),
    ("x.routes.example.org", "A", ["A 203.0.113.2"]),
    ("far.example.org", "A", ["A 203.0.113.1", "A 203.0.113.2"]),
    ("far.example.org", "AAAA", ["AAAA 2001:db8:1::1"]),
    ("nowhere.example.org", "A", ["NXDOMAIN"]),
    ("mesh.example.org", "A", ["NXDOMAIN"]),
    ("gw.example.org", "CNAME", ["CNAME gw.example.net."]),
    ("tls.example.org", "A", ["A 203.0.113.2"]),
    ("grpc.example.org", "A", ["A 203.0.113.2"]),
    # DNSEndpoints
    ("a.records.example.org", "A", ["A 192.0.2.20", "A 192.0.2.21"]),
    ("a.records.example.org", "AAAA", ["AAAA 2001:db8::20"]),
    ("c.records.example.org", "A", ["CNAME a.records.example.org.", "a.records.example.org. A 192.0.2.20", "a.records.example.org. A 192.0.2.21"]),
    ("t.records.example.org", "TXT", ['TXT "heritage=external-dns"', 'TXT "quoted text"', f'TXT "{"x" * 255}" "{"x" * 45}"']),
    ("t.records.example.org", "A", []),
    ("m.records.example.org", "MX", ["MX 10 mail.example.org."]),
    ("s.records.example.org", "SRV", ["SRV 0 50 80 web.shop.example.org."]),
    # the apex
    ("example.org", "NS", ["NS dns1.kube-system.example.org.", "NS dns2.kube-system.example.org."]),
    ("dns1.kube-system.example.org", "A", ["A 192.0.2.53"]),
    ("dns1.kube-system.example.org", "AAAA", ["AAAA 2001:db8::53"]),
    ("dns1.kube-system.example.org", "TXT", []),
    ("x.dns1.kube-system.example.org", "A", ["NXDOMAIN"]),
    ("kube-system.example.org", "A", []),
    # names of others
    ("www.example.net", "A", ["NOERROR"]),
]


@pytest.fixture
def asked(gateway_of: Any) -> Any:
    return gateway_of(OBJECTS, "resources HTTPRoute TLSRoute GRPCRoute Ingress Service DNSEndpoint\nsecondary dns2.kube-system", more=" whoami")


def test_answers(asked: Any) -> None:
    wrong = {}
    for name, kind, expected in ANSWERS:
        found = asked.answer(name, kind)
        if name == "www.example.net":
            assert asked.server.query(name, kind).additional, "whoami answers"
        elif found != sorted(expected):
            wrong[name, kind] = found
    assert wrong == {}


def test_sections_flags_and_ttls(asked: Any) -> None:
    found = asked.server.query("web.shop.example.org", "A")
    assert found.flags & dns.flags.AA
    assert (found.answer[0].ttl, found.authority, found.additional) == (60, [], [])
    assert asked.server.query("a.records.example.org", "A").answer[0].ttl == 30
    (soa,) = asked.server.query("none.shop.example.org", "A").authority
    assert (soa.name.to_text(), soa.ttl) == ("example.org.", 60)
    assert soa[0].mname.to_text() == "dns1.kube-system.example.org."
    assert soa[0].rname.to_text() == "hostmaster.dns1.kube-system.example.org."
    assert (soa[0].refresh, soa[0].retry, soa[0].expire, soa[0].minimum) == (7200, 1800, 86400, 60)
    (own,) = asked.server.query("example.org", "SOA").answer
    assert own[0].serial == soa[0].serial
    servers = asked.server.query("example.org", "NS")
    glue = {(one.name.to_text(), record.to_text()) for one in servers.additional for record in one}
    assert glue == {
        ("dns1.kube-system.example.org.", "192.0.2.53"),
        ("dns1.kube-system.example.org.", "2001:db8::53"),
        ("dns2.kube-system.example.org.", "192.0.2.54"),
    }


def test_the_server_s_name_exists_without_a_service(gateway_of: Any) -> None:
    asked = gateway_of([ingress("a/any", "192.0.2.1", hosts=("*.example.org",))], "apex ns1.dns\nresources Ingress")
    assert asked.answer("ns1.dns.example.org") == asked.answer("dns.example.org") == []
    assert asked.answer("x.example.org") == ["A 192.0.2.1"]
    assert asked.answer("example.org", "NS") == ["NS ns1.dns.example.org."]


def test_an_alias_is_followed_through_the_server(gateway_of: Any) -> None:
    hosts = "hosts {\n 192.0.2.80 lb.example.net\n fallthrough\n}"
    asked = gateway_of([service("shop/web", "lb.example.net")], more=f" {hosts}", zones="example.org")
    # hosts stands above k8s_gateway in the chain; the query for the target begins at its top
    assert asked.answer("web.shop.example.org") == ["CNAME lb.example.net.", "lb.example.net. A 192.0.2.80"]


CHANGES = "resources HTTPRoute Ingress Service DNSEndpoint"


def test_objects_come_change_and_go(gateway_of: Any) -> None:
    asked = gateway_of((), CHANGES)
    api = asked.api
    assert asked.answer("web.shop.example.org") == ["NXDOMAIN"]
    before = asked.server.query("example.org", "SOA").answer[0][0].serial
    api.apply(service("shop/web", "192.0.2.1"))
    asked.becomes("web.shop.example.org", "A 192.0.2.1")
    assert asked.server.query("example.org", "SOA").answer[0][0].serial > before
    api.apply(service("shop/web", "192.0.2.2", "192.0.2.3"))
    asked.becomes("web.shop.example.org", "A 192.0.2.2", "A 192.0.2.3")
    api.apply(service("shop/web", "192.0.2.2", hostnames="web.example.org"))
    asked.becomes("web.example.org", "A 192.0.2.2")
    assert asked.answer("web.shop.example.org") == ["NXDOMAIN"]
    api.apply(ingress("shop/web", "192.0.2.9", hosts=("web.example.org",)))
    asked.becomes("web.example.org", "A 192.0.2.9")
    api.delete("ingresses shop/web")
    asked.becomes("web.example.org", "A 192.0.2.2")
    api.apply(service("shop/web", "192.0.2.2", hostnames="web.example.org", labels=IGNORED))
    asked.becomes("web.example.org", "NXDOMAIN")
    api.delete("services shop/web")
    api.apply(route("shop/late", "late.example.org"))
    api.apply(gateway("shop/edge", "203.0.113.7"))
    asked.becomes("late.example.org", "A 203.0.113.7")
    api.apply(gateway("shop/edge", "203.0.113.8"))
    asked.becomes("late.example.org", "A 203.0.113.8")
    api.apply(route("shop/late", "late.example.org", parents=("other",)))
    asked.becomes("late.example.org", "NXDOMAIN")
    api.apply(route("shop/late", "late.example.org"))
    asked.becomes("late.example.org", "A 203.0.113.8")
    api.delete("gateways shop/edge")
    asked.becomes("late.example.org", "NXDOMAIN")


def test_a_gateway_with_many_routes(gateway_of: Any) -> None:
    """They are changed some at a time; a change that comes meanwhile holds, and what is gone stays gone."""
    routes = [route(f"a/r{number}", f"h{number}.example.org") for number in range(5_000)]
    asked = gateway_of([gateway("a/edge", "203.0.113.1"), *routes], "resources HTTPRoute")
    asked.becomes("h4999.example.org", "A 203.0.113.1")
    asked.api.apply(gateway("a/edge", "203.0.113.2"))
    asked.api.delete("httproutes a/r998")
    asked.api.apply(route("a/r997", "other.example.org"))
    asked.api.apply(gateway("a/edge", "203.0.113.3"))
    for number in (0, 99, 100, 500, 999, 1999, 2000, 3999, 4000, 4999):
        asked.becomes(f"h{number}.example.org", "A 203.0.113.3")
    asked.becomes("other.example.org", "A 203.0.113.3")
    assert asked.answer("h998.example.org") == asked.answer("h997.example.org") == ["NXDOMAIN"]


def test_what_changes_no_record_makes_no_version() -> None:
    zones = Gateway("k8s_gateway", Settings(zones=["example.org."], resources=["HTTPRoute"], gateway_classes=["lab", "other"]))
    gateways, routes = Informer(Watched(GATEWAY)), Informer(Watched(HTTP_ROUTE))
    for informer in (gateways, routes):
        informer.attach(zones)
        informer.begin()
        informer.commit()
    versions: list[int | None] = []

    def told(informer: Informer, item: Object) -> bool:
        """Whether there is another version of the zone."""
        informer.take(json.dumps(item).encode(), False)
        informer.flush()
        versions.append(zones.handler.zones.zones[0].serial)
        return versions[-2:-1] != versions[-1:]

    assert told(gateways, gateway("a/edge", "203.0.113.1"))
    assert told(routes, route("a/web", "web.example.org"))
    assert not told(gateways, gateway("a/edge", "203.0.113.1", klass="other"))
    assert not told(gateways, gateway("a/none", "203.0.113.7"))
    assert not told(routes, route("a/web", "web.example.org", labels={"app": "web"}))
    assert not told(routes, route("a/again", "web.example.org"))
    assert told(gateways, gateway("a/edge", "203.0.113.2"))
    assert told(gateways, gateway("a/edge", "203.0.113.2", klass="foreign"))
    assert len(zones) == 0


def test_routes_that_share_gateways_and_change_them(gateway_of: Any) -> None:
    """Routes come to the claim of others and leave it; also those that name the same Gateways otherwise."""
    both = [gateway("a/one", "203.0.113.1"), gateway("a/two", "203.0.113.2")]
    asked = gateway_of([*both, route("a/x", "x.example.org", parents=("one",)), route("b/y", "y.example.org", parents=("a/one",))], "resources HTTPRoute")
    asked.becomes("y.example.org", "A 203.0.113.1")
    asked.api.apply(route("a/x", "x.example.org", parents=("one", "two")))
    asked.becomes("x.example.org", "A 203.0.113.1", "A 203.0.113.2")
    assert asked.answer("y.example.org") == ["A 203.0.113.1"]
    asked.api.apply(gateway("a/one", "203.0.113.3"))
    asked.becomes("x.example.org", "A 203.0.113.2", "A 203.0.113.3")
    asked.becomes("y.example.org", "A 203.0.113.3")
    asked.api.apply(route("b/y", "y.example.org", parents=("a/two",)))
    asked.becomes("y.example.org", "A 203.0.113.2")
    asked.api.apply(route("b/y", "x.example.org", parents=("a/two",)))
    asked.becomes("y.example.org", "NXDOMAIN")
    asked.api.delete("gateways a/one")
    asked.becomes("x.example.org", "A 203.0.113.2")
    asked.api.apply(route("a/x", "x.example.org", parents=("one",)))
    asked.api.delete("httproutes b/y")
    asked.becomes("x.example.org", "NXDOMAIN")
    asked.api.apply(gateway("a/one", "203.0.113.4"))
    asked.becomes("x.example.org", "A 203.0.113.4")
    asked.api.apply(route("a/x", "x.example.org", labels=IGNORED, parents=("one",)))
    asked.becomes("x.example.org", "NXDOMAIN")


def test_what_was_missed_is_caught_up(gateway_of: Any) -> None:
    """Events that were lost with a watch that cannot resume: the list is read anew."""
    asked = gateway_of([service("shop/old", "192.0.2.1"), service("shop/kept", "192.0.2.2")], CHANGES)
    asked.becomes("old.shop.example.org", "A 192.0.2.1")
    asked.api.delete("services shop/old")
    asked.api.apply(service("shop/new", "192.0.2.3"))
    asked.api.gone("event")
    asked.becomes("new.shop.example.org", "A 192.0.2.3")
    asked.becomes("old.shop.example.org", "NXDOMAIN")
    assert asked.answer("kept.shop.example.org") == ["A 192.0.2.2"]


def test_endpoints_of_a_service(gateway_of: Any) -> None:
    """EndpointSlices are watched once a service asks for them."""
    notes = {"k8s-gateway.dns/resolve-endpoints": "true"}
    slices = [slice_of("shop/db-1", "db", "10.1.0.1", "!10.1.0.2"), slice_of("shop/db-2", "db", "10.1.0.3"), slice_of("shop/web-1", "web", "10.1.0.9")]
    asked = gateway_of([service("shop/web", "192.0.2.1"), *slices], "resources Service")
    asked.becomes("web.shop.example.org", "A 192.0.2.1")
    assert not [path for path in asked.api.requests if "endpointslices" in path]
    asked.api.apply(service("shop/db", type="ClusterIP", spec={"clusterIP": "None"}, annotations=notes))
    asked.becomes("db.shop.example.org", "A 10.1.0.1", "A 10.1.0.3")
    asked.api.apply(slice_of("shop/db-1", "db", "10.1.0.1", "10.1.0.2"))
    asked.becomes("db.shop.example.org", "A 10.1.0.1", "A 10.1.0.2", "A 10.1.0.3")
    asked.api.delete("endpointslices shop/db-1")
    asked.becomes("db.shop.example.org", "A 10.1.0.3")


def test_classes_and_labels(gateway_of: Any) -> None:
    objects = [
        ingress("a/in", "192.0.2.1", hosts=("in.example.org",), klass="public"),
        ingress("a/out", "192.0.2.2", hosts=("out.example.org",), klass="private"),
        ingress("a/none", "192.0.2.3", hosts=("none.example.org",)),
        gateway("a/edge", "203.0.113.1", klass="lab"),
        gateway("a/other", "203.0.113.2", klass="prod"),
        route("a/both", "both.example.org", parents=("edge", "other")),
        service("a/east", "192.0.2.11", labels={"zone": "east"}),
        service("a/west", "192.0.2.12", labels={"zone": "west"}),
        service("a/north", "192.0.2.13", labels={"zone": "north"}),
    ]
    options = "resources HTTPRoute Ingress Service\ningressClasses public extra\ngatewayClasses lab\nserviceLabelSelectors zone=east 'zone in (west)'"
    asked = gateway_of(objects, options.replace("'", '"') + "\nttl 7")
    expected = {"in": ["A 192.0.2.1"], "out": ["NXDOMAIN"], "none": ["NXDOMAIN"], "both": ["A 203.0.113.1"]}
    expected |= {"east.a": ["A 192.0.2.11"], "west.a": ["A 192.0.2.12"], "north.a": ["NXDOMAIN"]}
    assert {name: asked.answer(f"{name}.example.org") for name in expected} == expected
    assert asked.server.query("in.example.org", "A").answer[0].ttl == 7


def test_the_order_of_resources_is_that_of_precedence(gateway_of: Any) -> None:
    objects = [service("a/b", "192.0.2.1", hostnames="x.example.org"), ingress("a/b", "192.0.2.2", hosts=("x.example.org",))]
    assert gateway_of(objects, "resources Service Ingress").answer("x.example.org") == ["A 192.0.2.1"]
    assert gateway_of(objects, "").answer("x.example.org") == ["A 192.0.2.2"]


def test_nodes(gateway_of: Any) -> None:
    one = node("one", ("Hostname", "one"), ("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1"), ("ExternalIP", "192.0.2.1"))
    inside = gateway_of([one], "resources Node")
    assert inside.answer("one.example.org") == ["A 10.0.0.1"]
    assert inside.answer("one.example.org", "AAAA") == ["AAAA fd00::1"]
    assert gateway_of([one], "resources Node\nnodeAddressType ExternalIP").answer("one.example.org") == ["A 192.0.2.1"]


def test_several_zones_and_fallthrough(gateway_of: Any) -> None:
    objects = [service("a/b", "192.0.2.1"), ingress("a/sub", "192.0.2.2", hosts=("x.sub.example.org", "y.example.net"))]
    asked = gateway_of(objects, "resources Service Ingress\nfallthrough example.net", zones="example.org sub.example.org example.net", more=" whoami")
    for zone in ("example.org", "sub.example.org", "example.net"):
        assert asked.answer(f"b.a.{zone}") == ["A 192.0.2.1"]
    assert asked.answer("x.sub.example.org") == ["A 192.0.2.2"]
    assert asked.answer("y.example.net") == ["A 192.0.2.2"]
    assert asked.answer("n.example.org") == ["NXDOMAIN"]
    assert asked.server.query("n.example.net", "A").additional, "whoami answers"
    assert asked.answer("y.example.net", "TXT") == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_version_that_the_server_has(gateway_of: Any, version: str) -> None:
    root = f"/apis/gateway.networking.k8s.io/{version}"
    asked = gateway_of([gateway("a/edge", "203.0.113.1"), route("a/r", "r.example.org"), service("a/b", "192.0.2.1")], absent=("httproutes", "gateways"))
    assert asked.answer("b.a.example.org") == ["A 192.0.2.1"]
    assert asked.answer("r.example.org") == ["NXDOMAIN"]
    for plural in ("httproutes", "gateways"):
        asked.api.install(plural, root)
    asked.becomes("r.example.org", "A 203.0.113.1")


def test_kinds_that_are_uninstalled(gateway_of: Any) -> None:
    asked = gateway_of([gateway("a/edge", "203.0.113.1"), route("a/r", "r.example.org")])
    asked.becomes("r.example.org", "A 203.0.113.1")
    asked.api.install("httproutes")
    asked.api.gone("event")
    asked.becomes("r.example.org", "NXDOMAIN")


def test_an_api_server_that_does_not_let_us_list(gateway_of: Any) -> None:
    """SERVFAIL and not ready until all kinds were listed; what is known is served on."""
    asked = gateway_of(
        [service("a/b", "192.0.2.1")], "resources Service Ingress\nstartup_timeout 0s", more=" ready 127.0.0.1:{port2}\n errors", granted=["services"]
    )
    port = asked.server.ports["port2"]
    assert asked.answer("b.a.example.org") == ["SERVFAIL"]
    asked.server.wait_log("could not sync required resources")
    with pytest.raises(HTTPError, match="503"):
        asked.server.get(port, "/ready")
    asked.api.grant("services", "ingresses")
    asked.becomes("b.a.example.org", "A 192.0.2.1")
    assert asked.server.get(port, "/ready") == "OK"
    asked.api.set_down(True)
    assert asked.answer("b.a.example.org") == ["A 192.0.2.1"]


def test_a_reload_keeps_what_is_known(gateway_of: Any) -> None:
    asked = gateway_of([service("a/b", "192.0.2.1")], "resources Service\nttl 9")
    asked.becomes("b.a.example.org", "A 192.0.2.1")
    asked.api.set_down(True)
    asked.server.reload(asked.corefile.replace("ttl 9", "ttl 5"))
    assert asked.server.query("b.a.example.org", "A").answer[0].ttl == 5


def test_a_transfer(gateway_of: Any) -> None:
    asked = gateway_of([service("a/b", "192.0.2.1")], "resources Service", more=" transfer example.org {\n  to *\n }")
    asked.becomes("b.a.example.org", "A 192.0.2.1")
    zone = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.org", port=asked.server.port, lifetime=REPLY))
    assert {name.to_text() for name in zone} == {"@", "b.a"}


def test_metrics(gateway_of: Any) -> None:
    asked = gateway_of([service("a/b", "192.0.2.1", hostnames="ok.example.org,bad!.example.org")], "resources Service", more=" prometheus 127.0.0.1:{port2}")
    asked.becomes("ok.example.org", "A 192.0.2.1")
    port = asked.server.ports["port2"]
    assert asked.server.metric(port, 'fastdns_kubernetes_object_names{plugin="k8s_gateway"}') == 1
    assert asked.server.metric(port, 'fastdns_kubernetes_object_records_left_out_total{plugin="k8s_gateway"}') == 1
