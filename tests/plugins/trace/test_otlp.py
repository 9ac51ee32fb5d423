"""trace: spans as OpenTelemetry's Collector receives them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dns.message
import httpx
import pytest

from tests.certificates import write_certificates
from tests.collector import Collector, collector
from tests.golang import Unbuildable
from tests.otlp.process import OtlpCollector, attributes, build
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

LONG, SHORT, SPAN = "463ac35c9f6413ad48485a3953bb6124", "48485a3953bb6124", "a2fb4a1d1a96d312"
SERVER, INTERNAL = 2, 1  # kinds of spans
HAS_IS_REMOTE, IS_REMOTE = 0x100, 0x200  # flags of a span: of its parent
ERROR = 2  # a status's code


def corefile(endpoint: str, options: str = "", rest: str = "whoami") -> str:
    block = f"trace otlp {endpoint} {{\n        zipkin_max_batch_interval 50ms\n        {options}\n    }}"
    return f".:{{port}} {{\n    bind 127.0.0.1\n    metadata\n    {block}\n    errors\n    {rest}\n}}\n"


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return build()
    except Unbuildable as error:
        pytest.skip(f"no Collector: {error}")


@pytest.fixture
def sink() -> Iterator[Collector]:
    """Gets what the Collector passes on, or what fastdns sends."""
    with collector() as made:
        yield made


@pytest.fixture
def otlp(program: Path, sink: Collector, tmp_path: Path) -> Iterator[OtlpCollector]:
    made = OtlpCollector(program, tmp_path, sink)
    made.start()
    yield made
    made.stop()


def test_spans(serve: Serve, otlp: OtlpCollector) -> None:
    server = serve(
        corefile(otlp.address, "service mine", 'log . "id {/trace/traceid}"\n    cache\n    whoami'), env={"OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=one"}
    )
    before = time.time()
    server.query("WWW.Example.org", "MX", tcp=True)
    root = otlp.wait("www.example.org.")
    after = time.time()
    (resource,) = otlp.resources
    assert {"service.name": "mine", "k8s.pod.name": "one"}.items() <= attributes(resource["resource"]).items()
    assert [scope["scope"]["name"] for scope in resource["scopeSpans"]] == ["fastdns"]
    assert (root["name"], root["kind"], root.get("parentSpanId", ""), root["status"]) == ("servedns", SERVER, "", {})
    assert attributes(root) == {
        "coredns.io/name": "www.example.org.",
        "coredns.io/type": "MX",
        "coredns.io/rcode": "NOERROR",
        "coredns.io/proto": "tcp",
        "coredns.io/remote": "127.0.0.1",
    }
    begun, ended = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
    assert before - 1 <= begun / 1e9 < ended / 1e9 <= after + 1
    parent = root["spanId"]
    children = []
    for span in otlp.spans[1:]:
        assert (span["traceId"], span["parentSpanId"], span["kind"], span["flags"]) == (root["traceId"], parent, INTERNAL, HAS_IS_REMOTE)
        assert (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) == (begun, ended)
        parent = span["spanId"]
        children.append(span["name"])
    assert children == ["errors", "log", "cache", "whoami"]
    assert "0" * 16 not in (root["traceId"][:16], root["traceId"][16:])
    server.wait_log(rf"^\[INFO\] id {root['traceId']}$")


def test_failures(serve: Serve, otlp: OtlpCollector) -> None:
    server = serve(corefile(f"http://{otlp.address}", rest=f"forward . 127.0.0.1:{free_port()}\n    acl {{\n        block type TXT\n    }}"))
    server.query("a.test")
    server.query("b.test", "TXT")
    first, second = otlp.wait("a.test."), otlp.wait("b.test.")
    assert first["status"]["code"] == ERROR
    assert "connection refused" in first["status"]["message"]
    assert (attributes(second)["coredns.io/rcode"], second["status"]) == ("REFUSED", {})


def test_the_clients_trace(serve: Serve, otlp: OtlpCollector) -> None:
    server = serve(corefile(otlp.address, rest="whoami").replace(".:{port}", "https://.:{port}"))
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=LIMIT) as client:
        for name, fields in (
            ("off.test.", {"traceparent": f"00-{LONG}-{SPAN}-00"}),
            ("long.test.", {"traceparent": f"00-{LONG}-{SPAN}-01"}),
            ("short.test.", {"b3": f"{SHORT}-{SPAN}-1"}),
            ("own.test.", {}),
        ):
            client.post("/dns-query", content=dns.message.make_query(name, "A", id=0).to_wire(), headers=fields).raise_for_status()
    own, long, short = otlp.wait("own.test."), otlp.root("long.test."), otlp.root("short.test.")
    assert long is not None
    assert (long["traceId"], long["parentSpanId"], long["flags"]) == (LONG, SPAN, HAS_IS_REMOTE | IS_REMOTE)
    assert short is not None
    assert (short["traceId"], short["parentSpanId"]) == ("0" * 16 + SHORT, SPAN)
    assert own["traceId"] not in (LONG, short["traceId"])
    assert otlp.root("off.test.") is None


def test_tls_and_compression(serve: Serve, program: Path, sink: Collector, tmp_path: Path) -> None:
    certificates = write_certificates(tmp_path)
    made = OtlpCollector(program, tmp_path, sink, certificates)
    made.start()
    try:
        server = serve(
            corefile(f"https://{made.address}/v1/traces"),
            env={"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificates / "ca.pem"), "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        )
        server.query("a.test")
        made.wait("a.test.")
        stranger = serve(corefile(f"https://{made.address}"))
        stranger.query("b.test")
        stranger.wait_log(r"^\[WARNING\] plugin/trace: .*certificate verify failed")
        assert made.root("b.test.") is None
    finally:
        made.stop()


def test_requests(serve: Serve, sink: Collector) -> None:
    server = serve(corefile(sink.address, "zipkin_max_batch_size 4"), env={"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20eDp5"})
    for number in range(6):
        server.query(f"n{number}.test")
    until(lambda: len(sink.seen) >= 5, "batches")  # of 6 queries with three spans each
    for method, path, fields, _ in sink.seen:
        assert (method, path, fields["Content-Type"], fields["Authorization"]) == ("POST", "/v1/traces", "application/x-protobuf", "Basic eDp5")


def test_a_collector_that_is_away(serve: Serve, otlp: OtlpCollector) -> None:
    otlp.stop()
    server = serve(corefile(otlp.address))
    server.query("kept.test")
    server.wait_log(r"^\[WARNING\] plugin/trace: Transient error .*[Rr]efused.* encountered while exporting spans batch, retrying")
    otlp.start()
    otlp.wait("kept.test.")


def test_a_collector_that_is_busy(serve: Serve, otlp: OtlpCollector) -> None:
    otlp.sink.status = 503
    server = serve(corefile(otlp.address))
    server.query("kept.test")
    server.wait_log(r"^\[WARNING\] plugin/trace: Transient error Service Unavailable encountered while exporting spans batch, retrying")
    refused = len(otlp.sink.seen)
    otlp.sink.status = 200
    until(lambda: len(otlp.sink.seen) > refused, "the next attempt")


def test_a_collector_that_refuses(serve: Serve, sink: Collector) -> None:
    sink.status = 400
    server = serve(corefile(sink.address, rest="prometheus 127.0.0.1:{port2}\n    whoami"))
    server.query("refused.test")
    server.wait_log(r"^\[WARNING\] plugin/trace: Failed to export spans batch code: 400, reason: Bad Request$")
    assert server.metric(server.ports["port2"], "fastdns_trace_dropped_spans_total") == 4


def test_a_collector_that_never_answers(serve: Serve) -> None:
    """Queries are answered meanwhile, and the process ends in time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = serve(corefile(f"127.0.0.1:{silent.getsockname()[1]}"))
        server.query("a.test")
        connection, _ = silent.accept()
        with connection:
            for number in range(100):
                server.query(f"n{number}.test")
            server.signal(15)
            assert server.exit_status() == 0


