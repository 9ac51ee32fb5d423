"""trace: queries of HTTP and gRPC that are part of a trace of their client, by the clients' own libraries."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import dns.message
import httpx
import msgspec
import pytest

from tests.certificates import client_context, write_certificates
from tests.collector import Collector, collector
from tests.grpc_client import client as grpc_client
from tests.quic import WebClient
from tests.server import Server
from tests.waiting import REPLY, until

Fields = list[tuple[str, str]]
#: Sends a message with fields on one connection, and waits for the reply.
Ask = Callable[[bytes, Fields], object]

LONG, SHORT = "463ac35c9f6413ad48485a3953bb6124", "48485a3953bb6124"
SPAN, ABOVE = "a2fb4a1d1a96d312", "0020000000000001"
PARENT = f"00-{LONG}-{SPAN}-01"
NAMES = (f"n{number}.test." for number in count())
TRANSPORTS = ("http/1.1", "http/1.1 in clear text", "http/2", "http/3", "grpc")


def block(transport: str, port: str, endpoint: str, options: str = "") -> str:
    tls = "" if port in ("port", "port4") else "tls server.pem server.key"
    return f"{transport}://.:{{{port}}} {{\n bind 127.0.0.1\n {tls}\n trace {endpoint} {{\n zipkin_max_batch_interval 50ms\n {options}\n }}\n whoami\n}}\n"


class Traced:
    """A server, and what it reports."""

    def __init__(self, server: Server, zipkin: Collector) -> None:
        self.server, self.zipkin = server, zipkin

    def root(self, name: str) -> dict[str, Any] | None:
        found = [span for span in self.zipkin.spans if span.get("tags", {}).get("coredns.io/name") == name]
        assert len(found) <= 1
        return found[0] if found else None

    def trace(self, ask: Ask, fields: Fields) -> dict[str, Any] | None:
        """The span of a query with these fields. The next one, on the same connection and thus the same worker, is reported after it."""
        names = next(NAMES), next(NAMES)
        for name, its in zip(names, (fields, []), strict=True):
            ask(dns.message.make_query(name, "A", id=0).to_wire(), its)
        until(lambda: self.root(names[1]), "a trace")
        return self.root(names[0])


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder = write_certificates(tmp_path_factory.mktemp("context"))
    with collector() as zipkin:
        blocks = [("https", "port"), ("https", "port2"), ("https3", "port3"), ("grpc", "port4")]
        with Server(folder, "".join(block(transport, port, zipkin.address) for transport, port in blocks)) as running:
            running.wait_started()
            yield Traced(running, zipkin)


def web(base: str, folder: Path | None = None, http2: bool = False) -> tuple[httpx.Client, Ask]:
    client = httpx.Client(http2=http2, verify=False if folder is None else client_context(folder), base_url=base, timeout=REPLY)

    def ask(message: bytes, fields: Fields) -> object:
        response = client.post("/dns-query", content=message, headers=[(name.encode(), value.encode("latin-1")) for name, value in fields])
        assert response.status_code == 200
        return response

    return client, ask


def clear_client(port: int) -> tuple[httpx.Client, Ask]:
    return web(f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module", params=TRANSPORTS)
def ask(traced: Traced, request: pytest.FixtureRequest) -> Iterator[Ask]:
    kind, server = request.param, traced.server
    with ExitStack() as stack:
        if kind.startswith("http/1.1") or kind == "http/2":
            clear = kind.endswith("text")
            base = f"http://127.0.0.1:{server.port}" if clear else f"https://127.0.0.1:{server.ports['port2']}"
            client, asked = web(base, server.folder, kind == "http/2")
            stack.enter_context(client)
            yield asked
        elif kind == "http/3":
            quic = stack.enter_context(WebClient(server.ports["port3"]))

            def over_quic(message: bytes, fields: Fields) -> object:
                response = quic.fetch(body=message, fields=[(name.lower().encode(), value.encode()) for name, value in fields])
                assert response.status == 200
                return response

            yield over_quic
        else:
            channel = stack.enter_context(grpc_client(server.ports["port4"]))
            yield lambda message, fields: channel.call(message, metadata=[(name.lower(), value) for name, value in fields])


@pytest.mark.parametrize(
    ("fields", "trace"),
    [
        ([("b3", f"{LONG}-{SPAN}-1-{ABOVE}")], LONG),
        ([("X-B3-TraceId", LONG), ("X-B3-SpanId", SPAN), ("X-B3-ParentSpanId", ABOVE), ("X-B3-Sampled", "1")], LONG),
        ([("traceparent", PARENT), ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")], LONG),
    ],
)
def test_a_child_of_the_clients_span(traced: Traced, ask: Ask, fields: Fields, trace: str) -> None:
    span = traced.trace(ask, fields)
    assert span is not None
    assert (span["traceId"], span["parentId"], "shared" in span) == (trace, SPAN, False)
    assert span["id"] not in (SPAN, ABOVE)
    below = [other for other in traced.zipkin.spans if other.get("parentId") == span["id"]]
    assert [(other["traceId"], other["name"]) for other in below] == [(trace, "whoami")]


@pytest.mark.parametrize("fields", [[("b3", "0")], [("X-B3-Sampled", "0")], [("traceparent", PARENT[:-1] + "0")]])
def test_a_trace_that_is_not_sampled(traced: Traced, ask: Ask, fields: Fields) -> None:
    assert traced.trace(ask, fields) is None


@pytest.fixture(scope="module")
def clear(traced: Traced) -> Iterator[Ask]:
    client, asked = clear_client(traced.server.port)
    with client:
        yield asked


@pytest.mark.parametrize(
    ("fields", "trace"),
    [
        ([("b3", f"{SHORT}-{SPAN}")], SHORT),
        ([("b3", f"{SHORT}-{SPAN}-d")], SHORT),
        ([("b3", f"0000000000000000{SHORT}-{SPAN}-1")], SHORT),
        ([("b3", f"{LONG.upper()}-{SPAN}-1")], LONG),
        ([("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN)], SHORT),
        ([("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN), ("x-b3-sampled", "true")], SHORT),
        ([("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN), ("x-b3-flags", "1"), ("x-b3-sampled", "0")], SHORT),
        ([("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN), ("x-b3-flags", "0"), ("x-b3-other", "?")], SHORT),
        ([("traceparent", f"01-{LONG}-{SPAN}-03-more")], LONG),
        ([("traceparent", f"00-{LONG}-{SPAN}-ff")], LONG),
        ([("traceparent", PARENT[:-1] + "0"), ("b3", f"{SHORT}-{SPAN}-1")], SHORT),
        ([("b3", f"{SHORT}-{SPAN}-1"), ("x-b3-sampled", "0"), ("traceparent", PARENT)], SHORT),
        ([("x-b3-traceid", SHORT), ("traceparent", PARENT), ("x-b3-spanid", SPAN)], SHORT),
    ],
)
def test_formats(traced: Traced, clear: Ask, fields: Fields, trace: str) -> None:
    span = traced.trace(clear, fields)
    assert span is not None
    assert (span["traceId"], span["parentId"]) == (trace, SPAN)


@pytest.mark.parametrize("fields", [[("b3", f"{SHORT}-{SPAN}-0")], [("x-b3-sampled", "false")], [("x-b3-flags", "0"), ("x-b3-sampled", "0")]])
def test_decisions_not_to_sample(traced: Traced, clear: Ask, fields: Fields) -> None:
    assert traced.trace(clear, fields) is None


@pytest.mark.parametrize(
    "fields",
    [
        *([("b3", value)] for value in ("", "1", "d", "2", "-", f"{SHORT}", f"{SHORT}-", f"{SHORT}-{SPAN}-", f"{SHORT}-{SPAN}-2", f"{SHORT}-{SPAN}-1-")),
        *([("b3", value)] for value in (f"{SHORT}-{SPAN}0", f"{SHORT}-{SPAN}-1-{ABOVE}0", f"{'0' * 16}-{SPAN}-1", f"{SHORT}-{'0' * 16}-1", "0" * 10000)),
        *([("b3", f"{value}-{SPAN}-1")] for value in (SHORT[1:], "0" + SHORT, LONG + "0", "g" + SHORT[1:], SHORT[1:] + "\u00e9")),
        [("b3", f"{SHORT}-{SPAN}-1"), ("b3", f"{SHORT}-{SPAN}-1")],
        [("x-b3-traceid", SHORT)],
        [("x-b3-spanid", SPAN), ("x-b3-sampled", "0")],
        [("x-b3-traceid", SHORT), ("x-b3-spanid", "0" * 16)],
        [("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN), ("x-b3-parentspanid", "?")],
        [("x-b3-traceid", SHORT), ("x-b3-spanid", SPAN), ("x-b3-sampled", "maybe")],
        *([("traceparent", value)] for value in ("", "00", PARENT[:-1], PARENT + "0", PARENT + "-more", "ff" + PARENT[2:], PARENT.upper(), "0g" + PARENT[2:])),
        *([("traceparent", f"00-{value}-01")] for value in (f"{'0' * 32}-{SPAN}", f"{LONG}-{'0' * 16}", f"{LONG}.{SPAN}", f"{LONG[1:]}-0{SPAN}")),
        [("traceparent", PARENT[:-1] + "x")],
        [("traceparent", PARENT), ("traceparent", PARENT)],
    ],
)
def test_what_counts_for_nothing(traced: Traced, clear: Ask, fields: Fields) -> None:
    """Malformed values, and those that say no more than that the trace is sampled: the query has a trace of its own."""
    span = traced.trace(clear, fields)
    assert span is not None
    assert "parentId" not in span
    assert span["traceId"] == span["id"] not in (SHORT, SPAN)


def test_http1_fields_as_they_may_be_written(traced: Traced) -> None:
    """In any case and with any space, in requests that come together and octet by octet."""
    names = [next(NAMES) for _ in range(3)]
    spaced = f"B3:\t {SHORT}-{SPAN}-1 \t\r\n", f"TraceParent:{PARENT}\r\n", ""
    octets = b""
    for name, field in zip(names, spaced, strict=True):
        question = base64.urlsafe_b64encode(dns.message.make_query(name, "A", id=0).to_wire()).rstrip(b"=").decode()
        octets += f"GET /dns-query?dns={question} HTTP/1.1\r\nHost: a\r\n{field}X: y\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", traced.server.port), REPLY) as connection:
        connection.sendall(octets[:-40])
        for at in range(len(octets) - 40, len(octets)):
            connection.sendall(octets[at : at + 1])
        until(lambda: traced.root(names[2]), "the last trace")
    found = [(traced.root(name) or {}).get("traceId") for name in names]
    assert found[:2] == [SHORT, LONG]
    assert found[2] not in (SHORT, LONG, None)


def test_shared_spans(serve: Callable[..., Server]) -> None:
    """``client_server``: the span is the client's own."""
    with collector() as zipkin:
        server = serve(block("https", "port", zipkin.address, "client_server"))
        client, asked = clear_client(server.port)
        with client:
            traced = Traced(server, zipkin)
            span = traced.trace(asked, [("b3", f"{LONG}-{SPAN}-1-{ABOVE}")])
            without = traced.trace(asked, [("b3", f"{LONG}-{SPAN}-1")])
            alone = traced.trace(asked, [])
    assert span is not None
    assert without is not None
    assert alone is not None
    assert (span["traceId"], span["id"], span["parentId"], span["shared"]) == (LONG, SPAN, ABOVE, True)
    assert (without["traceId"], without["id"], "parentId" in without, without["shared"]) == (LONG, SPAN, False, True)
    assert "shared" not in alone


