"""top through a socket: what is counted, by whom it was asked, and what is not."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import pytest
import yaml

from fastdns.corefile import CorefileError
from fastdns.plugins.top import parse
from fastdns.server import control
from fastdns.setup import Controller
from fastdns.testing import Upstream
from tests.load import Load
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1
    top OPTIONS
    REST
}
"""
ZONE = """$ORIGIN example.org.
@ 3600 SOA ns hostmaster 1 7200 3600 1209600 3600
@ NS ns
ns A 192.0.2.1
*.wild A 192.0.2.4
large TXT {texts}
"""


def corefile(rest: str, options: str = "") -> str:
    return COREFILE.replace("OPTIONS", f"{{\n        {options}\n    }}" if options else "").replace("REST", rest)


def tables(server: Server, **request: Any) -> dict[str, Any]:
    return control.ask({"sections": ["top"], **request}, server.pid)["top"]


def rows(server: Server, table: str, **request: Any) -> dict[str, int]:
    """Counts by the only or first member of the key."""
    return {next(iter(row["key"].values())): row["count"] for row in tables(server, **request)["tables"][table]["rows"]}


@pytest.fixture
def zone(serve: Serve, tmp_path: Path) -> Server:
    (tmp_path / "zone").write_text(ZONE.replace("{texts}", " ".join(f'"{"x" * 250}"' for _ in range(6))))
    return serve(corefile(f"file {tmp_path}/zone example.org"))


def test_names_domains_and_clients(zone: Server) -> None:
    wanted = {"a.wild.example.org.": 7, "b.wild.example.org.": 4, "ns.example.org.": 2}
    for name, times in wanted.items():
        for _ in range(times):
            zone.query(name)
    found = tables(zone)
    assert (found["window"], found["sampled"]) == (60, 1)
    assert rows(zone, "names") == wanted
    assert rows(zone, "domains") == {"example.org.": 13}
    assert rows(zone, "clients") == {"127.0.0.1": 13}
    assert found["tables"]["names"]["rows"][0] == {"key": {"name": "a.wild.example.org."}, "count": 7, "error": 0}
    assert found["tables"]["names"]["total"] == 13


def test_letters_do_not_matter_and_other_octets_are_escaped(zone: Server) -> None:
    zone.query("A.wild.Example.ORG")
    zone.query("a.wild.example.org")
    zone.query(r"\"<script>\007.wild.example.org")
    assert rows(zone, "names") == {"a.wild.example.org.": 2, r"\"<script>\007.wild.example.org.": 1}


def test_a_name_that_is_too_long_is_cut(zone: Server) -> None:
    for letter in "xxy":
        zone.query(f"{letter * 60}.{'z' * 60}.wild.example.org")
    found = tables(zone)["tables"]["names"]["rows"]
    assert [(row["count"], row["key"]) for row in found] == [
        (2, {"name": f"{'z' * 60}.wild.example.org.", "cut": True}),
        (1, {"name": f"{'z' * 60}.wild.example.org.", "cut": True}),
    ]


def test_names_that_do_not_exist(zone: Server) -> None:
    for name in ("no.example.org", "no.example.org", "nor.example.org", "ns.example.org"):
        zone.query(name)
    assert rows(zone, "nxdomain_names") == {"no.example.org.": 2, "nor.example.org.": 1}
    assert rows(zone, "nxdomain_clients") == {"127.0.0.1": 3}


def test_aaaa_without_addresses(zone: Server) -> None:
    for _ in range(3):
        zone.query("ns.example.org", "AAAA")
    zone.query("ns.example.org", "A")
    zone.query("ns.example.org", "MX")
    assert rows(zone, "aaaa_waste") == {"ns.example.org.": 3}


def test_large_answers(zone: Server) -> None:
    zone.query("large.example.org", "TXT", tcp=True)
    zone.query("ns.example.org", "A", tcp=True)
    assert rows(zone, "large_answers") == {"large.example.org.": 1}


def test_search_domains(serve: Serve) -> None:
    """What resolvers of pods make of three names: of "db" nothing is wasted."""
    server = serve(corefile("template IN ANY cluster.local {\n rcode NXDOMAIN\n }\n template IN ANY . {\n rcode NXDOMAIN\n }"))
    for name in ("www.example.com", "api.shop"):
        for domain in ("web.svc.cluster.local", "svc.cluster.local", "cluster.local", ""):
            server.query(f"{name}.{domain}".rstrip("."))
    server.query("db.web.svc.cluster.local")
    assert rows(server, "search_waste") == {"www.example.com.": 3, "api.shop.": 3}


