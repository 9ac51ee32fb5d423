"""prometheus: its Corefile, the page, and what is counted."""

from __future__ import annotations

import email.utils
import gzip
import http.client
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import dns.message
import dns.name
import dns.rdataclass
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins import prometheus
from fastdns.setup import Controller
from fastdns.telemetry import metrics
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("prometheus", ("localhost:9153", None, False, "")),
        ("prometheus localhost:53", ("localhost:53", None, False, "")),
        ("prometheus :9253 {\nruntime_metrics\n}", (":9253", None, True, "")),
    ],
)
def test_good(text: str, wanted: tuple[str, None, bool, str]) -> None:
    assert prometheus.parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("prometheus a:1 b:1", r"Testfile:1 - .*Wrong argument count"),
        ("prometheus /foo", r"^address /foo: missing port in address$"),
        ("prometheus {}", r"^address {}: missing port in address$"),
        ("prometheus\nprometheus", r"^this plugin can only be used once per Server Block$"),
        ("prometheus {\nruntime_metrics x\n}", r"Testfile:2 - .*Wrong argument count"),
        ("prometheus {\nother\n}", r"Testfile:2 - Error during parsing: unknown option: other"),
        ("prometheus {\ntls\n}", r"Testfile:2 - .*Wrong argument count"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=error):
        prometheus.parse(Controller.of(text))


COREFILE = """.:{port} {
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{port2}
    errors
    whoami
}
example.org:{port} b.example.org:{port} {
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{port2}
    errors
}
empty.test:{port} {
    bind 127.0.0.1 ::1
}
"""


def page(server: Server, name: str = "") -> list[str]:
    """The lines of the page that begin with a name, the server's label shortened."""
    text = server.get(server.ports["port2"], "/metrics").replace(f":{server.port}", ":P")
    return [line for line in text.splitlines() if line.startswith(name)]


def test_queries_are_counted(serve: Serve) -> None:
    server = serve(COREFILE)
    assert page(server, "coredns_dns_") == []
    for kind in ("A", "A", "AAAA", "TYPE65300", "HTTPS", "ANY"):
        server.query("x.test", kind)
    server.query("x.test", tcp=True, want_dnssec=True, payload=1232)
    server.query("x.test", host="::1")
    server.query("a.b.example.org")
    server.query("example.org", "MX")
    server.query("x.empty.test")
    server.send(dns.message.make_query("x.test", "TXT", rdclass=dns.rdataclass.CH))
    v4, v6 = 'server="dns://127.0.0.1:P"', 'server="dns://[::1]:P"'
    assert page(server, "coredns_dns_requests_total") == [
        f'coredns_dns_requests_total{{family="{family}",proto="{proto}",{where},type="{kind}",view="",zone="{zone}"}} {count}'
        for family, proto, where, kind, zone, count in [
            ("1", "tcp", v4, "A", ".", 1),
            ("1", "udp", v4, "A", ".", 2),
            ("1", "udp", v4, "A", "b.example.org.", 1),
            ("1", "udp", v4, "A", "dropped", 1),
            ("1", "udp", v4, "AAAA", ".", 1),
            ("1", "udp", v4, "ANY", ".", 1),
            ("1", "udp", v4, "HTTPS", ".", 1),
            ("1", "udp", v4, "MX", "example.org.", 1),
            ("1", "udp", v4, "TXT", "dropped", 1),
            ("1", "udp", v4, "other", ".", 1),
            ("2", "udp", v6, "A", ".", 1),
        ]
    ]
    assert page(server, "coredns_dns_responses_total") == [
        f'coredns_dns_responses_total{{plugin="{plugin}",rcode="{rcode}",{where},view="",zone="{zone}"}} {count}'
        for plugin, rcode, where, zone, count in [
            ("", "REFUSED", v4, "dropped", 2),
            ("", "SERVFAIL", v4, "b.example.org.", 1),
            ("", "SERVFAIL", v4, "example.org.", 1),
            ("whoami", "NOERROR", v4, ".", 7),
            ("whoami", "NOERROR", v6, ".", 1),
        ]
    ]
    assert page(server, "coredns_dns_do_requests_total") == [f'coredns_dns_do_requests_total{{{v4},view="",zone="."}} 1']
    sizes = f'{v4},view="",zone="."'
    assert f'coredns_dns_request_size_bytes_sum{{proto="udp",{sizes}}} {6 * 24}' in page(server)
    assert f'coredns_dns_request_size_bytes_bucket{{proto="tcp",{sizes},le="100"}} 1' in page(server)
    assert f'coredns_dns_response_size_bytes_bucket{{proto="udp",{sizes},le="0"}} 0' in page(server)
    assert f'coredns_dns_response_size_bytes_count{{proto="udp",{sizes}}} 6' in page(server)
    durations = page(server, f"coredns_dns_request_duration_seconds_bucket{{{sizes}")
    assert len(durations) == 17
    assert durations[0].startswith(f'coredns_dns_request_duration_seconds_bucket{{{sizes},le="0.00025"}} ')
    assert durations[-1] == f'coredns_dns_request_duration_seconds_bucket{{{sizes},le="+Inf"}} 7'


