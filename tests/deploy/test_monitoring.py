"""What dashboard and alerts draw is there: every metric with every label on the page of a server that has done a bit of everything."""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import dns.message
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.conftest import DEPLOY, ManifestServer
from tests.server import Server
from tests.waiting import until

pytestmark = [pytest.mark.skipif(not DEPLOY.is_dir(), reason="the source tree is not here"), pytest.mark.timeout(1500)]

DASHBOARDS = [json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))] if DEPLOY.is_dir() else []
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "rules.yaml").read_text()) if DEPLOY.is_dir() else {"groups": []}
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
TARGETS = [(panel["title"], target["expr"], target["legendFormat"]) for board in DASHBOARDS for panel in board["panels"] for target in panel.get("targets", [])]

#: Labels that Prometheus itself gives to what it scrapes.
SCRAPED = {"job", "namespace", "pod", "instance", "cluster"}
#: That of the cache on every node is on a page of its own; tests/node asks for it. The others are there with their faults (test_alerts.py), and those of
#: *top* with clients that are pods (tests/plugins/top).
ELSEWHERE = {
    "coredns_nodecache_setup_errors_total": {"errortype"},
    "fastdns_replica_age_seconds": {"zone"},
    "fastdns_corefile_left_out": {"file"},
    "fastdns_dynupdate_key_refused_total": {"zone", "key"},
    "fastdns_kept_file_failing": {"plugin", "file"},
    "fastdns_kubernetes_objects_refused": {"kind"},
    "fastdns_top_queries": {"client_namespace"},
}

#: The metrics of CoreDNS 1.14's names on kube-prometheus-stack's dashboard (gnetId 12539) and the coredns-mixin's.
WELL_KNOWN = [
    ("coredns_dns_requests_total", {"server", "zone", "view", "proto", "family", "type"}),
    ("coredns_dns_do_requests_total", {"server", "zone", "view"}),
    ("coredns_dns_request_duration_seconds_bucket", {"server", "zone", "view", "le"}),
    ("coredns_dns_request_size_bytes_bucket", {"server", "zone", "view", "proto", "le"}),
    ("coredns_dns_response_size_bytes_bucket", {"server", "zone", "view", "proto", "le"}),
    ("coredns_dns_responses_total", {"server", "zone", "view", "rcode", "plugin"}),
    ("coredns_cache_entries", {"server", "type", "zones", "view"}),
    ("coredns_cache_hits_total", {"server", "type", "zones", "view"}),
    ("coredns_cache_misses_total", {"server", "zones", "view"}),
    ("coredns_proxy_request_duration_seconds_bucket", {"proxy_name", "to", "rcode", "le"}),
    ("coredns_health_request_duration_seconds_bucket", {"le"}),
    ("coredns_kubernetes_dns_programming_duration_seconds_bucket", {"service_kind", "le"}),
    ("coredns_forward_healthcheck_broken_total", set()),
    ("coredns_panics_total", set()),
    ("coredns_plugin_enabled", {"server", "zone", "view", "name"}),
    ("coredns_build_info", {"version", "revision", "goversion"}),
    ("go_goroutines", set()),
    ("process_cpu_seconds_total", set()),
    ("process_resident_memory_bytes", set()),
]

PLUGIN = """
import time
from fastdns.plugin import Plugin

class Hello(Plugin):
    zones = ["hello.example."]
    deadline = 0.2

    def serve(self, query):
        if query.name.startswith("late."):
            time.sleep(0.5)
            return query.reply("A 192.0.2.1")
        if query.name.startswith("bad."):
            raise RuntimeError("bad")
        return query.reply("A 192.0.2.1").remember(300)

def setup(controller):
    return Hello()
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    health 127.0.0.1:{port3}
    errors
    slo 99% 1s
    shed
    reload
    plugin hello.py
    kubernetes cluster.local {
        endpoint API
        snapshot {dir}/snapshot
    }
    cache 30 {
        success 256 3600 1
        serve_stale
        prefetch 1 1m 90%
        disable success hello.example
    }
    forward . 127.0.0.1:{port5} 127.0.0.1:{port4} {
        policy sequential
        health_check 0.1s
    }
}
example:{port4} {
    bind 127.0.0.1
    template IN A {
        answer "{{ .Name }} 2 IN A 192.0.2.2"
    }
}
"""


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory, apiserver: ManifestServer) -> Iterator[dict[str, set[str]]]:
    """The labels of each sample on the page, once everything has happened."""
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "hello.py").write_text(PLUGIN)
    with Server(folder, COREFILE.replace("API", apiserver.http)) as server:
        yield from watched(server, apiserver)