def test_search_domains_of_other_zones(serve: Serve) -> None:
    server = serve(corefile("template IN ANY . {\n rcode NXDOMAIN\n }", "search corp.test"))
    server.query("www.example.com.corp.test")
    server.query("www.example.com.cluster.local")
    assert rows(server, "search_waste") == {"www.example.com.": 1}


def test_causes_of_servfail(serve: Serve) -> None:
    """One row for one cause, though each query has another port."""

    def answer(query: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(query)
        reply.set_rcode(2)
        return reply

    with Upstream(answer) as fails, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        server = serve(corefile(f"forward fails.test {fails.address}\n forward silent.test {address}"))
        for number in range(3):
            server.query(f"{number}.fails.test")
        for number in range(2):
            server.query(f"{number}.silent.test", timeout=10)
        found = rows(server, "servfail_causes")
        assert found == {"forward": 3, f"forward: read udp {address}: i/o timeout": 2}
        slow = tables(server)["tables"]["slow_upstream_names"]
        assert {row["key"]["name"] for row in slow["rows"]} >= {"0.silent.test.", "1.silent.test."}
        # Microseconds: each waited for seconds.
        assert all(row["count"] > 1_000_000 for row in slow["rows"] if "silent" in row["key"]["name"])


def test_children_and_explained_queries_do_not_count(serve: Serve) -> None:
    server = serve(corefile("rewrite cname exact a.test. b.test.\n hosts {\n 192.0.2.1 b.test\n }"))
    assert server.answers("a.test")
    assert rows(server, "names") == {"a.test.": 1}


@pytest.fixture
def pods(serve: Serve, tmp_path: Path) -> Callable[[str], Server]:
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeName": node},
            "status": {"podIP": address, "phase": "Running"},
        }
        for name, namespace, node, address in (
            ("storm", "shop", "node1", "127.0.0.10"),
            ("web", "shop", "node2", "127.0.0.11"),
            ("probe", "lab", "node1", "127.0.0.12"),
        )
    ]
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(objects))
    rest = "prometheus 127.0.0.1:{port9}\n kubernetes cluster.local {\n manifests {folder}/pods.yaml\n pods verified\n TOPOLOGY\n }\n whoami"
    return lambda topology: serve(corefile(rest.replace("{folder}", str(tmp_path)).replace("TOPOLOGY", topology), "metrics"))


