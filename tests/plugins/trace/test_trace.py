"""trace: spans as scripted collectors get them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import msgspec
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.trace import parse
from fastdns.setup import Controller
from tests.collector import collector
from tests.server import Server, free_port
from tests.waiting import until

Serve = Callable[..., Server]


def corefile(endpoint: str, options: str = "", rest: str = "whoami") -> str:
    fast = "" if endpoint.startswith("datadog") else "zipkin_max_batch_interval 50ms"
    block = f"trace {endpoint} {{\n        {fast}\n        {options}\n    }}"
    return f".:{{port}} {{\n    bind 127.0.0.1\n    metadata\n    {block}\n    errors\n    {rest}\n}}\n"


def test_spans(serve: Serve) -> None:
    with collector() as zipkin:
        server = serve(corefile(zipkin.address, rest='log . "id {/trace/traceid}"\n    cache\n    whoami'))
        before = time.time()
        server.query("WWW.Example.org", "MX", tcp=True)
        (root,) = zipkin.wait(1)
        after = time.time()
        method, path, fields, _ = zipkin.seen[0]
    assert (method, path, fields["Content-Type"]) == ("POST", "/api/v2/spans", "application/json")
    assert (root["name"], root["kind"], root["id"]) == ("servedns", "SERVER", root["traceId"])
    assert root["tags"] == {
        "coredns.io/name": "www.example.org.",
        "coredns.io/type": "MX",
        "coredns.io/rcode": "NOERROR",
        "coredns.io/proto": "tcp",
        "coredns.io/remote": "127.0.0.1",
    }
    assert before - 1 <= root["timestamp"] / 1e6 <= after + 1
    assert 1 <= root["duration"] <= (after - before + 1) * 1e6
    assert root["localEndpoint"] == {"serviceName": "coredns", "ipv4": "127.0.0.1", "port": server.port}
    parent = root["id"]
    children = []
    for span in zipkin.spans[1:]:
        assert (span["traceId"], span["parentId"], span["timestamp"]) == (root["traceId"], parent, root["timestamp"])
        parent = span["id"]
        children.append(span["name"])
    assert children == ["errors", "log", "cache", "whoami"]
    server.wait_log(rf"^\[INFO\] id {root['traceId']}$")


def test_failures(serve: Serve) -> None:
    with collector() as zipkin:
        server = serve(corefile(zipkin.address, rest=f"forward . 127.0.0.1:{free_port()}\n    acl {{\n        block type TXT\n    }}"))
        server.query("a.test")
        server.query("b.test", "TXT")
        by_name = {root["tags"]["coredns.io/name"]: root for root in zipkin.wait(2)}
        first, second = by_name["a.test."], by_name["b.test."]
    assert first["tags"]["coredns.io/rcode"] == "SERVFAIL"
    assert "connection refused" in first["tags"]["error"]
    assert first["annotations"][0]["value"].startswith("error: ")
    assert second["tags"]["coredns.io/rcode"] == "REFUSED"
    assert "error" not in second["tags"]


@pytest.mark.parametrize(("every", "wanted"), [(1, 12), (3, 4), (0, 0)])
def test_every(serve: Serve, every: int, wanted: int) -> None:
    with collector() as zipkin:
        server = serve(corefile(zipkin.address, f"every {every}\n service mine", 'log . "id {/trace/traceid}."\n    whoami'))
        for number in range(12):
            server.query(f"n{number}.test")
        server.signal(15)
        assert server.exit_status() == 0
        roots = zipkin.roots()
    assert len(roots) == wanted
    assert {root["localEndpoint"]["serviceName"] for root in roots} <= {"mine"}
    assert len({root["traceId"] for root in roots}) == wanted
    assert len(re.findall(r"^\[INFO\] id -\.$", server.log(), re.M)) == 12 - wanted


def test_batches(serve: Serve) -> None:
    with collector() as zipkin:
        server = serve(corefile(f"zipkin {zipkin.address}", "zipkin_max_batch_size 4"))
        for number in range(10):
            server.query(f"n{number}.test")
        zipkin.wait(10)
        assert max(len(json.loads(body)) for *_, body in zipkin.seen) <= 4


def test_datadog(serve: Serve) -> None:
    with collector() as agent:
        server = serve(corefile(f"datadog {agent.address}", "datadog_analytics_rate 0.25\n service mine"))
        server.query("www.example.org")
        until(lambda: agent.seen, "a trace")
        method, path, fields, body = agent.seen[0]
    assert (method, path) == ("PUT", "/v0.4/traces")
    assert (fields["Content-Type"], fields["X-Datadog-Trace-Count"]) == ("application/msgpack", "1")
    ((span,),) = msgspec.msgpack.decode(body)
    assert span["name"] == "servedns"
    assert (span["service"], span["type"], span["error"], span["parent_id"]) == ("mine", "dns", 0, 0)
    assert span["metrics"]["_dd1.sr.eausr"] == 0.25
    assert span["meta"]["coredns.io@name"] == "www.example.org."
    assert span["meta"]["coredns.io@rcode"] == "NOERROR"
    assert span["duration"] >= 1


def test_a_collector_that_is_away(serve: Serve) -> None:
    port = free_port()
    server = serve(corefile(f"127.0.0.1:{port}"))
    server.query("lost.test")
    server.wait_log(rf'^\[WARNING\] plugin/trace: failed to send the request: Post "http://127\.0\.0\.1:{port}/api/v2/spans": .*refused')
    with collector(port) as zipkin:
        server.query("told.test")
        until(lambda: any(root["tags"]["coredns.io/name"] == "told.test." for root in zipkin.roots()), "the trace")
        zipkin.status = 500
        server.query("refused.test")
        server.wait_log(r"^\[WARNING\] plugin/trace: failed the request with status code 500$")


def test_reload(serve: Serve) -> None:
    with collector() as first, collector() as second:
        server = serve(corefile(first.address))
        server.query("a.test")
        server.reload(corefile(second.address))
        server.query("b.test")
        assert first.wait(1)[0]["tags"]["coredns.io/name"] == "a.test."
        assert second.wait(1)[0]["tags"]["coredns.io/name"] == "b.test."


@pytest.mark.parametrize(
    ("text", "kind", "endpoint"),
    [
        ("trace", "zipkin", "http://localhost:9411/api/v2/spans"),
        ("trace localhost:1234", "zipkin", "http://localhost:1234/api/v2/spans"),
        ("trace http://localhost:1234/somewhere/else", "zipkin", "http://localhost:1234/somewhere/else"),
        ("trace Zipkin localhost:1234", "zipkin", "http://localhost:1234/api/v2/spans"),
        ("trace datadog localhost", "datadog", "localhost"),
        ("trace datadog http://localhost:8127", "datadog", "http://localhost:8127"),
        ("trace otlp collector", "otlp", "http://collector:4318/v1/traces"),
        ("trace otlp 192.0.2.1:1234", "otlp", "http://192.0.2.1:1234/v1/traces"),
        ("trace OTLP [2001:db8::1]", "otlp", "http://[2001:db8::1]:4318/v1/traces"),
        ("trace otlp https://collector.example.org", "otlp", "https://collector.example.org/v1/traces"),
        ("trace otlp http://localhost:4318/", "otlp", "http://localhost:4318/v1/traces"),
        ("trace otlp https://example.org/tenant/v1/traces?key=1", "otlp", "https://example.org/tenant/v1/traces?key=1"),
    ],
)
def test_endpoints(text: str, kind: str, endpoint: str) -> None:
    options = parse(Controller.of(text))
    assert (options.kind, options.endpoint) == (kind, endpoint)


def test_properties() -> None:
    options = parse(Controller.of("trace {\n every 100\n service x\n client_server\n datadog_analytics_rate 0.5\n zipkin_max_backlog_size 7\n}"))
    assert (options.every, options.service, options.client_server, options.rate, options.backlog) == (100, "x", True, 0.5, 7)
    options = parse(Controller.of("trace {\n client_server false\n zipkin_max_batch_size 9\n zipkin_max_batch_interval 1500ms\n}"))
    assert (options.client_server, options.batch, options.interval) == (False, 9, 1.5)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("trace footype localhost:4321", "tracing endpoint type 'footype' is not supported"),
        ("trace otlp grpc://localhost:4317", "tracing endpoint 'grpc://localhost:4317' is not supported"),
        ("trace otlp localhost:http", "tracing endpoint 'localhost:http' is not supported"),
        ("trace otlp 2001:db8::1", "tracing endpoint '2001:db8::1' is not supported"),
        ("trace otlp http://", "tracing endpoint 'http://' is not supported"),
        ("trace a b c", "Wrong argument count"),
        ("trace {\n every x\n}", 'strconv.ParseUint: parsing "x": invalid syntax'),
        ("trace {\n every\n}", "Wrong argument count"),
        ("trace {\n service\n}", "Wrong argument count"),
        ("trace {\n client_server junk\n}", 'strconv.ParseBool: parsing "junk": invalid syntax'),
        ("trace {\n datadog_analytics_rate 2\n}", "datadog analytics rate must be between 0 and 1, '2.000000' is not supported"),
        ("trace {\n zipkin_max_backlog_size wrong\n}", 'parsing "wrong": invalid syntax'),
        ("trace {\n zipkin_max_batch_size\n}", "Wrong argument count"),
        ("trace {\n zipkin_max_batch_interval wrong\n}", 'time: invalid duration "wrong"'),
        ("trace {\n evrey 100\n}", "Testfile:2 - Error during parsing: unknown property 'evrey'"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(text))
    assert error in str(caught.value)
