"""A cache in front of kubernetes: what it has of a name goes when the name's objects change, long before the end of its TTL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.reversename
import pytest

from tests.conformance.kube_api import KubeAPI
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
FakeKube = Callable[..., KubeAPI]

OBJECTS = ["ns shop", "ns other", "svc shop/web 10.0.0.1 ports=http:TCP:80", "svc other/web 10.0.0.2 ports=http:TCP:80"]
BLOCK = """
cluster.local:{{port}} in-addr.arpa:{{port}} ip6.arpa:{{port}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{port2}}
    {cache}
    {between}
    kubernetes {{
        endpoint {url}
        ttl {ttl}
        pods insecure
    }}
}}
"""
#: An answer that was read while the file `hold` is there leaves when `go` is; then `gone` is, too.
HOLD = """
import asyncio, pathlib
from fastdns.plugin import Controller, Plugin

before = "kubernetes"

class Hold(Plugin):
    deadline = 60

    async def serve(self, query, next):
        folder = pathlib.Path(__file__).parent
        held = (folder / "hold").exists()
        answer = await next(query)
        if held:
            (folder / "held").touch()
            while not (folder / "go").exists():
                await asyncio.sleep(0.01)
            (folder / "gone").touch()
        return answer

def setup(controller):
    return Hold()
"""


def start(serve: Serve, api: KubeAPI, cache: str = "cache 3600", between: str = "", ttl: int = 3600) -> Server:
    server = serve(BLOCK.format(cache=cache, between=between, url=api.url, ttl=ttl))
    until(lambda: ask(server, "web.shop") == ["10.0.0.1"], "the first list")
    return server


def ask(server: Server, name: str, rdtype: str = "A", flags: int = 0, **options: object) -> list[str]:
    """The answer's records, sorted, or the rcode. A name without a final dot stands in svc.cluster.local."""
    request = dns.message.make_query(name if name.endswith(".") else f"{name}.svc.cluster.local.", rdtype, **options)  # type: ignore[arg-type]
    request.flags |= flags
    reply = server.send(request)
    texts = sorted(record.to_text() for rrset in reply.answer for record in rrset if rrset.rdtype == dns.rdatatype.from_text(rdtype))
    return texts or [dns.rcode.to_text(reply.rcode())]


def removed(server: Server, kind: str = "success", zones: str = "cluster.local.,in-addr.arpa.,ip6.arpa.") -> float:
    return server.metric(server.ports["port2"], f'fastdns_cache_removals_total{{type="{kind}",view="",zones="{zones}"}}') or 0


def reverse(address: str) -> str:
    return dns.reversename.from_address(address).to_text()