def ask(server: Server, source: str, times: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((source, 0))
        one.settimeout(5)
        for _ in range(times):
            one.sendto(dns.message.make_query("example.org", "A").to_wire(), ("127.0.0.1", server.port))
            one.recv(4096)


def test_pods_of_clients(pods: Callable[[str], Server]) -> None:
    server = pods("topology zone")
    for address, times in (("127.0.0.10", 30), ("127.0.0.11", 2), ("127.0.0.12", 5), ("127.0.0.1", 1)):
        ask(server, address, times)
    assert [(row["key"], row["count"]) for row in tables(server)["tables"]["clients"]["rows"]] == [
        ({"address": "127.0.0.10", "namespace": "shop", "pod": "storm", "node": "node1"}, 30),
        ({"address": "127.0.0.12", "namespace": "lab", "pod": "probe", "node": "node1"}, 5),
        ({"address": "127.0.0.11", "namespace": "shop", "pod": "web", "node": "node2"}, 2),
        ({"address": "127.0.0.1"}, 1),
    ]


def test_namespaces_in_metrics(pods: Callable[[str], Server]) -> None:
    server = pods("")
    ask(server, "127.0.0.10", 30)
    ask(server, "127.0.0.12", 5)
    until(lambda: 'fastdns_top_queries{client_namespace="shop"} 30' in server.get(server.ports["port9"], "/metrics"), 40)
    assert 'fastdns_top_queries{client_namespace="lab"} 5' in server.get(server.ports["port9"], "/metrics")
    assert "node" not in tables(server)["tables"]["clients"]["rows"][0]["key"]


def test_a_zipf_stream(zone: Server) -> None:
    """4,000 queries whose truth is known, through the server: no count too low, none less its error too high."""
    stream = random.Random(5).choices(range(2000), weights=[1 / (key + 1) for key in range(2000)], k=4000)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(5)
        for key in stream:
            time.sleep(0.0001)  # below 10,000 queries a second, so that each one counts
            one.sendto(dns.message.make_query(f"n{key}.wild.example.org", "A").to_wire(), ("127.0.0.1", zone.port))
            one.recv(4096)
    found = tables(zone, most=256)
    assert found["sampled"] == 1
    table = found["tables"]["names"]
    truth = Counter(f"n{key}.wild.example.org." for key in stream)
    assert table["total"] == 4000
    assert table["error"] <= 2 * 4000 / 256
    for row in table["rows"]:
        assert row["count"] - row["error"] <= truth[row["key"]["name"]] <= row["count"]
    assert {name for name, times in truth.items() if times > table["error"]} <= {row["key"]["name"] for row in table["rows"]}


@pytest.mark.timing
def test_a_sample_of_many_queries(serve: Serve) -> None:
    """Above 10,000 queries a second a sample stands for all: its total is theirs."""
    server = serve(corefile("prometheus 127.0.0.1:{port9}\n hosts {\n 10.0.0.1 www.example.org\n }"), "-workers", "1")
    load = Load(server.port, 60_000, 3, name="www.example.org.")
    time.sleep(1.5)
    least = tables(server)["sampled"]
    result = load.result()
    assert least < 1, f"only {result['sent']} queries in three seconds"
    total = tables(server)["tables"]["names"]["total"]
    sample = f'coredns_dns_requests_total{{family="1",proto="udp",server="dns://127.0.0.1:{server.port}",type="A",view="",zone="."}}'
    answered = server.metric(server.ports["port9"], sample)
    # One standard deviation is at most the root of the weight times the number.
    assert abs(total - answered) <= 6 * (answered / least) ** 0.5
    # A storm that is over: few queries count each, and the window still says how the others did.
    for _ in range(3):
        time.sleep(0.2)
        server.query("www.example.org.")
    assert tables(server)["sampled"] <= least


def test_most_rows_and_windows(zone: Server) -> None:
    for number in range(30):
        zone.query(f"{number}.wild.example.org")
    assert len(rows(zone, "names")) == 20
    assert len(rows(zone, "names", most=5)) == 5
    assert len(rows(zone, "names", most=100, window=3600)) == 30
    with pytest.raises(ValueError, match="window must be one of 60, 600, 3600 seconds, not 61"):
        tables(zone, window=61)


def test_reloads_with_and_without_it(serve: Serve) -> None:
    """What is remembered outlives a reload that keeps the directive, and is gone without it."""
    server = serve(corefile("whoami"))
    server.query("a.test")
    server.reload(corefile("whoami\n nsid x"))
    server.query("a.test")
    assert rows(server, "names") == {"a.test.": 2}
    server.reload(".:{port} {\n whoami\n}")
    server.query("a.test")
    assert control.ask({"sections": ["top"]}, server.pid) == {}
    server.reload(corefile("whoami"))
    assert rows(server, "names") == {}


def test_several_blocks_share_it(serve: Serve) -> None:
    server = serve(
        "a.test:{port} {\n bind 127.0.0.1\n top\n whoami\n}\nb.test:{port} {\n bind 127.0.0.1\n top\n whoami\n}\nc.test:{port} {\n bind 127.0.0.1\n whoami\n}"
    )
    for name in ("a.test", "b.test", "c.test"):
        server.query(name)
    assert rows(server, "names") == {"a.test.": 1, "b.test.": 1}


def test_the_corefile() -> None:
    assert parse(Controller.of("top")) == (["cluster.local."], False)
    assert parse(Controller.of("top {\n search a.test b.test\n metrics\n}")) == (["a.test.", "b.test."], True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("top 10", "Wrong argument count or unexpected line ending after '10'"),
        ("top {\n search\n}", "Wrong argument count or unexpected line ending after 'search'"),
        ("top {\n metrics all\n}", "Wrong argument count or unexpected line ending after 'all'"),
        ("top {\n rows 5\n}", "unknown property 'rows'"),
        ("top\ntop", "this plugin can only be used once per Server Block"),
    ],
)
def test_what_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(CorefileError, match=wanted):
        parse(Controller.of(text))
