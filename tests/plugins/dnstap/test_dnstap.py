"""dnstap: what collectors get, over which connections, and that nobody waits for them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rdatatype
import pytest

from fastdns.testing import Upstream
from tests.plugins.dnstap.receiver import Stream, receiver
from tests.plugins.forward.test_encrypted import certificates  # noqa: F401
from tests.plugins.forward.test_forward import reply
from tests.server import Server, free_port
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]
Connect = Callable[..., Stream]


def corefile(tap: str, rest: str = "whoami", metrics: bool = False) -> str:
    page = "    prometheus 127.0.0.1:{port2}\n" if metrics else ""
    return f".:{{port}} {{\n    bind 127.0.0.1 ::1\n{page}    {tap}\n    {rest}\n}}\n"


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose paths are short enough for sockets."""
    folder: Path = tmp_path_factory.mktemp("tap")
    return folder


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_query_and_response(serve: Serve, short: Path, tcp: bool, host: str) -> None:
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap unix://{short}/tap full"))
        before = time.time()
        answer = server.query("WWW.Example.org", tcp=tcp, host=host, use_edns=0)
        query, response = collector.stream().wait(2)
        after = time.time()
    assert (query.kind, response.kind) == ("CLIENT_QUERY", "CLIENT_RESPONSE")
    for message in (query, response):
        assert message.outer == {"identity": socket.gethostname().encode(), "version": message.outer["version"]}
        assert message.outer["version"].startswith(b"fastdns-")
        assert message["family"] == (1 if host == "127.0.0.1" else 2)
        assert message["protocol"] == (2 if tcp else 1)
        assert message["query_address"] == socket.inet_pton(socket.AF_INET if host == "127.0.0.1" else socket.AF_INET6, host)
        assert 1024 <= message["query_port"] < 65536
        assert before - 1 <= message["query_sec"] + message["query_nsec"] / 1e9 <= after + 1
    assert query.keys() == {"type", "family", "protocol", "query_address", "query_port", "query_sec", "query_nsec", "query"}
    assert response.keys() == (query.keys() - {"query"}) | {"response", "response_sec", "response_nsec"}
    assert (query["query_port"], query["query_sec"], query["query_nsec"]) == tuple(response[name] for name in ("query_port", "query_sec", "query_nsec"))
    asked = dns.message.from_wire(query["query"])
    assert (asked.id, asked.question[0].name.to_text()) == (answer.id, "WWW.Example.org.")
    assert dns.message.from_wire(response["response"]) == answer
    waited = response["response_sec"] - response["query_sec"] + (response["response_nsec"] - response["query_nsec"]) / 1e9
    assert 0 <= waited <= after - before


def test_options(serve: Serve, short: Path) -> None:
    """Without `full` no messages; identity, version and extra, whose placeholders know nothing of the reply."""
    block = """dnstap {unix} {{
        identity us
        version ""
        extra "{{name}} {{rcode}} {{rsize}} {{>rflags}} {{duration}} {{>id}} {{/x/y}} {{nonsense}}"
    }}"""
    with receiver(short / "tap") as collector:
        server = serve(corefile(block.format(unix=short / "tap")))
        number = server.query("Www.example.org").id
        messages = collector.stream().wait(2)
    assert [message.kind for message in messages] == ["CLIENT_QUERY", "CLIENT_RESPONSE"]
    for message in messages:
        assert message.outer == {"identity": b"us", "version": b"", "extra": f"www.example.org. - - - - {number} - {{nonsense}}".encode()}
        assert "query" not in message
        assert "response" not in message


def test_a_failure_that_nobody_wrote_is_no_response(serve: Serve, short: Path) -> None:
    with receiver(short / "tap") as collector:
        server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n    errors\n    dnstap {short}/tap\n}}")
        server.query("a.test")
        server.query("b.test")
        assert [message.kind for message in collector.stream().wait(2)] == ["CLIENT_QUERY", "CLIENT_QUERY"]


def test_a_dropped_query_has_no_response(serve: Serve, short: Path) -> None:
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap {short}/tap", "acl {\n        drop net ::1\n    }\n    whoami"), "-workers", "1")
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
            client.sendto(dns.message.make_query("dropped.test", "A").to_wire(), ("::1", server.port))
            collector.stream().wait(1)
        server.query("answered.test")
        messages = collector.stream().wait(3)
    assert [(message.kind, message["family"]) for message in messages] == [("CLIENT_QUERY", 2), ("CLIENT_QUERY", 1), ("CLIENT_RESPONSE", 1)]


