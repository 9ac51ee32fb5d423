"""forward over QUIC: certificates, streams, loss, resets, connections that end, restarts, health checks."""

from __future__ import annotations

import itertools
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.edns
import dns.message
import dns.rcode
import dns.rrset
import pytest

from tests.certificates import write_certificates
from tests.plugins.forward.test_forward import GIVE_UP, corefile, metrics
from tests.quic_server import DoqServer, Session, answer
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

pytest.importorskip("fastdns.engine.quic.library", reason="needs make quic")

Serve = Callable[..., Server]
Script = Callable[[Session, int, dns.message.Message], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def doq(folder: Path) -> Iterator[DoqServer]:
    with DoqServer(folder / "server.pem", folder / "server.key") as server:
        yield server


def start(serve: Serve, folder: Path, doq: DoqServer, options: str = "", before: str = "errors", to: str = "") -> Server:
    return serve(corefile(f"tls {folder}/ca.pem\n {options}", to or f"quic://{doq.address}", before=before))


def ask_at_once(server: Server, names: list[str]) -> list[list[str]]:
    """The answers, by the position of the name."""
    got: list[list[str]] = [[] for _ in names]

    def one(i: int) -> None:
        got[i] = server.answers(names[i])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def named(count: int) -> list[str]:
    return [f"n{i}.test." for i in range(count)]


# ---- connections ----


@pytest.mark.parametrize(
    ("to", "options", "wanted"),
    [
        ("quic://{up}", "tls {folder}/ca.pem", "192.0.2.1"),
        ("quic://{up}", "tls {folder}/ca.pem\n tls_servername server.test", "192.0.2.1"),
        ("quic://127.0.0.1%server.test:{port}", "tls {folder}/ca.pem", "192.0.2.1"),
        ("quic://{up}", "tls {folder}/client.pem {folder}/client.key {folder}/ca.pem", "192.0.2.1"),
        ("quic://{up}", "tls {folder}/ca.pem\n tls_servername other.test", r"tls: failed to verify certificate: .*, certificate is not valid for 'other.test'"),
        ("quic://127.0.0.1%other.test:{port}", "tls {folder}/ca.pem", r"tls: failed to verify certificate: .*, certificate is not valid for 'other.test'"),
        ("quic://{up}", "tls_servername server.test", r"tls: failed to verify certificate: "),
        ("quic://{up}", "tls {folder}/stranger.pem", r"tls: failed to verify certificate: "),
    ],
)
def test_certificates(serve: Serve, folder: Path, doq: DoqServer, to: str, options: str, wanted: str) -> None:
    to = to.format(up=doq.address, port=doq.address.rpartition(":")[2])
    server = serve(corefile(f"max_connect_attempts 1\n {options.format(folder=folder)}", to, before="errors"))
    if wanted == "192.0.2.1":
        assert server.answers("A.test.") == [wanted]
        assert server.answers("b.test.", tcp=True) == [wanted]
        assert doq.seen[0].question[0].name.to_text() == "A.test."
        return
    assert server.answers("A.test.") == ["SERVFAIL"]
    server.wait_log(rf"\[ERROR\] plugin/errors: 2 a\.test\. A: {wanted}")
    assert doq.seen == []


def test_one_connection_takes_many_questions(serve: Serve, folder: Path, doq: DoqServer) -> None:
    held: list[tuple[Session, int, dns.message.Message]] = []
    doq.script = lambda *asked: held.append(asked)
    server = start(serve, folder, doq, "read_timeout 12s", before="prometheus 127.0.0.1:{port2}")

    def release() -> None:
        until(lambda: len(held) == 100, "that all are asked while none is answered")
        for session, stream, query in reversed(held):
            doq.call(session.send, stream, answer(query))

    helper = threading.Thread(target=release)
    helper.start()
    assert ask_at_once(server, named(100)) == [["192.0.2.1"]] * 100
    helper.join()
    assert len(doq.sessions) <= 2
    page = metrics(server)
    hits, misses = (page[f'coredns_proxy_conn_cache_{what}_total{{proto="quic",proxy_name="forward",to="{doq.address}"}}'] for what in ("hits", "misses"))
    assert misses == len(doq.sessions)
    assert 100 - misses <= hits + misses <= 100


def test_idle_connections_are_closed(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq, "expire 1s")
    assert server.answers("a.test.") == ["192.0.2.1"]
    closed = until(lambda: doq.sessions[0].closed, "that it is closed")
    assert closed.error_code == 0
    assert closed.frame_type is None, "by the application: DOQ_NO_ERROR"
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_sessions_are_resumed(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq)
    for name in ("a.test.", "b.test.", "c.test."):
        assert server.answers(name) == ["192.0.2.1"]
        doq.sessions[-1].server.each("hang_up")
    handshakes = [session.handshake for session in doq.sessions if session.handshake is not None]
    assert not handshakes[0].session_resumed
    assert any(handshake.session_resumed for handshake in handshakes[1:])
    assert not any(handshake.early_data_accepted for handshake in handshakes)


def test_reload_closes_connections(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq, before="reload 2s 1s\n errors")
    assert server.answers("a.test.") == ["192.0.2.1"]
    server.corefile.write_text(server.corefile.read_text() + "# another\n")
    until(lambda: doq.sessions[0].closed, "that it is closed")
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_certificates_that_change_on_disk(serve: Serve, folder: Path, doq: DoqServer, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes((folder / "stranger.pem").read_bytes())
    server = serve(corefile(f"tls {ca}\n max_fails 0", f"quic://{doq.address}", before="errors"))
    assert server.answers("a.test.") == ["SERVFAIL"]
    ca.write_bytes((folder / "ca.pem").read_bytes())
    server.wait_log(r"Read .*ca\.pem again")
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_a_client_certificate(serve: Serve, folder: Path) -> None:
    """Of a server that wants one: ours."""
    above = serve(
        f"quic://.:{{port}} {{\n tls {folder}/server.pem {folder}/server.key {folder}/ca.pem {{\n client_auth require_and_verify\n}}\n"
        ' template IN A {\n answer "{{ .Name }} 5 IN A 192.0.2.1"\n}\n}\n',
        wait=False,
    )
    above.wait_log(r"quic://\.:\d+")
    with_one = f"tls {folder}/client.pem {folder}/client.key {folder}/ca.pem"
    assert serve(corefile(with_one, f"quic://127.0.0.1:{above.port}")).answers("a.test.") == ["192.0.2.1"]
    without = serve(corefile(f"tls {folder}/ca.pem\n max_connect_attempts 1", f"quic://127.0.0.1:{above.port}", before="errors"))
    assert without.answers("b.test.") == ["SERVFAIL"]
    without.wait_log(r"b\.test\. A: CRYPTO_ERROR 0x174 \(remote\)")


def test_ipv6_and_an_upstream_of_our_own(serve: Serve, folder: Path) -> None:
    above = serve(
        f"quic://.:{{port}} {{\n bind ::1\n tls {folder}/server.pem {folder}/server.key\n whoami\n}}\n",
        wait=False,
    )
    above.wait_log(r"quic://\.:\d+")
    options = f"tls {folder}/ca.pem\n tls_servername server.test"
    server = serve(corefile(options, f"quic://[::1]:{above.port}", before="errors"))
    for name in ("a.test.", "b.test."):
        assert [record.to_text().split()[-1] for record in server.query(name).additional[0]] == ["::1"]


def test_source_address(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq, "source_address 127.0.0.7")
    assert server.answers("a.test.") == ["192.0.2.1"]
    assert doq.sessions[0].quic._network_paths[0].addr[0] == "127.0.0.7"


def test_old_connections_are_replaced(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq, "expire 1s\n max_age 1s")
    begun = time.monotonic()
    for number in itertools.count():
        assert server.answers(f"n{number}.test.") == ["192.0.2.1"]
        if len(doq.sessions) > 1:
            break
        assert time.monotonic() - begun < LIMIT
        time.sleep(0.05)
    assert time.monotonic() - begun > 1


# ---- streams ----


@pytest.mark.parametrize("streams", [1, 3])
def test_an_upstream_that_takes_few_streams(serve: Serve, folder: Path, streams: int) -> None:
    def slowly(session: Session, stream: int, query: dns.message.Message) -> None:
        session.server.later(0.01, session.send, stream, answer(query))

    with DoqServer(folder / "server.pem", folder / "server.key", streams=streams, script=slowly) as doq:
        server = start(serve, folder, doq, "read_timeout 12s")
        assert ask_at_once(server, named(60)) == [["192.0.2.1"]] * 60
        assert len(doq.seen) == 60


def test_large_messages(serve: Serve, folder: Path, doq: DoqServer) -> None:
    """A question of many packets, and a reply that comes in pieces."""

    def script(session: Session, stream: int, query: dns.message.Message) -> None:
        made = dns.message.make_response(query)
        made.answer.append(dns.rrset.from_text(query.question[0].name, 5, "IN", "TXT", *('"' + f"{i:03}" * 80 + '"' for i in range(200))))
        octets = made.to_wire(max_size=65535)
        octets = struct.pack("!H", len(octets)) + octets
        for at in range(0, len(octets), 7001):
            session.server.later(at / 1e6, session.write, stream, octets[at : at + 7001], at + 7001 >= len(octets))

    doq.script = script
    server = start(serve, folder, doq)
    query = dns.message.make_query("a.test.", "TXT")
    query.use_edns(payload=1232, request_payload=65535, options=[dns.edns.GenericOption(65001, bytes(40000))])
    for _ in range(2):
        reply = server.send(query, tcp=True)
        assert len(reply.answer) == 200 or len(reply.answer[0]) == 200
    assert doq.seen[0].options[0].to_wire() == bytes(40000)


def test_letters_of_the_question_come_back(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq)
    reply = server.send(dns.message.make_query("MiXeD.TeSt.", "A"))
    assert reply.question[0].name.to_text() == "MiXeD.TeSt."


def send(octets: bytes, end: bool = True) -> Script:
    return lambda session, stream, query: session.write(stream, octets, end)


def reply_with(change: Callable[[bytes], bytes]) -> Script:
    return lambda session, stream, query: session.send(stream, change(answer(query)))


def twice(session: Session, stream: int, query: dns.message.Message) -> None:
    octets = struct.pack("!H", len(answer(query))) + answer(query)
    session.write(stream, octets + octets)


@pytest.mark.parametrize(
    ("script", "error", "closed"),
    [
        (lambda session, stream, query: session.reset(stream, 5), r"stream \d+ canceled by remote with error code 0x5", None),
        (send(b""), "EOF", None),
        (send(b"\0"), "doq: the reply is cut", 2),
        (send(b"\0\x30rest"), "doq: the reply is cut", 2),
        (send(b"\0\x04rest"), "doq: the reply is no message", 2),
        (reply_with(lambda octets: b"\0\1" + octets[2:]), "doq: the reply has an id", 2),
        (twice, "doq: more than one reply on a stream", 2),
        (reply_with(lambda octets: octets[:12] + b"\1b" + octets[14:]), "dns: bad reply", None),
    ],
)
def test_what_is_no_reply(serve: Serve, folder: Path, doq: DoqServer, script: Script, error: str, closed: int | None) -> None:
    doq.script = script
    server = start(serve, folder, doq, "max_connect_attempts 1\n max_fails 0")
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(rf"a\.test\. A: {error}")
    if closed is not None:
        assert until(lambda: doq.sessions[0].closed, "that it is closed").error_code == closed
    doq.script = lambda session, stream, query: session.send(stream, answer(query))
    assert server.answers("b.test.") == ["192.0.2.1"]
    assert len(doq.sessions) == (1 if closed is None else 2)


def test_mutated_replies_never_harm(serve: Serve, folder: Path, doq: DoqServer) -> None:
    source = random.Random(9250)

    def script(session: Session, stream: int, query: dns.message.Message) -> None:
        octets = bytearray(struct.pack("!H", len(answer(query))) + answer(query))
        for _ in range(source.randrange(1, 6)):
            octets[source.randrange(len(octets))] = source.randrange(256)
        at = source.randrange(len(octets))
        session.write(stream, bytes(octets[:at]), False)
        session.server.later(0.001, session.write, stream, bytes(octets[at : source.randrange(at, 2 * len(octets))]), source.random() < 0.8)

    doq.script = script
    server = start(serve, folder, doq, "read_timeout 200ms\n max_connect_attempts 1\n max_fails 0")
    ask_at_once(server, named(150))
    doq.script = lambda session, stream, query: session.send(stream, answer(query))
    server.until("good.test.", "A", ["192.0.2.1"])
    assert server.process.poll() is None


def test_a_stream_of_the_upstream_ends_the_connection(serve: Serve, folder: Path, doq: DoqServer) -> None:
    """No stream of its own is allowed (RFC 9250 4.2)."""
    started: list[int] = []

    def script(session: Session, stream: int, query: dns.message.Message) -> None:
        if not started:
            started.append(stream)
            session.quic._remote_max_streams_uni = 8
            session.quic.send_stream_data(session.quic.get_next_available_stream_id(is_unidirectional=True), b"hello")
        session.send(stream, answer(query))

    doq.script = script
    server = start(serve, folder, doq)
    server.answers("a.test.")
    assert until(lambda: doq.sessions[0].closed, "that it is closed").error_code == 4
    assert server.answers("b.test.") == ["192.0.2.1"]


def test_a_question_that_times_out_is_cancelled(serve: Serve, folder: Path, doq: DoqServer) -> None:
    """And holds up no other."""
    doq.script = lambda session, stream, query: None if query.question[0].name.to_text() == "a.test." else session.send(stream, answer(query))
    server = start(serve, folder, doq, "read_timeout 500ms\n max_connect_attempts 1\n max_fails 0")
    begun = time.monotonic()
    got: list[list[str]] = []
    silent = threading.Thread(target=lambda: got.append(server.answers("a.test.")))
    silent.start()
    until(lambda: doq.seen, "the question that gets no answer")  # what is answered after it shows that the connection is alive
    assert server.answers("b.test.") == ["192.0.2.1"]
    silent.join()
    assert got == [["SERVFAIL"]]
    assert time.monotonic() - begun < GIVE_UP
    server.wait_log(rf"a\.test\. A: read udp 127\.0\.0\.1:\d+->{doq.address}: i/o timeout")
    assert until(lambda: doq.sessions[0].stops, "that it is cancelled") == {next(iter(doq.sessions[0].stops)): 3}
    assert server.answers("c.test.") == ["192.0.2.1"]
    assert len(doq.sessions) == 1


def test_a_transfer_is_not_forwarded(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq)
    for rdtype in ("AXFR", "IXFR"):
        query = dns.message.make_query("a.test.", rdtype)
        assert server.send(query, tcp=True).rcode() == dns.rcode.NOTIMP
    assert doq.seen == []


# ---- what goes wrong ----


@pytest.mark.parametrize("code", [0, 1, 4])
def test_a_connection_that_is_closed_in_flight(serve: Serve, folder: Path, doq: DoqServer, code: int) -> None:
    """Questions on a kept connection are asked again; nothing counts as failed."""
    server = start(serve, folder, doq, "max_connect_attempts 1\n max_fails 0")
    assert server.answers("first.test.") == ["192.0.2.1"]
    first = doq.sessions[0]

    def script(session: Session, stream: int, query: dns.message.Message) -> None:
        if session is first:
            session.hang_up(code)
        else:
            session.send(stream, answer(query))

    doq.script = script
    assert ask_at_once(server, named(20)) == [["192.0.2.1"]] * 20
    assert len(doq.sessions) >= 2


def test_a_connection_that_is_closed_whenever_it_is_asked(serve: Serve, folder: Path, doq: DoqServer) -> None:
    doq.script = lambda session, stream, query: session.hang_up(4, "no, thanks")
    server = start(serve, folder, doq, "max_connect_attempts 1\n max_fails 0")
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(r"a\.test\. A: Application error 0x4 \(remote\): no, thanks")


def test_no_common_protocol(serve: Serve, folder: Path) -> None:
    with DoqServer(folder / "server.pem", folder / "server.key", alpn="h3") as doq:
        server = start(serve, folder, doq, "max_connect_attempts 1\n max_fails 0")
        assert server.answers("a.test.") == ["SERVFAIL"]
        server.wait_log(r"a\.test\. A: CRYPTO_ERROR 0x178 \(remote\)")


def test_loss(serve: Serve, folder: Path, doq: DoqServer) -> None:
    server = start(serve, folder, doq)
    assert server.answers("first.test.") == ["192.0.2.1"]
    doq.loss = 0.1
    for _ in range(5):
        assert ask_at_once(server, named(30)) == [["192.0.2.1"]] * 30


@pytest.mark.timing
def test_an_upstream_that_restarts(serve: Serve, folder: Path, doq: DoqServer) -> None:
    """It has forgotten its connections: packets of them are answered by nothing, or by the kernel while the port is closed."""
    server = start(serve, folder, doq, "read_timeout 500ms\n max_fails 0")
    assert server.answers("a.test.") == ["192.0.2.1"]
    port = int(doq.address.rpartition(":")[2])
    doq.close()
    with DoqServer(folder / "server.pem", folder / "server.key", port):
        assert ask_at_once(server, named(10)) == [["192.0.2.1"]] * 10


def test_an_upstream_that_is_not_there(serve: Serve, folder: Path) -> None:
    port = free_port()
    server = serve(corefile(f"tls {folder}/ca.pem\n max_connect_attempts 1\n max_fails 0", f"quic://127.0.0.1:{port}", before="errors"))
    begun = time.monotonic()
    assert server.answers("a.test.") == ["SERVFAIL"]
    assert time.monotonic() - begun < GIVE_UP
    server.wait_log(rf"a\.test\. A: dial udp 127\.0\.0\.1:{port}: connect: connection refused")


def test_health(serve: Serve, folder: Path) -> None:
    port = free_port()
    options = "health_check 50ms\n max_fails 1\n failfast_all_unhealthy_upstreams"
    server = serve(corefile(f"tls {folder}/ca.pem\n {options}", f"quic://127.0.0.1:{port}", before="errors"))
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(r"connect: connection refused")
    numbers = itertools.count()

    def down() -> bool:
        name = f"b{next(numbers)}.test."
        assert server.answers(name) == ["SERVFAIL"]
        return bool(server.wait_log(rf"{name} A: (.*)")[1] == "no healthy proxies")

    until(down)
    with DoqServer(folder / "server.pem", folder / "server.key", port) as doq:
        server.until("c.test.", "A", ["192.0.2.1"])
        assert {query.question[0].to_text() for query in doq.seen if query.question[0].name.to_text() == "."} == {". IN NS"}


def test_tls_and_quic_on_one_port_are_two(serve: Serve, folder: Path, doq: DoqServer) -> None:
    """Nobody listens for TLS there."""
    server = start(serve, folder, doq, "policy sequential", to=f"tls://{doq.address} quic://{doq.address}")
    assert server.answers("a.test.") == ["192.0.2.1"]


def test_a_build_without_quic_names_what_builds_it(serve: Serve) -> None:
    def hide(folder: Path) -> None:
        (folder / "hidden").mkdir()
        (folder / "hidden" / "sitecustomize.py").write_text("import sys\nsys.modules['fastdns.engine.quic.library'] = None\n")

    server = serve(corefile("", "quic://192.0.2.1"), prepare=hide, wait=False, env={"PYTHONPATH": "hidden"})
    assert server.exit_status() == 1
    assert "quic:// is not in this build: install cargo, then make quic and make: quic://192.0.2.1" in server.log()