#: What stands before, what happens, and what is answered before and after it.
CHANGES: list[tuple[str, list[str], Callable[[KubeAPI], object], list[tuple[str, str, list[str], list[str]]]]] = [
    (
        "a service gets another address",
        [],
        lambda api: api.apply("svc shop/web 10.0.0.9 ports=http:TCP:8080"),
        [
            ("web.shop", "A", ["10.0.0.1"], ["10.0.0.9"]),
            ("_http._tcp.web.shop", "SRV", ["0 100 80 web.shop.svc.cluster.local."], ["0 100 8080 web.shop.svc.cluster.local."]),
            ("web.shop", "SRV", ["0 100 80 web.shop.svc.cluster.local."], ["0 100 8080 web.shop.svc.cluster.local."]),
            (reverse("10.0.0.1"), "PTR", ["web.shop.svc.cluster.local."], ["NXDOMAIN"]),
            (reverse("10.0.0.9"), "PTR", ["NXDOMAIN"], ["web.shop.svc.cluster.local."]),
        ],
    ),
    (
        "a service becomes one of both families",
        [],
        lambda api: api.apply("svc shop/web 10.0.0.1,fd00::1"),
        [("web.shop", "AAAA", ["NOERROR"], ["fd00::1"]), (reverse("fd00::1"), "PTR", ["NXDOMAIN"], ["web.shop.svc.cluster.local."])],
    ),
    (
        "a service comes",
        [],
        lambda api: api.apply("svc shop/new 10.0.0.7"),
        [("new.shop", "A", ["NXDOMAIN"], ["10.0.0.7"]), ("_http._tcp.new.shop", "SRV", ["NXDOMAIN"], ["NXDOMAIN"])],
    ),
    ("a service goes", [], lambda api: api.delete("svc shop/web"), [("web.shop", "A", ["10.0.0.1"], ["NXDOMAIN"])]),
    (
        "a port comes",
        [],
        lambda api: api.apply("svc shop/web 10.0.0.1 ports=http:TCP:80,dns:UDP:53"),
        [("_dns._udp.web.shop", "SRV", ["NXDOMAIN"], ["0 100 53 web.shop.svc.cluster.local."])],
    ),
    (
        "endpoints of a headless service change",
        ["svc shop/db None", "eps shop/db ports=sql:TCP:5432 10.1.0.1;host=one 10.1.0.2;host=two"],
        lambda api: api.apply("eps shop/db ports=sql:TCP:5432 10.1.0.1;host=one 10.1.0.3;host=two 10.1.0.4;host=three"),
        [
            ("db.shop", "A", ["10.1.0.1", "10.1.0.2"], ["10.1.0.1", "10.1.0.3", "10.1.0.4"]),
            ("two.db.shop", "A", ["10.1.0.2"], ["10.1.0.3"]),
            ("three.db.shop", "A", ["NXDOMAIN"], ["10.1.0.4"]),
            (reverse("10.1.0.2"), "PTR", ["two.db.shop.svc.cluster.local."], ["NXDOMAIN"]),
            (reverse("10.1.0.3"), "PTR", ["NXDOMAIN"], ["two.db.shop.svc.cluster.local."]),
            (reverse("10.1.0.4"), "PTR", ["NXDOMAIN"], ["three.db.shop.svc.cluster.local."]),
        ],
    ),
    (
        "an endpoint gets another name",
        ["svc shop/db None", "eps shop/db 10.1.0.1;host=one"],
        lambda api: api.apply("eps shop/db 10.1.0.1;host=uno"),
        [
            ("one.db.shop", "A", ["10.1.0.1"], ["NXDOMAIN"]),
            (reverse("10.1.0.1"), "PTR", ["one.db.shop.svc.cluster.local."], ["uno.db.shop.svc.cluster.local."]),
        ],
    ),
    (
        "a slice goes",
        ["svc shop/db None", "eps shop/db slice=db-1 10.1.0.1;host=one"],
        lambda api: api.delete("eps shop/db-1"),
        [("db.shop", "A", ["10.1.0.1"], ["NXDOMAIN"]), ("one.db.shop", "A", ["10.1.0.1"], ["NXDOMAIN"]),
         (reverse("10.1.0.1"), "PTR", ["one.db.shop.svc.cluster.local."], ["NXDOMAIN"])],
    ),
    (
        "a namespace comes after its service",
        ["svc late/web 10.0.0.5"],
        lambda api: api.apply("ns late"),
        [
            ("web.late", "A", ["NXDOMAIN"], ["10.0.0.5"]),
            ("late.svc.cluster.local.", "A", ["NXDOMAIN"], ["NOERROR"]),
            ("10-9-8-7.late.pod.cluster.local.", "A", ["NXDOMAIN"], ["10.9.8.7"]),
        ],
    ),
    (
        "a namespace goes",
        [],
        lambda api: api.delete("ns shop"),
        [
            ("web.shop", "A", ["10.0.0.1"], ["NXDOMAIN"]),
            ("shop.svc.cluster.local.", "A", ["NOERROR"], ["NXDOMAIN"]),
            ("10-9-8-7.shop.pod.cluster.local.", "A", ["10.9.8.7"], ["NXDOMAIN"]),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "change", "names"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_a_change_removes_its_names(
    serve: Serve, fakekube: FakeKube, objects: list[str], change: Callable[[KubeAPI], object], names: list[tuple[str, str, list[str], list[str]]]
) -> None:
    api = fakekube([*OBJECTS, *objects])
    server = start(serve, api)
    kept = [("web.other", "A", ["10.0.0.2"]), ("none.other", "A", ["NXDOMAIN"]), (reverse("10.0.0.2"), "PTR", ["web.other.svc.cluster.local."])]
    for name, rdtype, before, *_ in [*names, *kept] * 2:
        assert ask(server, name, rdtype) == before
    change(api)
    for name, rdtype, _, after in names:
        until(lambda name=name, rdtype=rdtype, after=after: ask(server, name, rdtype) == after, f"{name} {rdtype} {after}")  # type: ignore[misc]
    # What has not changed is still there: nothing of it is asked for again.
    misses = f'coredns_cache_misses_total{{server="dns://127.0.0.1:{server.port}",view="",zones="cluster.local.,in-addr.arpa.,ip6.arpa."}}'
    before_all = server.metric(server.ports["port2"], misses)
    for name, rdtype, before in kept:
        assert ask(server, name, rdtype) == before
    assert server.metric(server.ports["port2"], misses) == before_all


def test_all_variants_of_a_name_go_and_are_counted(serve: Serve, fakekube: FakeKube) -> None:
    api = fakekube(OBJECTS)
    server = start(serve, api)
    variants: list[dict[str, object]] = [{}, {"want_dnssec": True}, {"flags": dns.flags.CD}, {"want_dnssec": True, "flags": dns.flags.CD}]
    for variant in variants:
        assert ask(server, "web.shop", **variant) == ["10.0.0.1"]  # type: ignore[arg-type]
        assert ask(server, "web.shop", "MX", **variant) == ["NOERROR"]  # type: ignore[arg-type]
    assert (removed(server), removed(server, "denial")) == (0, 0)
    api.apply("svc shop/web 10.0.0.9")
    for variant in variants:
        until(lambda variant=variant: ask(server, "web.shop", **variant) == ["10.0.0.9"])  # type: ignore[misc]
    assert (removed(server), removed(server, "denial")) == (len(variants), len(variants))


def test_a_name_with_many_below_it(serve: Serve, fakekube: FakeKube) -> None:
    """The removal takes more than one turn of the worker."""
    api = fakekube(OBJECTS)
    server = start(serve, api)
    names = [f"10-0-{number // 100}-{number % 100}.shop.pod.cluster.local." for number in range(6000)]
    for name in names:
        assert ask(server, name) == [name.partition(".")[0].replace("-", ".")]
    api.delete("ns shop")
    until(lambda: removed(server) >= len(names))
    for name in names:
        assert ask(server, name) == ["NXDOMAIN"]


def test_blocks_that_share_the_cluster(serve: Serve, fakekube: FakeKube) -> None:
    api = fakekube(OBJECTS)
    block = BLOCK.format(cache="cache 3600", between="", url=api.url, ttl=3600)
    server = serve(block + block.replace("{port}", "{port3}").replace("prometheus 127.0.0.1:{port2}", ""))
    for port in ("port", "port3"):
        until(lambda port=port: server.query("web.shop.svc.cluster.local.", port=server.ports[port]).answer)  # type: ignore[misc]
    api.delete("svc shop/web")
    for port in ("port", "port3"):
        until(lambda port=port: not server.query("web.shop.svc.cluster.local.", port=server.ports[port]).answer)  # type: ignore[misc]


def test_after_a_reload(serve: Serve, fakekube: FakeKube) -> None:
    """The cache that serves then hears of changes, and the one before no more."""
    api = fakekube(OBJECTS)
    server = start(serve, api)
    for address in ("10.0.0.11", "10.0.0.12"):
        server.reload(server.corefile.read_text() + "#")
        ask(server, "web.shop")
        api.apply(f"svc shop/web {address}")
        until(lambda address=address: ask(server, "web.shop") == [address])  # type: ignore[misc]


def test_after_reloads_that_keep_the_cache(serve: Serve, fakekube: FakeKube) -> None:
    """Another block changes. Both handlers of the cache hear of changes then, until the former one has gone; no change of that time is lost."""
    api = fakekube(OBJECTS)
    other = "other.test:{{port3}} {{\n bind 127.0.0.1\n {plugin}\n}}\n"
    block = BLOCK.format(cache="cache 3600", between="", url=api.url, ttl=3600)
    server = serve(block + other.format(plugin="whoami"))
    until(lambda: ask(server, "web.shop") == ["10.0.0.1"])
    labels = f'server="dns://127.0.0.1:{server.port}",type="success",view="",zones="cluster.local.,in-addr.arpa.,ip6.arpa."'
    for number in range(1, 9):
        api.apply(f"svc shop/web 10.0.1.{number}")
        until(lambda number=number: ask(server, "web.shop") == [f"10.0.1.{number}"])  # type: ignore[misc]
        changes = threading.Thread(target=lambda number=number: [api.apply(f"svc shop/web 10.{number}.2.{last}") for last in range(100)])  # type: ignore[misc]
        changes.start()
        server.reload(block + other.format(plugin="erratic" if number % 2 else "whoami"))
        changes.join()
        until(lambda number=number: ask(server, "web.shop") == [f"10.{number}.2.99"])  # type: ignore[misc]
        ask(server, "web.other")
        kept = server.metric(server.ports["port2"], f"coredns_cache_hits_total{{{labels}}}")
        server.reload(block + other.format(plugin="whoami" if number % 2 else "erratic"))
        assert ask(server, "web.other") == ["10.0.0.2"]
        assert server.metric(server.ports["port2"], f"coredns_cache_hits_total{{{labels}}}") == kept + 1
        api.apply(f"svc other/web 10.0.0.2 ports=p{number}:TCP:80")
        until(lambda number=number: ask(server, f"_p{number}._tcp.web.other", "SRV") != ["NXDOMAIN"])  # type: ignore[misc]


def test_external_names(serve: Serve, fakekube: FakeKube) -> None:
    api = fakekube([*OBJECTS, "svc shop/shown 10.0.0.3 ext=192.0.2.1"])
    block = BLOCK.format(cache="cache 3600", between="k8s_external outside.test 2.0.192.in-addr.arpa {\n ttl 3600\n }", url=api.url, ttl=3600)
    server = serve(block.replace("cluster.local:", "cluster.local:{port} outside.test:", 1))
    until(lambda: ask(server, "shown.shop.outside.test.") == ["192.0.2.1"])
    asked = [("shown.shop.outside.test.", "A"), ("late.shop.outside.test.", "A"), (reverse("192.0.2.1"), "PTR")]
    assert [ask(server, *question) for question in asked] == [["192.0.2.1"], ["NXDOMAIN"], ["shown.shop.outside.test."]]
    api.apply("svc shop/shown 10.0.0.3 ext=192.0.2.2")
    api.apply("svc shop/late 10.0.0.4 ext=192.0.2.1")
    wanted = [["192.0.2.2"], ["192.0.2.1"], ["late.shop.outside.test."]]
    until(lambda: [ask(server, *question) for question in asked] == wanted)


def test_nothing_is_told_to_a_cache_that_keeps_nothing_of_the_zone(serve: Serve, fakekube: FakeKube) -> None:
    api = fakekube(OBJECTS)
    disabled = "cache 30 {{\n disable success cluster.local arpa\n disable denial cluster.local arpa\n }}"
    server = start(serve, api, cache=disabled.replace("{{", "{").replace("}}", "}"))
    api.apply("svc shop/web 10.0.0.9")
    until(lambda: ask(server, "web.shop") == ["10.0.0.9"])
    assert "fastdns_cache_removals_total{" not in server.get(server.ports["port2"], "/metrics")


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "hold_plugin.py").write_text(HOLD)
    return folder


def test_a_query_under_way_does_not_bring_the_old_answer_back(serve: Serve, fakekube: FakeKube, hold: Path) -> None:
    api = fakekube([*OBJECTS, "svc shop/old 10.0.0.5"])
    server = start(serve, api, between=f"plugin {hold}/hold_plugin.py")
    (hold / "hold").touch()
    answers: list[list[str]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(server, "old.shop")))
    thread.start()
    until((hold / "held").exists)
    (hold / "hold").unlink()
    api.apply("svc shop/old 10.0.0.6")
    until(lambda: ask(server, "old.shop") == ["10.0.0.6"])
    (hold / "go").touch()
    thread.join(LIMIT)
    assert answers == [["10.0.0.5"]]  # as it was when it was asked
    assert ask(server, "old.shop") == ["10.0.0.6"]


def test_a_refresh_under_way_does_not_either(serve: Serve, fakekube: FakeKube, hold: Path) -> None:
    api = fakekube([*OBJECTS, "svc shop/old 10.0.0.5"])
    cache = "cache 3600 {\n success 1024 3600 1\n prefetch 1 1m 90%\n }"
    server = start(serve, api, cache, f"plugin {hold}/hold_plugin.py", ttl=10)
    assert ask(server, "old.shop") == ["10.0.0.5"]
    (hold / "hold").touch()
    until(lambda: ask(server, "old.shop") == ["10.0.0.5"] and (hold / "held").exists())
    (hold / "hold").unlink()
    api.apply("svc shop/old 10.0.0.6")
    until(lambda: ask(server, "old.shop") == ["10.0.0.6"])
    (hold / "go").touch()
    until((hold / "gone").exists)
    for _ in range(50):
        assert ask(server, "old.shop") == ["10.0.0.6"]