def test_every_comes_before_the_client(serve: Callable[..., Server]) -> None:
    with collector() as zipkin:
        server = serve(block("https", "port", zipkin.address, "every 3"))
        client, asked = clear_client(server.port)
        names = [next(NAMES) for _ in range(6)]
        with client:
            for name in names:
                asked(dns.message.make_query(name, "A", id=0).to_wire(), [("b3", f"{LONG}-{SPAN}-1")])
        until(lambda: len(zipkin.spans) == 4, "two traces")
        found = {span["tags"]["coredns.io/name"]: span["parentId"] for span in zipkin.spans if "tags" in span}
    assert found == {names[2]: SPAN, names[5]: SPAN}


def test_metadata(serve: Callable[..., Server]) -> None:
    with collector() as zipkin:
        server = serve(block("https", "port", zipkin.address).replace("whoami", 'metadata\n log . "id {/trace/traceid}."\n whoami'))
        client, asked = clear_client(server.port)
        with client:
            for value in (f"{LONG}-{SPAN}-1", f"{SHORT}-{SPAN}-1", "0"):
                asked(dns.message.make_query("a.test.", "A", id=0).to_wire(), [("b3", value)])
        for wanted in (LONG, SHORT, "-"):
            server.wait_log(rf"^\[INFO\] id {wanted}\.$")