def test_sizes_of_answers_are_before_cutting(serve: Serve) -> None:
    """spec: uncompressed size; a query in mixed case and one with EDNS count their own octets."""
    server = serve(COREFILE)
    server.query("x.test", payload=1232)
    assert page(server, 'coredns_dns_request_size_bytes_sum{proto="udp"')[0].endswith(" 35")


def test_enabled_plugins_that_are_no_handlers(serve: Serve) -> None:
    server = serve(
        "a.test:{port} b.test:{port3} a.test:{port3} {\n bind 127.0.0.1\n metadata\n prometheus 127.0.0.1:{port2}\n view v {\n  expr true\n }\n whoami\n}\n"
    )
    assert page(server, "coredns_plugin_enabled") == [
        f'coredns_plugin_enabled{{name="{name}",server="dns://127.0.0.1:P",view="v",zone="a.test."}} 1' for name in ("metadata", "prometheus", "view", "whoami")
    ]


def test_rcodes_without_a_name_and_names_without_end_make_no_series(serve: Serve) -> None:
    """Metrics cardinality: whatever is asked, the number of series stands."""
    server = serve(COREFILE)
    for number in range(300):
        name = dns.name.Name([b'%d\xff\n"\\' % number, b"test", b""])
        server.send(dns.message.make_query(name, 1000 + number))
    before = len(page(server))
    for number in range(300, 1200):
        server.query(f"x{number}.test", 1000 + number)  # type: ignore[arg-type]
    assert len(page(server)) == before


def test_a_configuration_that_is_refused_takes_no_enabled_plugins_away(serve: Serve) -> None:
    """Its chains are made, and then a query of `test` is not answered as it should be."""
    server = serve(COREFILE)
    enabled = page(server, "coredns_plugin_enabled")
    before = len(server.log())
    server.write(COREFILE.replace("    whoami\n", '    test "a.example A" expects 192.0.2.77\n    whoami\n'))
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed: .*192.0.2.77", start=before)
    assert page(server, "coredns_plugin_enabled") == enabled


def test_enabled_plugins_and_their_end(serve: Serve) -> None:
    server = serve(COREFILE)
    enabled = page(server, "coredns_plugin_enabled")
    assert len(enabled) == 2 * (3 + 2), "the first key of a block stands for all"
    assert 'coredns_plugin_enabled{name="whoami",server="dns://127.0.0.1:P",view="",zone="."} 1' in enabled
    assert 'coredns_plugin_enabled{name="errors",server="dns://[::1]:P",view="",zone="example.org."} 1' in enabled
    server.query("x.test")
    server.reload(COREFILE.replace("b.example.org:{port} {", "{").replace("    errors\n    whoami", "    whoami"))
    until(lambda: len(page(server, "coredns_plugin_enabled")) == 2 * (2 + 2), "the end of the old chains")
    server.query("x.test")
    assert page(server, "coredns_dns_responses_total") == [
        'coredns_dns_responses_total{plugin="whoami",rcode="NOERROR",server="dns://127.0.0.1:P",view="",zone="."} 2'
    ], "counters go on over a reload, even in another chain"