def test_every_query_of_all_workers_comes_once(serve: Serve, short: Path) -> None:
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap {short}/tap full"), "-workers", "3")
        asked = set()
        for client in range(30):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
                connection.connect(("127.0.0.1", server.port))
                connection.settimeout(REPLY)
                for number in range(20):
                    name = f"n{client}-{number}.test."
                    asked.add(name)
                    connection.send(dns.message.make_query(name, "A").to_wire())
                    connection.recv(4096)
        stream = collector.stream()
        stream.wait(2 * len(asked))
    for kind, field in (("CLIENT_QUERY", "query"), ("CLIENT_RESPONSE", "response")):
        names = [dns.message.from_wire(message[field]).question[0].name.to_text() for message in stream.messages if message.kind == kind]
        assert sorted(names) == sorted(asked)


def test_several_taps_in_order_and_forwarder_messages(serve: Serve, short: Path) -> None:
    with Upstream(lambda query: reply(query, "@ 60 A 192.0.2.7")) as upstream, receiver(short / "a") as first, receiver() as second:
        host, port = upstream.address.rsplit(":", 1)
        taps = f'metadata\n    dnstap {short}/a full {{\n        extra "up {{/forward/upstream}}"\n    }}\n    dnstap tcp://127.0.0.1:{second.port}'
        server = serve(corefile(taps, f"forward . {upstream.address}"))
        answer = server.query("www.example.org")
        messages = first.stream().wait(4)
        plain = second.stream().wait(4)
    order = ["CLIENT_QUERY", "FORWARDER_QUERY", "FORWARDER_RESPONSE", "CLIENT_RESPONSE"]
    assert [message.kind for message in messages] == order
    assert [message.kind for message in plain] == order
    for message in messages[1:3]:
        assert message["response_address"] == socket.inet_aton(host)
        assert message["response_port"] == int(port)
        assert message["query_address"] == socket.inet_aton("127.0.0.1")
        assert message["query_port"] not in (0, messages[0]["query_port"])
        assert (message["family"], message["protocol"]) == (1, 1)
        assert not {"query", "response"} & plain[messages.index(message)].keys()
    asked, replied = messages[1]["query"], messages[2]["response"]
    assert asked[:2] == replied[:2]
    assert asked[2:] == messages[0]["query"][2:]
    assert dns.message.from_wire(replied).answer == answer.answer
    assert messages[3].outer["extra"] == f"up {upstream.address}".encode()
    assert "extra" not in plain[0].outer


def test_forwarder_over_tcp_and_without_a_reply(serve: Serve, short: Path) -> None:
    with Upstream(lambda query: reply(query) if "tcp" in query.question[0].name.to_text() else None) as upstream, receiver(short / "a") as collector:
        to = f"forward . {upstream.address} {{\n        max_fails 0\n        max_connect_attempts 1\n    }}"
        server = serve(corefile(f"dnstap {short}/a", to), "-workers", "1")
        server.query("tcp.test", tcp=True)
        server.query("silent.test")
        messages = collector.stream().wait(6)
    assert [(message.kind, message["protocol"]) for message in messages] == [
        ("CLIENT_QUERY", 2),
        ("FORWARDER_QUERY", 2),
        ("FORWARDER_RESPONSE", 2),
        ("CLIENT_RESPONSE", 2),
        ("CLIENT_QUERY", 1),
        ("FORWARDER_QUERY", 1),
    ]


def test_a_transfer_is_told_message_by_message(serve: Serve, short: Path) -> None:
    zone = "$ORIGIN big.test.\n@ 60 IN SOA ns mail 1 60 60 60 60\n@ 60 IN NS ns\n" + "".join(f"n{i} 60 IN TXT {'x' * 200}\n" for i in range(600))
    with receiver(short / "tap") as collector:
        server = serve(
            corefile(f"dnstap {short}/tap full", "file big.test big.test\n    transfer {\n        to *\n    }"),
            prepare=lambda folder: (folder / "big.test").write_text(zone),
        )
        with socket.create_connection(("127.0.0.1", server.port), REPLY) as connection, connection.makefile("rb") as replies:
            request = dns.message.make_query("big.test", "AXFR").to_wire()
            connection.sendall(struct.pack(">H", len(request)) + request)
            sent: list[bytes] = []
            while len(sent) < 2 or dns.message.from_wire(sent[-1], xfr=True).answer[-1].rdtype != dns.rdatatype.SOA:
                sent.append(replies.read(struct.unpack(">H", replies.read(2))[0]))
        assert len(sent) > 1
        messages = collector.stream().wait(1 + len(sent))
    assert [message.kind for message in messages] == ["CLIENT_QUERY"] + ["CLIENT_RESPONSE"] * len(sent)
    assert [message["response"] for message in messages[1:]] == sent