def test_datadog(serve: Callable[..., Server]) -> None:
    with collector() as agent:
        server = serve(block("https", "port", f"datadog {agent.address}").replace("zipkin_max_batch_interval 50ms", ""))
        client, asked = clear_client(server.port)
        with client:
            asked(dns.message.make_query("a.test.", "A", id=0).to_wire(), [("traceparent", PARENT)])
        until(lambda: agent.seen, "a trace")
        ((span,),) = msgspec.msgpack.decode(agent.seen[0][3])
    assert (span["trace_id"], span["parent_id"]) == (int(SHORT, 16), int(SPAN, 16))
    assert span["meta"]["_dd.p.tid"] == LONG[:16]
    assert span["span_id"] not in (0, int(SPAN, 16), int(SHORT, 16))


def test_a_reload_adds_trace(serve: Callable[..., Server]) -> None:
    """A connection that was there before sends its fields to no purpose first, then to one."""
    plain = "https://.:{port} {\n bind 127.0.0.1\n whoami\n}\n"
    with collector() as zipkin:
        server = serve(plain)
        client, asked = clear_client(server.port)
        with client:
            asked(dns.message.make_query("before.test.", "A", id=0).to_wire(), [("traceparent", PARENT)])
            server.reload(block("https", "port", zipkin.address))
            span = Traced(server, zipkin).trace(asked, [("traceparent", PARENT)])
    assert span is not None
    assert span["parentId"] == SPAN
    assert "before.test." not in json.dumps(zipkin.spans)