def test_a_response_without_an_end(serve: Serve) -> None:
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(65536))
            except OSError:
                self.close_connection = True

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as endless:
        thread = threading.Thread(target=endless.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            server = serve(corefile(f"127.0.0.1:{endless.server_address[1]}"))
            for number in range(1, 4):
                server.query(f"n{number}.test")
                until(lambda number=number: len(seen) >= number, "the next batch")
            server.stop()
        finally:
            endless.shutdown()
            thread.join()


def test_reload(serve: Serve, otlp: OtlpCollector) -> None:
    with collector() as zipkin:
        server = serve(corefile(zipkin.address).replace("otlp ", "zipkin "))
        server.query("a.test")
        server.reload(corefile(otlp.address))
        server.query("b.test")
        assert zipkin.wait(1)[0]["tags"]["coredns.io/name"] == "a.test."
        otlp.wait("b.test.")
        server.reload(corefile(otlp.address, "service other"))
        server.query("c.test")
        otlp.wait("c.test.")
    assert [attributes(resource["resource"])["service.name"] for resource in otlp.resources] == ["coredns", "other"]


def test_the_library_is_not_there(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry/__init__.py").write_text("raise ModuleNotFoundError('opentelemetry')\n")
    server = serve(corefile("127.0.0.1:4318"), wait=False, env={"PYTHONPATH": str(tmp_path)})
    assert server.exit_status() == 1
    assert server.log() == (
        f"plugin/trace: {server.corefile}:4 - Error during parsing: otlp needs the Python package opentelemetry-exporter-otlp-proto-http: "
        "the image has it in its tag -clouds, and pip installs it with fastdns[otlp]\n"
    )


def test_what_the_library_warns_of(serve: Serve) -> None:
    server = serve(corefile("127.0.0.1:4318"), env={"OTEL_EXPORTER_OTLP_COMPRESSION": "brotli"})
    server.wait_log(r"^\[WARNING\] plugin/trace: Unsupported compression type: brotli$")