def test_a_large_reply(serve: Serve, short: Path) -> None:
    hosts = "hosts {\n" + "".join(f"        10.0.{i // 250}.{i % 250} big.test\n" for i in range(4000)) + "    }"
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap {short}/tap full", hosts))
        for _ in range(12):  # around the end of the ring
            answer = server.query("big.test", tcp=True)
        messages = collector.stream().wait(24)
    assert len(answer.answer[0]) == 4000
    for message in messages[1::2]:
        assert len(dns.message.from_wire(message["response"]).answer[0]) == 4000


def test_a_collector_that_comes_later_and_goes(serve: Serve, short: Path) -> None:
    server = serve(corefile(f"dnstap {short}/tap"))
    server.wait_log(rf"^\[ERROR\] plugin/dnstap: No connection to dnstap endpoint: dial unix {short}/tap: connect: no such file or directory$")
    server.query("early.test")
    with receiver(short / "tap") as collector:
        assert len(collector.stream().wait(2)) == 2
    (short / "tap").unlink()
    server.query("between.test")
    with receiver(short / "tap") as collector:
        assert len(collector.stream().wait(2)) == 2


@pytest.mark.parametrize("protocol", ["unix", "tcp"])
def test_a_collector_that_reads_nothing_blocks_nobody(serve: Serve, short: Path, protocol: str) -> None:
    """A ring holds so much, the rest is dropped, counted and told; what it holds comes when the collector reads again."""
    with receiver(short / "tap" if protocol == "unix" else 0, read=False) as collector:
        to = f"unix://{short}/tap" if protocol == "unix" else f"tcp://127.0.0.1:{collector.port}"
        server = serve(corefile(f"dnstap {to} full", metrics=True), "-workers", "1")
        collector.stream()
        request = dns.message.make_query("www.example.org", "A", use_edns=0, pad=400).to_wire()
        sample = f'fastdns_dnstap_dropped_messages_total{{endpoint="{to}"}}'
        assert server.metric(server.ports["port2"], sample) == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", server.port))
            client.settimeout(REPLY)
            end = time.monotonic() + LIMIT
            while server.metric(server.ports["port2"], sample) == 0:
                assert time.monotonic() < end
                for _ in range(1000):
                    client.send(request)
                    client.recv(4096)
        if protocol == "unix":  # it takes ten seconds
            server.wait_log(r"^\[WARNING\] plugin/dnstap: Dropped dnstap messages: [1-9]\d*$")


def test_stop_sends_what_there_is(serve: Serve, short: Path) -> None:
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap {short}/tap"))
        stream = collector.stream()
        for number in range(20):
            server.query(f"n{number}.test")
        server.signal(15)
        assert server.exit_status() == 0
        assert stream.stopped.wait(LIMIT)
        assert stream.ended.wait(LIMIT)
        assert len(stream.frames) == 40


def test_reload_loses_no_message(serve: Serve, short: Path) -> None:
    with receiver(short / "tap") as collector:
        server = serve(corefile(f"dnstap {short}/tap {{\n        identity old\n    }}"))
        first = collector.stream()
        server.query("a.test")
        server.write(corefile(f"dnstap {short}/tap {{\n        identity new\n    }}"))
        server.signal(10)
        server.query("b.test")
        server.wait_log(r"Reloading complete")
        second = collector.stream(1)
        server.query("c.test")
        assert first.stopped.wait(LIMIT)
        assert first.ended.wait(LIMIT)
        until(lambda: len(first.frames) + len(second.frames) == 6, "all messages")
    assert {message.outer["identity"] for message in first.messages} == {b"old"}
    assert {message.outer["identity"] for message in second.messages} == {b"new"}


def test_tls(serve: Serve, certificates: Path) -> None:  # noqa: F811
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    with receiver(context=context) as collector:
        server = serve(corefile(f"dnstap tls://127.0.0.1:{collector.port} full {{\n        skipverify\n    }}"))
        server.query("www.example.org")
        assert [message.kind for message in collector.stream().wait(2)] == ["CLIENT_QUERY", "CLIENT_RESPONSE"]
        server.signal(15)
        assert collector.stream().stopped.wait(LIMIT)


