"""grpc: queries to scripted servers, made with Google's own library, and to one of ours."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import grpc
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import pytest

from tests.certificates import write_certificates
from tests.grpc_client import packet, packet_message
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
Script = Callable[[dns.message.Message, grpc.ServicerContext], "dns.message.Message | bytes"]


class Scripted:
    """A server of the service, and what it was asked."""

    def __init__(self, script: Script, at: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self.script = script
        self.seen: list[dns.message.Message] = []
        self.peers: set[str] = set()
        self.server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
        handler = grpc.unary_unary_rpc_method_handler(self.answer, lambda octets: octets, lambda octets: octets)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("coredns.dns.DnsService", {"Query": handler}),))
        self.port = self.server.add_secure_port(at, credentials) if credentials else self.server.add_insecure_port(at)
        self.server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, octets: bytes, context: grpc.ServicerContext) -> bytes:
        request = dns.message.from_wire(packet_message(octets))
        self.seen.append(request)
        self.peers.add(context.peer())
        made = self.script(request, context)
        return packet(made if isinstance(made, bytes) else made.to_wire(max_size=65535))


@contextmanager
def upstream(script: Script, at: str = "127.0.0.1:0", credentials: grpc.ServerCredentials | None = None) -> Iterator[Scripted]:
    made = Scripted(script, at, credentials)
    try:
        yield made
    finally:
        made.server.stop(0).wait()


def reply(request: dns.message.Message, *records: str, rcode: int = 0) -> dns.message.Message:
    made = dns.message.make_response(request)
    made.flags |= dns.flags.RA
    made.set_rcode(dns.rcode.Rcode(rcode))
    for record in records:
        kind, rdata = record.split(None, 1)
        made.answer.append(dns.rrset.from_text(request.question[0].name, 60, "IN", kind, rdata))
    return made


def address(text: str) -> Script:
    return lambda request, context: reply(request, f"A {text}")


def failing(status: grpc.StatusCode, text: str = "") -> Script:
    def script(request: dns.message.Message, context: grpc.ServicerContext) -> bytes:
        context.abort(status, text)
        return b""

    return script


def corefile(to: str, options: str = "", rest: str = "") -> str:
    return f".:{{port}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{port2}}\n    errors\n    grpc . {to} {{\n{options}\n    }}\n    {rest}\n}}\n"


def test_query_and_reply_pass_unchanged(serve: Serve) -> None:
    with upstream(lambda request, context: reply(request, "A 192.0.2.7", "A 192.0.2.8")) as scripted:
        server = serve(corefile(scripted.address))
        options = [dns.edns.ECSOption("192.0.2.0", 24)]
        answer = server.query("WWW.Example.org", "A", flags=dns.flags.RD | dns.flags.CD, use_edns=0, payload=1200, want_dnssec=True, options=options)
        assert answer.question[0].name.to_text() == "WWW.Example.org."
        assert [rrset.to_text() for rrset in answer.answer] == ["WWW.Example.org. 60 IN A 192.0.2.7\nWWW.Example.org. 60 IN A 192.0.2.8"]
        assert answer.flags & dns.flags.RA
        assert not answer.flags & dns.flags.AA
        (asked,) = scripted.seen
        assert (asked.id, asked.flags, asked.payload, asked.options) == (answer.id, dns.flags.RD | dns.flags.CD, 1200, tuple(options))
        assert asked.question[0].name.to_text() == "WWW.Example.org."
        for number in range(20):
            server.query(f"n{number}.test", tcp=bool(number % 2))
        assert len(scripted.peers) == 1
        to = scripted.address
        assert server.metric(server.ports["port2"], f'coredns_grpc_requests_total{{to="{to}"}}') == 21
        assert server.metric(server.ports["port2"], f'coredns_grpc_responses_total{{rcode="NOERROR",to="{to}"}}') == 21
        assert server.metric(server.ports["port2"], f'coredns_grpc_request_duration_seconds_count{{to="{to}"}}') == 21


def test_what_plugins_above_change_is_asked(serve: Serve) -> None:
    with upstream(address("192.0.2.7")) as scripted:
        rewrite = "rewrite continue name from.test to.test\n    rewrite edns0 local set 0xffee 0x61626364"
        server = serve(corefile(scripted.address, rest=rewrite))
        assert server.answers("from.test") == ["192.0.2.7"]
        assert server.answers("from.test", use_edns=0) == ["192.0.2.7"]
    for asked in scripted.seen:
        assert asked.question[0].name.to_text() == "to.test."
        assert [option.to_wire() for option in asked.options] == [b"abcd"]


def test_large_messages(serve: Serve) -> None:
    texts = [f'TXT "{i:0200}"' for i in range(220)]
    with upstream(lambda request, context: reply(request, *texts)) as scripted:
        server = serve(corefile(scripted.address))
        assert len(server.query("big.test", "TXT", tcp=True).answer[0]) == 220
        large = [dns.edns.GenericOption(65001, bytes(60000))]
        request = dns.message.make_query("large.test", "TXT", use_edns=0, request_payload=65535, options=large)
        server.send(request, tcp=True)
        assert [len(option.to_wire()) for option in scripted.seen[-1].options] == [60000]
        assert server.query("cut.test", "TXT").flags & dns.flags.TC


def test_the_next_upstream_after_a_failure(serve: Serve) -> None:
    with upstream(failing(grpc.StatusCode.INTERNAL, "broken: 100 %")) as broken, upstream(address("192.0.2.1")) as well:
        server = serve(corefile(f"127.0.0.1:{free_port()} {broken.address} {well.address}", "policy sequential"))
        assert server.answers("www.test") == ["192.0.2.1"]
        assert len(broken.seen) == 1


@pytest.mark.parametrize(
    ("script", "wanted", "error"),
    [
        (failing(grpc.StatusCode.INTERNAL, "broken: 100 %"), "SERVFAIL", r"rpc error: code = Internal desc = broken: 100 %$"),
        (failing(grpc.StatusCode.NOT_FOUND), "NXDOMAIN", None),
        (lambda request, context: reply(request, rcode=dns.rcode.NXDOMAIN), "NXDOMAIN", None),
        (lambda request, context: reply(dns.message.make_query("other.test", "A")), "FORMERR", None),
        (lambda request, context: reply(dns.message.make_query("www.test", "MX")), "FORMERR", None),
        (lambda request, context: request, "FORMERR", None),
        (lambda request, context: b"abc", "SERVFAIL", r"dns: "),
        (lambda request, context: bytes(70000), "SERVFAIL", r"rpc error: code = ResourceExhausted desc = grpc: received message larger than max"),
    ],
)
def test_outcomes(serve: Serve, script: Script, wanted: str, error: str | None) -> None:
    with upstream(script) as scripted:
        server = serve(corefile(scripted.address))
        answer = server.query("www.test")
        assert dns.rcode.to_text(answer.rcode()) == wanted
        assert not answer.answer
        if error is not None:
            server.wait_log(r"^\[ERROR\] plugin/errors: 2 www\.test\. A: " + error)


def test_nobody_listens(serve: Serve) -> None:
    port = free_port()
    server = serve(corefile(f"127.0.0.1:{port}"))
    assert server.answers("www.test") == ["SERVFAIL"]
    server.wait_log(
        rf'plugin/errors: 2 www\.test\. A: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
        rf'dial tcp 127\.0\.0\.1:{port}: connect: connection refused"$'
    )
    with upstream(address("192.0.2.1"), f"127.0.0.1:{port}"):
        server.until("www.test", "A", ["192.0.2.1"])


def test_a_silent_upstream_costs_five_seconds(serve: Serve) -> None:
    over = threading.Event()
    with upstream(lambda request, context: reply(request) if over.wait(LIMIT) else b"") as silent:
        server = serve(corefile(silent.address))
        assert server.answers("www.test") == ["SERVFAIL"]
        server.wait_log(r"code = DeadlineExceeded desc = context deadline exceeded")
        over.set()


def test_zones_exceptions_and_fallthrough(serve: Serve) -> None:
    def script(request: dns.message.Message, context: grpc.ServicerContext) -> dns.message.Message:
        return reply(request, rcode=dns.rcode.NXDOMAIN)

    with upstream(script) as scripted:
        block = f""".:{{port}} {{
            bind 127.0.0.1
            grpc Example.org {scripted.address} {{
                except no.example.org
                fallthrough fall.example.org
            }}
            erratic {{
                drop 0
            }}
        }}
        own.test:{{port}} {{
            bind 127.0.0.1
            grpc own.test {scripted.address} {{
                except own.test
            }}
        }}"""
        server = serve(block)
        mine = ["192.0.2.53"]
        assert server.answers("other.test") == mine
        assert server.answers("x.no.example.org") == mine
        assert server.answers("x.own.test") == ["SERVFAIL"]  # there is no next plugin
        assert not scripted.seen
        assert server.answers("own.test") == ["NXDOMAIN"]  # the zone itself is never excepted
        assert server.answers("example.org") == ["NXDOMAIN"]
        assert server.answers("notfall.example.org") == ["NXDOMAIN"]
        assert len(scripted.seen) == 3
        assert server.answers("x.fall.example.org") == mine
        assert len(scripted.seen) == 4


def test_fallthrough_when_all_have_failed(serve: Serve) -> None:
    server = serve(corefile(f"127.0.0.1:{free_port()}", "fallthrough", "erratic {\n drop 0\n }"))
    assert server.answers("www.test") == ["192.0.2.53"]


@pytest.mark.parametrize("policy", ["random", "round_robin", "sequential"])
def test_policies(serve: Serve, policy: str) -> None:
    with upstream(address("192.0.2.1")) as first, upstream(address("192.0.2.2")) as second:
        server = serve(corefile(f"{first.address} {second.address}", f"policy {policy}"), "-workers", "1")
        answers = [server.answers(f"n{number}.test")[0][-1] for number in range(24)]
    if policy == "sequential":
        assert set(answers) == {"1"}
    elif policy == "round_robin":
        assert answers == ["2", "1"] * 12
    else:
        assert set(answers) == {"1", "2"}


@pytest.mark.parametrize(
    "options",
    [
        "tls {dir}/ca.pem\n tls_servername server.test",
        "tls_servername server.test",
        "tls {dir}/client.pem {dir}/client.key {dir}/ca.pem\n tls_servername server.test",
    ],
)
def test_tls(serve: Serve, tmp_path: Path, options: str) -> None:
    folder = write_certificates(tmp_path)
    pair = ((folder / "server.key").read_bytes(), (folder / "server.pem").read_bytes())
    wants = "client.pem" in options
    credentials = grpc.ssl_server_credentials([pair], (folder / "ca.pem").read_bytes() if wants else None, wants)
    with upstream(address("192.0.2.1"), credentials=credentials) as scripted:
        server = serve(corefile(scripted.address, options.replace("{dir}", str(folder))))
        if "ca.pem" in options:
            assert server.answers("www.test") == ["192.0.2.1"]
        else:
            assert server.answers("www.test") == ["SERVFAIL"]
            server.wait_log("tls: failed to verify certificate")


def test_a_unix_socket(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("u") / "s"
    with upstream(address("192.0.2.1"), f"unix:{path}"):
        server = serve(corefile(f"unix://{path}"))
        assert server.answers("www.test") == ["192.0.2.1"]


def test_an_upstream_that_restarts(serve: Serve) -> None:
    """Its connections end with GOAWAY, or without a word; the next query makes another."""
    port = free_port()
    theirs = f"grpc://.:{port} {{\n    bind 127.0.0.1\n    erratic {{\n        drop 0\n        delay 1 300ms\n    }}\n}}\n"
    first = serve(theirs)
    server = serve(corefile(f"127.0.0.1:{port}"))
    assert server.answers("a.test") == ["192.0.2.53"]
    answers: list[list[str]] = []
    asking = threading.Thread(target=lambda: answers.append(server.answers("b.test")))
    asking.start()
    first.process.terminate()
    asking.join()
    assert first.exit_status() == 0
    assert answers in ([["192.0.2.53"]], [["SERVFAIL"]])  # what the server had read is answered
    second = serve(theirs)
    server.until("c.test", "A", ["192.0.2.53"])
    second.signal(9)
    second.exit_status()
    serve(theirs)
    server.until("d.test", "A", ["192.0.2.53"])


def test_more_calls_than_streams(serve: Serve) -> None:
    port = free_port()
    limits = "grpc_server {\n        max_streams 2\n    }\n    erratic {\n        drop 0\n        delay 1 50ms\n    }"
    serve(f"grpc://.:{port} {{\n    bind 127.0.0.1\n    {limits}\n}}\n")
    server = serve(corefile(f"127.0.0.1:{port}"))
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda number: server.answers(f"n{number}.test"), range(12)))
    assert found == [["192.0.2.53"]] * 12


Streams = Callable[[h2.connection.H2Connection, int], None]


@contextmanager
def raw(script: Streams) -> Iterator[tuple[str, list[int]]]:
    """A server of HTTP/2 whose script gets each request: its address, and the streams that were opened."""
    opened: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_connection(connection: socket.socket) -> None:
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        with connection, contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            connection.sendall(http.data_to_send())
            while data := connection.recv(65536):
                for event in http.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        fields = dict(event.headers)
                        assert (fields[":path"], fields["content-type"]) == ("/coredns.dns.DnsService/Query", "application/grpc")
                        opened.append(event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        script(http, event.stream_id)
                connection.sendall(http.data_to_send())

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve_connection, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}", opened
        listener.shutdown(socket.SHUT_RDWR)


def respond(*fields: tuple[str, str], body: bytes = b"", trailers: tuple[tuple[str, str], ...] = ()) -> Streams:
    def script(http: h2.connection.H2Connection, stream: int) -> None:
        http.send_headers(stream, fields, end_stream=not body and not trailers)
        if body:
            http.send_data(stream, body, end_stream=not trailers)
        if trailers:
            http.send_headers(stream, trailers, end_stream=True)

    return script


OK = ((":status", "200"), ("content-type", "application/grpc"))
GOOD = (("grpc-status", "0"),)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (respond(*OK, ("grpc-status", "14"), ("grpc-message", "come 100%25 later")), "rpc error: code = Unavailable desc = come 100% later"),
        (respond(*OK, ("grpc-status", "77"), ("grpc-message", "?")), r"rpc error: code = Code\(77\) desc = \?"),
        (respond(*OK, ("grpc-status", "x")), "rpc error: code = Unknown desc ="),
        (respond((":status", "503")), "code = Unavailable desc = unexpected HTTP status code received from server: 503"),
        (respond((":status", "404")), "code = Unknown desc = unexpected HTTP status code received from server: 404"),
        (respond(*OK), "code = Unknown desc = server closed the stream without sending trailers"),
        (respond(*OK, trailers=GOOD), "code = Internal desc = EOF"),
        (respond(*OK, body=b"\0\0", trailers=GOOD), "code = Internal desc = unexpected EOF"),
        (respond(*OK, body=b"\0\0\0\0\x09x", trailers=GOOD), "code = Internal desc = unexpected EOF"),
        (respond(*OK, body=b"\1\0\0\0\0", trailers=GOOD), "code = Internal desc = grpc: compressed flag set with identity or empty encoding"),
        (respond(*OK, body=b"\2\0\0\0\0", trailers=GOOD), "code = Internal desc = grpc: received unexpected payload format 2"),
        (respond(*OK, body=b"\0\0\0\0\0\0\0\0\0\0", trailers=GOOD), "code = Internal desc = cardinality violation"),
        (respond(*OK, body=b"\0\0\0\0\x02\x0a\xff", trailers=GOOD), "code = Internal desc = grpc: error unmarshalling request"),
        (respond(*OK, body=b"\0\0\0\0\2\x0f\1", trailers=GOOD), "code = Internal desc = grpc: error unmarshalling request"),
        (respond(*OK, body=b"\0\0\0\0\3\x0a\1x", trailers=GOOD), "dns: buffer size too small"),
        (lambda http, stream: http.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR), "code = Unavailable desc = stream terminated by RST_STREAM"),
        (lambda http, stream: http.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM), "code = Unavailable desc = the server refuses calls"),
    ],
)
def test_ends_of_calls(serve: Serve, script: Streams, error: str) -> None:
    """Of calls whose response has no DNS message."""
    with raw(script) as (to, opened):
        server = serve(corefile(to), "-workers", "1")
        assert server.answers("www.test") == ["SERVFAIL"]
        server.wait_log(rf"plugin/errors: 2 www\.test\. A: (rpc error: )?{error}")
        assert opened == ([1, 3] if "refuses" in error else [1])


def test_goaway(serve: Serve) -> None:
    """The call that a server leaves out with GOAWAY is made again on another connection."""
    left = [True]

    def script(http: h2.connection.H2Connection, stream: int) -> None:
        if left:
            left.clear()
            http.close_connection(last_stream_id=0)
        else:
            respond(*OK, ("grpc-status", "5"))(http, stream)

    with raw(script) as (to, opened):
        server = serve(corefile(to), "-workers", "1")
        assert server.answers("www.test") == ["NXDOMAIN"]
        assert opened == [1, 1]


def test_reload(serve: Serve) -> None:
    with upstream(address("192.0.2.1")) as first, upstream(address("192.0.2.2")) as second:
        server = serve(corefile(first.address))
        assert server.answers("www.test") == ["192.0.2.1"]
        server.reload(corefile(second.address))
        assert server.answers("www.test") == ["192.0.2.2"]
        until(lambda: server.answers("x.test") == ["192.0.2.2"])