def samples(server: Server) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(server.get(server.ports["port2"], "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def watched(server: Server, apiserver: ManifestServer) -> Iterator[dict[str, set[str]]]:
    def happen(name: str, *again: Callable[[], object]) -> None:
        """Do something until a metric counts it."""

        def counted() -> bool:
            for action in again:
                action()
            return any(line.startswith(name) and not line.endswith(" 0") for line in server.get(server.ports["port2"], "/metrics").splitlines())

        until(counted, name)

    happen("coredns_kubernetes_objects")
    for address in ("10.0.0.1", "10.0.0.2"):
        apiserver.apply_service("web", address)
    happen("coredns_kubernetes_dns_programming_duration_seconds_count")
    happen("coredns_cache_hits_total", lambda: server.query("a.example", want_dnssec=True))
    server.query("b.example", tcp=True)
    happen("coredns_cache_served_stale_total", lambda: server.query("stale.example"), lambda: time.sleep(2.5))
    happen("coredns_cache_prefetch_total", lambda: server.query("fresh.example"))
    names = itertools.count()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as crowd:
        crowd.connect(("127.0.0.1", server.port))
        template = dns.message.make_query("n00000000.example", "A").to_wire()

        def ask_many() -> None:
            """Queries for new names; the last one is waited for."""
            for number in itertools.islice(names, 100):
                crowd.send(template.replace(b"00000000", b"%08d" % number))
            server.query(f"last{number}.example")

        happen("coredns_cache_evictions_total", ask_many)
    happen("coredns_proxy_healthcheck_failures_total")
    happen("coredns_health_request_duration_seconds_count")
    happen("fastdns_plugin_remembered_hits_total", lambda: server.query("a.hello.example"))
    happen("fastdns_plugin_deadlines_total", lambda: server.query("late.hello.example"))
    happen("coredns_panics_total", lambda: server.query("bad.hello.example"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as crowd:
        crowd.connect(("127.0.0.1", server.port))
        message = dns.message.make_query("late.hello.example", "A").to_wire()
        # More at once than may wait for Python.
        happen("fastdns_plugin_rejects_total", *[lambda: crowd.send(message)] * 3000)
    yield samples(server)


def check(expression: str, known: dict[str, set[str]]) -> None:
    names = set(re.findall(r"\b(?:coredns|fastdns|process|go)_\w+", expression))
    assert names, "no metric"
    assert names <= set(known), names - set(known)
    for name, matchers in re.findall(r"\b(\w+)\{([^}]*)\}", expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert labels - SCRAPED <= known[name], f"{name}: {labels - known[name]}"
    for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
        labels = {label.strip() for label in grouping.split(",")}
        for name in names:
            assert labels - SCRAPED <= known[name], f"{name}: {labels - known[name]}"


@pytest.mark.parametrize(("title", "expression", "legend"), TARGETS, ids=[f"{row[0]}: {row[2]}" for row in TARGETS])
def test_dashboard(exposed: dict[str, set[str]], title: str, expression: str, legend: str) -> None:
    check(expression, exposed | ELSEWHERE)
    grouped = {label.strip() for grouping in re.findall(r"\bby \(([^)]*)\)", expression) for label in grouping.split(",")}
    for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", legend):
        assert label in grouped | SCRAPED


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alert(exposed: dict[str, set[str]], rule: dict[str, Any]) -> None:
    check(rule["expr"], exposed | ELSEWHERE)
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert re.fullmatch(r"\d+m", rule["for"])


@pytest.mark.parametrize(("name", "labels"), WELL_KNOWN, ids=[name for name, _ in WELL_KNOWN])
def test_well_known(exposed: dict[str, set[str]], name: str, labels: set[str]) -> None:
    assert labels <= exposed.get(name, {"nothing"})


def test_operator_has_the_same_rules() -> None:
    document = yaml.safe_load((DEPLOY / "prometheus" / "prometheusrule.yaml").read_text())
    assert (document["apiVersion"], document["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert document["spec"] == ALERTS


@pytest.mark.parametrize("board", DASHBOARDS, ids=[board["uid"] for board in DASHBOARDS])
def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))