def test_tls_is_verified(serve: Serve, certificates: Path) -> None:  # noqa: F811
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    with receiver(context=context) as collector:
        server = serve(corefile(f"dnstap tls://127.0.0.1:{collector.port}"))
        server.wait_log(r"^\[ERROR\] plugin/dnstap: No connection to dnstap endpoint: tls: failed to verify certificate: ")
        assert not collector.streams


# ---- listen ----


@pytest.fixture
def connect() -> Iterator[Callable[..., Stream]]:
    """``connect(place)`` makes a collector that comes to a path or a port of 127.0.0.1."""
    connections: list[socket.socket] = []

    def made(place: Path | int, context: ssl.SSLContext | None = None) -> Stream:
        if isinstance(place, int):
            connection = socket.create_connection(("127.0.0.1", place), REPLY)
        else:
            connection = socket.socket(socket.AF_UNIX)
        connections.append(connection)
        if isinstance(place, Path):
            connection.connect(str(place))
        if context is not None:
            connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
            connections.append(connection)
        return Stream(connection)

    yield made
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def test_any_number_of_collectors_come(serve: Serve, short: Path, connect: Connect) -> None:
    server = serve(corefile(f"dnstap listen {short}/tap full"))
    server.query("nobody.listens.test")
    streams = [connect(short / "tap") for _ in range(3)]
    time_out = time.monotonic() + LIMIT
    while not all(stream.frames for stream in streams):
        server.query("www.example.org")
        assert time.monotonic() < time_out
    streams[0].close()
    count = len(streams[1].frames)
    for _ in range(5):
        server.query("www.example.org")
    streams[1].wait(count + 10)
    streams[2].wait(count + 10)
    names = {dns.message.from_wire(message["query"]).question[0].name.to_text() for message in streams[1].messages if message.kind == "CLIENT_QUERY"}
    assert names == {"www.example.org."}


def test_listener_stays_over_a_reload_with_its_collectors(serve: Serve, short: Path, connect: Connect) -> None:
    port = free_port()
    server = serve(corefile(f"dnstap listen tcp://127.0.0.1:{port} {{\n        identity old\n    }}"))
    stream = connect(port)
    until(lambda: server.query("a.test") and stream.frames, "the first message")
    server.write(corefile(f"dnstap listen tcp://127.0.0.1:{port} {{\n        identity new\n    }}"))
    server.signal(10)
    server.wait_log(r"Reloading complete")
    server.query("b.test")
    until(lambda: stream.messages[-1].outer["identity"] == b"new", "a message of the new configuration")
    assert not stream.ended.is_set()
    server.write(corefile("log"))
    server.signal(10)
    assert stream.stopped.wait(LIMIT)
    assert stream.ended.wait(LIMIT)


@pytest.mark.parametrize("client", ["with a certificate", "without one"])
def test_listener_with_tls(serve: Serve, certificates: Path, connect: Connect, client: str) -> None:  # noqa: F811
    port = free_port()
    folder = certificates
    server = serve(corefile(f"dnstap listen tls://127.0.0.1:{port} {{\n        tls {folder}/cert.pem {folder}/key.pem {folder}/ca.pem\n    }}"))
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client == "with a certificate":
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    if client == "without one":
        with pytest.raises((OSError, EOFError)):
            connect(port, context)
        server.wait_log(r"^\[WARNING\] plugin/dnstap: Error creating encoder for dnstap client: ")
        return
    stream = connect(port, context)
    until(lambda: server.query("a.test") and stream.frames, "a message")


def test_listener_that_cannot_listen(serve: Serve, short: Path) -> None:
    (short / "file").write_text("")
    server = serve(corefile(f"dnstap listen {short}/file\n    dnstap listen tls://127.0.0.1:1"))
    log = server.log()
    assert f"[ERROR] plugin/dnstap: Failed to start dnstap listener: listen unix {short}/file: bind: address already in use" in log
    assert "[WARNING] plugin/dnstap: TLS listener requires cert and key files" in log
    assert server.answers("www.example.org") == []


def test_what_a_crash_left_is_taken_over(serve: Serve, short: Path, connect: Connect) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(short / "tap"))
    left.close()
    server = serve(corefile(f"dnstap listen {short}/tap"))
    stream = connect(short / "tap")
    until(lambda: server.query("a.test") and stream.frames, "a message")
    server.signal(15)
    server.exit_status()
    assert not (short / "tap").exists()