def test_the_page_over_reloads(serve: Serve) -> None:
    server = serve(COREFILE)
    for bad in ("prometheus nonsense", "nosuchplugin"):
        start = len(server.log())
        server.write(COREFILE + "c.test:{port} {\n " + bad + "\n}\n")
        server.signal(__import__("signal").SIGUSR1)
        server.wait_log("Restart failed", start=start)
        assert page(server, "coredns_build_info")
    server.reload(COREFILE)
    assert page(server, "coredns_build_info")
    server.reload(re.sub("prometheus.*", "", COREFILE))
    with pytest.raises(OSError, match="refused"):
        page(server)
    server.reload(COREFILE)
    assert page(server, "coredns_build_info")


def test_the_page(serve: Serve) -> None:
    server = serve(COREFILE.replace("{port2}", "{port2} {\n runtime_metrics\n }", 1))
    url = f"http://127.0.0.1:{server.ports['port2']}/metrics"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4; charset=utf-8")
        text = gzip.decompress(reply.read()).decode()
    samples = {line.partition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}
    for name in ("process_cpu_seconds_total", "process_open_fds", "process_max_fds", "process_start_time_seconds", "go_threads"):
        assert samples[name] > 0
    assert 5e6 < samples["process_resident_memory_bytes"] < 1e9
    assert samples["go_goroutines"] >= 2
    for name in ("go_memstats_alloc_bytes", "go_memstats_heap_alloc_bytes", "go_memstats_heap_inuse_bytes", "go_memstats_sys_bytes"):
        assert 5e6 < samples[name] < 1e9
    assert samples["coredns_panics_total"] == 0
    for name in ("log_lines_dropped", "evicted_queries", "send_errors", "cut_replies"):
        assert samples[f"fastdns_{name}_total"] == 0
    assert samples["fastdns_parked_queries"] == samples["fastdns_tcp_connections"] == 0
    assert re.search(r'^coredns_build_info\{goversion="python3\.\d+\.\d+",revision="[^"]*",version="[^"]+"\} 1$', text, re.M)
    assert 'python_gc_collections_total{generation="0"}' in samples
    with pytest.raises(urllib.error.HTTPError, match="404"):
        server.get(server.ports["port2"], "/")


def test_half_a_request_does_not_hold_the_page(serve: Serve) -> None:
    server = serve(COREFILE)
    with socket.create_connection(("127.0.0.1", server.ports["port2"])) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert page(server, "coredns_build_info")


def test_names_follow_the_rules_of_promlint() -> None:
    """Base units, _total for counters and for nothing else, help on every metric; CoreDNS's own go_ names aside."""
    for metric in metrics.registry.values():
        if not metric.name.startswith(("coredns_", "fastdns_", "process_")):
            continue
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
        assert metric.help, metric.name
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(count|sum|bucket)$", metric.name)
        assert not re.search(r"(milli|micro|nano)seconds|kilobytes|_info_", metric.name)
        assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in metric.labels)


def test_a_tls_configuration_that_is_not_there(serve: Callable[..., Server]) -> None:
    """CoreDNS logs it, and serves queries without the page."""
    server = serve(".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2} {\n tls {dir}/nowhere.yml\n }\n whoami\n}")
    server.wait_log(r"^\[ERROR\] TLS config file does not exist: .*/nowhere\.yml$")
    assert server.query("example.org").additional
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.ports["port2"])):
        pass


def test_pages_have_a_date(serve: Callable[..., Server]) -> None:
    """RFC 9110 6.6.1: those of the native thread, those of Python, and what is not found; as the time of now."""
    server = serve(".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n health 127.0.0.1:{port3}\n ready 127.0.0.1:{port4}\n whoami\n}")
    for port, path in (("port2", "/metrics"), ("port2", "/nothing"), ("port3", "/health"), ("port3", "/nothing"), ("port4", "/ready")):
        connection = http.client.HTTPConnection("127.0.0.1", server.ports[port], timeout=REPLY)
        connection.request("GET", path)
        date = connection.getresponse().getheader("date") or ""
        assert abs(email.utils.parsedate_to_datetime(date).timestamp() - time.time()) < LIMIT, path
        assert date.endswith(" GMT")
        connection.close()
