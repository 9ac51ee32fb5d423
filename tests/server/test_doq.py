"""DNS over QUIC: whole servers, asked over real connections. RFC 9250."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.tsigkeyring
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from fastdns.engine.quic.listener import connections_limit
from tests.certificates import client_context, common_name, write_certificate, write_certificates
from tests.programs import program
from tests.proxying import whose
from tests.quic import Client, Closed, WebClient, query
from tests.server import Server
from tests.validators import run
from tests.waiting import REPLY, until

TLS = "tls server.pem server.key"
COREFILE = "quic://.:{port} {\n bind 127.0.0.1\n " + TLS + "\n hosts {\n 192.0.2.1 a.test\n }\n}"
QUESTION = query("a.test.")
PROTOCOL_ERROR = 2
SECRET = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that leave no trace in it."""
    folder = write_certificates(tmp_path_factory.mktemp("doq"))
    (folder / "zone").write_text("$ORIGIN z.test.\n@ 60 SOA ns hostmaster 1 60 60 60 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n")
    with (folder / "zone").open("a") as zone:
        zone.writelines(f'big 60 TXT "{i:03}{"x" * 40}"\n' for i in range(60))
    corefile = (
        "(shared) {\n bind 127.0.0.1\n " + TLS + "\n}\n"
        "quic://a.test:{port} {\n import shared\n prometheus 127.0.0.1:{port2}\n hosts {\n 192.0.2.1 a.test\n }\n}\n"
        "quic://z.test:{port} {\n import shared\n file zone\n transfer {\n to *\n }\n}\n"
        "quic://drop.test:{port} {\n import shared\n acl {\n drop\n }\n whoami\n}\n"
        "quic://who.test:{port} {\n import shared\n whoami\n}\n"
        "quic://key.test:{port} {\n import shared\n tsig {\n secret key.test. " + SECRET + "\n require all\n }\n whoami\n}\n"
    )
    with Server(folder, corefile) as started:
        started.wait_started()
        yield started


def test_connections_above_the_limit_are_closed(serve: Callable[..., Server]) -> None:
    limited = COREFILE.replace(" hosts", " quic {\n max_connections 3\n }\n timeouts {\n idle 1h\n }\n hosts")
    server = serve(limited, prepare=write_certificates)
    with ExitStack() as stack:
        for client in [stack.enter_context(Client(server.port)) for _ in range(3)]:
            assert client.ask(QUESTION).answer
        with Client(server.port) as one_too_many:
            closed: Closed = one_too_many.wait_closed()
            assert (closed.code, closed.reason) == (0, "too many connections")
        server.reload(limited.replace("max_connections 3", "max_connections 0"))
        for client in [stack.enter_context(Client(server.port)) for _ in range(5)]:
            assert client.ask(QUESTION).answer


@pytest.mark.parametrize(("wanted", "most"), [(0, 20_000), (1, 1), (200, 200), (20_000, 20_000), (1_000_000, 20_000)])
def test_no_limit_is_that_of_tcp(wanted: int, most: int) -> None:
    """Clients with many addresses never have memory without end."""
    assert connections_limit(wanted) == most


def test_queries_at_once_on_one_connection(server: Server) -> None:
    with Client(server.port) as client:
        streams = [client.begin(QUESTION, end=bool(i % 2)) for i in range(200)]  # the end of a query is not waited for
        replies = [client.reply(stream) for stream in streams]
    assert all(reply.id == 0 and str(reply.answer[0][0]) == "192.0.2.1" for reply in replies)


def test_replies_of_many_streams_share_packets(server: Server) -> None:
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        streams = [client.open() for _ in range(40)]
        for stream in streams:
            client.quic.send_stream_data(stream, framed(QUESTION), end_stream=True)
        client.push()  # few packets
        before = client.datagrams
        assert all(client.reply(stream).answer for stream in streams)
        assert client.datagrams - before <= 10


def test_more_streams_than_are_open_at_a_time(server: Server) -> None:
    with Client(server.port) as client:
        for _ in range(12):
            replies = [client.reply(stream) for stream in [client.begin(QUESTION) for _ in range(50)]]
            assert all(reply.answer for reply in replies)


def test_a_query_in_pieces(server: Server) -> None:
    with Client(server.port) as client:
        stream = client.open()
        for octet in framed(QUESTION):
            client.write(stream, bytes([octet]))
        assert client.reply(stream).answer


def test_sizes_are_those_of_udp(server: Server) -> None:
    with Client(server.port) as client:
        small = client.ask(query("big.z.test.", "TXT"))
        large = client.ask(query("big.z.test.", "TXT", use_edns=0, payload=4096))
    assert small.flags & dns.flags.TC
    assert len(small.to_wire()) <= 512
    assert not large.flags & dns.flags.TC
    assert len(large.answer[0]) == 60


def test_zones_are_not_transferred(server: Server) -> None:
    with Client(server.port) as client:
        assert client.ask(query("z.test.", "AXFR")).rcode() == dns.rcode.REFUSED
        assert client.ask(query("nowhere.test.")).rcode() == dns.rcode.REFUSED


def test_a_dropped_query_leaves_its_stream_open(server: Server) -> None:
    with Client(server.port) as client:
        dropped = client.begin(query("x.drop.test."))
        assert client.ask(QUESTION).answer
        assert dropped not in client.received
        assert dropped not in client.ended


@pytest.mark.parametrize(("secret", "rcode"), [(SECRET, dns.rcode.NOERROR), ("A" * 43 + "=", dns.rcode.NOTAUTH)])
def test_signatures(server: Server, secret: str, rcode: dns.rcode.Rcode) -> None:
    signed = dns.message.make_query("x.key.test.", "A", id=0)
    signed.use_tsig(dns.tsigkeyring.from_text({"key.test.": secret}))
    with Client(server.port) as client:
        stream = client.begin(signed.to_wire())
        client.pump(lambda: stream in client.ended)
        assert client.received[stream][5] & 15 == rcode


def opcode(number: int) -> bytes:
    return QUESTION[:2] + bytes([number << 3]) + QUESTION[3:]


@pytest.mark.parametrize(
    ("octets", "end"),
    [
        pytest.param(b"\0\0", False, id="a length of zero"),
        pytest.param(b"", True, id="an end without a query"),
        pytest.param(framed(QUESTION)[:-1], True, id="an end within the query"),
        pytest.param(b"\0", True, id="an end within the length"),
        pytest.param(framed(b"\0\5abc"), False, id="shorter than a header"),
        pytest.param(framed(b"\x12\x34" + QUESTION[2:]), False, id="another id than 0"),
        pytest.param(framed(QUESTION[:2] + b"\x80" + QUESTION[3:]), False, id="a response"),
        pytest.param(framed(opcode(dns.opcode.UPDATE)), False, id="UPDATE"),
        pytest.param(framed(QUESTION[:5] + b"\2" + QUESTION[6:]), False, id="two questions"),
        pytest.param(framed(QUESTION[:-3]), False, id="a question cut short"),
        pytest.param(framed(query("a.test.", use_edns=0, options=[dns.edns.GenericOption(11, b"")])), False, id="edns-tcp-keepalive"),
    ],
)
def test_errors_of_the_protocol_end_the_connection(server: Server, octets: bytes, end: bool) -> None:
    with Client(server.port) as client:
        client.write(client.open(), octets, end)
        assert client.wait_closed().code == PROTOCOL_ERROR


def test_a_cancelled_query_ends_nothing_else(server: Server) -> None:
    """RFC 9250 4.3.1; CoreDNS closes the connection."""
    with Client(server.port) as client:
        cancelled = client.open()
        client.write(cancelled, framed(QUESTION)[:5])
        client.quic.reset_stream(cancelled, 3)
        unwanted = client.open()
        client.write(unwanted, framed(QUESTION)[:5])
        client.quic.stop_stream(unwanted, 3)
        client.push()
        client.write(unwanted, framed(QUESTION)[5:], True)
        assert client.ask(QUESTION).answer
        client.pump(lambda: cancelled in client.resets)


def test_streams_without_use_are_ignored(server: Server) -> None:
    with Client(server.port) as client:
        stream = client.quic.get_next_available_stream_id(is_unidirectional=True)
        client.write(stream, framed(QUESTION) * 100, True)
        assert client.ask(QUESTION).answer


def test_another_protocol_is_refused(server: Server) -> None:
    with Client(server.port, alpn="h3", wait=False) as client:
        client.push()
        assert client.wait_closed().code == 0x178  # the alert no_application_protocol


def test_a_resumed_session_asks_once_its_handshake_is_done(server: Server) -> None:
    """What is sent as early data may be a replay: it is not taken, and the client sends it again (RFC 8446 8)."""
    with Client(server.port) as first:
        assert first.ask(QUESTION).answer
        first.pump(lambda: first.tickets)
        ticket = first.tickets[0]
    for _ in range(2):
        with Client(server.port, ticket=ticket, wait=False) as resumed:
            assert resumed.ask(QUESTION).answer
            assert resumed.handshake is not None
            assert (resumed.handshake.session_resumed, resumed.handshake.early_data_accepted) == (True, False)


def test_a_client_moves(server: Server) -> None:
    """RFC 9000 9: behind a NAT that forgot, the connection goes on from another port."""
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        client.move()
        assert client.ask(QUESTION).answer
        assert client.ask(QUESTION).answer


def test_a_client_that_moves_has_to_show_its_address(server: Server) -> None:
    """RFC 9000 8.2: until it has answered from there its queries count as those of its former address, whatever *acl* says of the new one."""
    question = query("who.test.")
    with Client(server.port) as client:
        former = client.socket.getsockname()[1]
        assert whose(client.ask(question)) == ("127.0.0.1", former)
        client.move()
        until(lambda: whose(client.ask(question))[1] == client.socket.getsockname()[1])
        former = client.socket.getsockname()[1]
        client.keep_silent_of_paths()
        client.move()
        for _ in range(10):
            assert whose(client.ask(question))[1] == former


def test_a_client_moves_on_before_its_path_is_validated(server: Server) -> None:
    """The path that it has left has a challenge to be sent that cannot be: the new one does not wait for it."""
    for _ in range(6):
        with Client(server.port) as client:
            for _ in range(3):
                client.move()
                assert client.ask(QUESTION).answer
                client.quic.change_connection_id()
                client.move()
                assert client.ask(QUESTION).answer


def test_a_client_moves_with_another_connection_id(server: Server) -> None:
    """RFC 9000 9.5: who moves on purpose shows another id. Each that is used up is replaced."""
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        seen = {client.quic._peer_cid.cid}
        for _ in range(6):
            with pytest.raises(AssertionError):  # all that is on its way arrives before the path goes
                client.pump(lambda: False, 0.2)
            client.quic.change_connection_id()
            client.move()
            assert client.ask(QUESTION).answer
            seen.add(client.quic._peer_cid.cid)
        assert len(seen) == 7
        assert len({name[1] for name in seen}) == 1  # the tag of the listener


@pytest.mark.parametrize("changes", [False, True], ids=["rebinding", "another-id"])
def test_a_client_moves_on_and_on(server: Server, changes: bool) -> None:
    """More often than there are paths of a connection (PATHS_MAX): those that it has left first make room."""
    with Client(server.port) as client:
        for _ in range(25):
            assert client.ask(QUESTION).answer
            if changes:
                client.quic.change_connection_id()
            client.move()
        assert client.ask(QUESTION).answer


def test_an_id_is_retired_twice(server: Server) -> None:
    """RFC 9000 13.3: a client says it again where no acknowledgement came; the server may read both at a time."""
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        client.pump(lambda: client.quic._peer_cid_available and client.quic._loss.bytes_in_flight == 0)
        retired = client.quic._peer_cid.sequence_number
        server.signal(signal.SIGSTOP)
        client.quic.change_connection_id()
        client.push()
        client.quic._retire_connection_ids.append(retired)
        client.push()
        server.signal(signal.SIGCONT)
        assert client.ask(QUESTION).answer


def test_keys_are_renewed(server: Server) -> None:
    """RFC 9001 6."""
    with Client(server.port) as client:
        for _ in range(5):
            assert client.ask(QUESTION).answer
            client.quic.request_key_update()
            client.pump(lambda: client.quic._loss.bytes_in_flight == 0)
        assert client.ask(QUESTION).answer


def test_a_connection_that_is_forgotten_is_reset(server: Server) -> None:
    """RFC 9000 10.3: the token of its id, and not of an id that was never given by this server."""
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        name, token = client.quic._peer_cid.cid, client.quic._peer_cid.stateless_reset_token
    assert token is not None
    sock = probe(server)
    sock.settimeout(0.1)

    def answer() -> bytes:
        sock.send(b"\x40" + name + os.urandom(60))
        try:
            return sock.recv(65535)
        except TimeoutError:
            return b""

    until(lambda: answer().endswith(token))  # once the connection is drained
    reset = answer()
    assert len(reset) < 69
    assert reset[0] & 0xC0 == 0x40
    sock.send(b"\x40" + name + bytes(30))  # too short for an answer that is shorter
    sock.send(b"\x40" + name[:1] + bytes([name[1] ^ 1]) + os.urandom(66))  # of a process that nobody knows
    with pytest.raises(TimeoutError):
        sock.recv(65535)
    sock.close()


def test_responses_are_counted(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE.replace(" hosts", " prometheus 127.0.0.1:{port2}\n hosts"), prepare=write_certificates)
    with Client(server.port) as client:
        for _ in range(3):
            client.ask(QUESTION)
    with Client(server.port) as client:
        client.write(client.open(), b"\0\0")
        client.wait_closed()
    page = server.get(int(server.ports["port2"]), "/metrics")
    label = f'server="quic://127.0.0.1:{server.port}"'
    assert f'coredns_dns_quic_responses_total{{{label},status="0x0"}} 3\n' in page
    assert f'coredns_dns_quic_responses_total{{{label},status="0x2"}} 1\n' in page
    assert 'status="0x1"' not in page
    assert f'coredns_dns_requests_total{{family="1",proto="udp",{label},type="A",view="",zone="."}} 3\n' in page


def test_idle_connections_end(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE.replace(" hosts", " timeouts {\n idle 1s\n }\n hosts"), prepare=write_certificates)
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        assert client.wait_closed().reason == "Idle timeout"


@pytest.mark.parametrize("host", ["127.0.0.5", "::1"])
def test_a_wildcard_socket_answers_from_the_address_that_was_asked(serve: Callable[..., Server], host: str) -> None:
    if host == "::1" and not Path("/proc/net/if_inet6").read_text():
        pytest.skip("needs IPv6")
    server = serve("quic://.:{port} {\n " + TLS + "\n whoami\n}", prepare=write_certificates)
    with Client(server.port, host=host) as client:  # on a connected socket, which hears nobody else
        assert client.ask(QUESTION).rcode() == dns.rcode.NOERROR


@pytest.mark.parametrize("scheme", ["quic", "https3"])
@pytest.mark.parametrize(
    ("kind", "served"),
    [
        ("nocert", {"", "client", "stranger"}),
        ("request", {"", "client", "stranger"}),
        ("require", {"client", "stranger"}),
        ("verify_if_given", {"", "client"}),
        ("require_and_verify", {"client"}),
    ],
)
def test_certificates_of_clients(serve: Callable[..., Server], scheme: str, kind: str, served: set[str]) -> None:
    corefile = COREFILE.replace("quic://", f"{scheme}://").replace(TLS, TLS + " ca.pem {\n client_auth " + kind + "\n }")
    server = serve(corefile, prepare=write_certificates)

    def is_served(name: str) -> bool:
        client = Client(server.port, wait=False) if scheme == "quic" else WebClient(server.port, wait=False)
        if name:
            client.quic.configuration.load_cert_chain(server.folder / f"{name}.pem", server.folder / f"{name}.key")
            client.quic.tls.certificate = client.quic.configuration.certificate
            client.quic.tls.certificate_private_key = client.quic.configuration.private_key
        with client:
            try:
                if isinstance(client, WebClient):
                    client.push()
                    client.pump(lambda: client.handshake is not None)
                    return client.fetch(body=QUESTION).status == 200
                return bool(client.ask(QUESTION).answer)
            except Closed as closed:
                return closed.code & 0xFF00 != 0x100  # closed by an alert

    assert {name for name in ("", "client", "stranger") if is_served(name)} == served


@pytest.mark.parametrize("scheme", ["quic", "https3"])
def test_a_renewed_certificate(serve: Callable[..., Server], scheme: str) -> None:
    server = serve(COREFILE.replace("quic://", f"{scheme}://"), prepare=write_certificates)

    def name() -> str:
        with Client(server.port) if scheme == "quic" else WebClient(server.port) as client:
            return common_name(client.quic.tls._peer_certificate.public_bytes(Encoding.DER))

    before = name()
    write_certificate(server.folder, "server", "renewed.test")
    until(lambda: name() == "renewed.test", "the renewal")
    assert before != "renewed.test"
    assert "ERROR" not in server.log()


def test_two_libraries_of_tls_in_one_process(serve: Callable[..., Server]) -> None:
    """BoringSSL's functions have the names of OpenSSL's, over which tls:// is served."""
    server = serve(COREFILE + "\ntls://.:{port2} {\n bind 127.0.0.1\n " + TLS + "\n hosts {\n 192.0.2.2 a.test\n }\n}", prepare=write_certificates)
    context = client_context(server.folder)
    for _ in range(5):
        with Client(server.port) as client, context.wrap_socket(socket.create_connection(("127.0.0.1", int(server.ports["port2"])))) as stream:
            stream.sendall(framed(QUESTION))
            assert str(client.ask(QUESTION).answer[0][0]) == "192.0.2.1"
            size = int.from_bytes(stream.recv(2), "big")
            assert str(dns.message.from_wire(stream.recv(size)).answer[0][0]) == "192.0.2.2"


def test_secrets_are_logged(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE.replace(TLS, TLS + " {\n keylog secrets\n }"), prepare=write_certificates)
    with Client(server.port) as client:
        client.ask(QUESTION)
    labels = {line.split()[0] for line in (server.folder / "secrets").read_text().splitlines()}
    assert labels - {"EXPORTER_SECRET"} == {
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    }


def test_a_reload_brings_a_renewed_certificate_and_keeps_connections(serve: Callable[..., Server]) -> None:
    corefile = COREFILE.replace(" hosts", " timeouts {\n idle 1h\n }\n hosts")
    server = serve(corefile, prepare=write_certificates)

    def name() -> str:
        with Client(server.port) as fresh:
            return common_name(fresh.quic.tls._peer_certificate.public_bytes(Encoding.DER))

    with Client(server.port, idle_timeout=3600) as before:
        assert str(before.ask(QUESTION).answer[0][0]) == "192.0.2.1"
        assert name() == "server.test"
        write_certificate(server.folder, "server", "renewed.test")
        server.reload(corefile.replace("192.0.2.1", "192.0.2.9"))
        until(lambda: name() == "renewed.test")
        assert str(before.ask(QUESTION).answer[0][0]) == "192.0.2.9"


def test_the_end_of_the_server_closes_connections(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
        assert server.stop() == 0
        assert client.wait_closed().code == 0


@pytest.mark.parametrize("way", [signal.SIGUSR2, signal.SIGTERM])
def test_what_was_asked_is_answered(serve: Callable[..., Server], way: signal.Signals) -> None:
    server = serve(COREFILE.replace(" hosts", " erratic {\n delay 1 400ms\n drop 0\n truncate 0\n }\n hosts"), prepare=write_certificates)
    with Client(server.port) as client:
        streams = [client.begin(QUESTION) for _ in range(10)]
        client.pump(lambda: client.quic._loss.bytes_in_flight == 0)  # the server has them
        server.signal(way)
        assert all(client.reply(stream).rcode() == dns.rcode.NOERROR for stream in streams)
        if way is signal.SIGTERM:
            assert client.wait_closed().code == 0
        else:  # tests/server/test_upgrade.py
            assert client.ask(QUESTION).rcode() == dns.rcode.NOERROR


@pytest.mark.parametrize(
    ("corefile", "message"),
    [
        ("quic://.:{port} {\n whoami\n}", "ListenPacket: quic: tls.Config not set"),
        ("quic://.:{port} {\n tls server.pem client.key\n whoami\n}", "plugin/tls: could not load TLS cert: tls: private key does not match public key"),
        ("quic://.:{port} {\n tls server.pem server.key\n quic {\n max_streams 0\n }\n whoami\n}", "max_streams must be a positive integer: 0"),
    ],
)
def test_what_cannot_be_served_is_said(serve: Callable[..., Server], corefile: str, message: str) -> None:
    server = serve(corefile, prepare=write_certificates, wait=False)
    assert server.exit_status() == 1
    assert message in server.log()


def test_a_build_without_quic_names_what_builds_it(serve: Callable[..., Server]) -> None:
    def hide(folder: Path) -> None:
        write_certificates(folder)
        (folder / "hidden").mkdir()
        (folder / "hidden" / "sitecustomize.py").write_text("import sys\nsys.modules['fastdns.engine.quic.library'] = None\n")

    for scheme in ("quic", "https3"):
        server = serve(COREFILE.replace("quic://", f"{scheme}://"), prepare=hide, wait=False, env={"PYTHONPATH": "hidden"})
        assert server.exit_status() == 1
        said = f"{scheme}:// is not in this build: install cargo, then make quic and make (server block {scheme}://.:{server.port})"
        assert f"{server.corefile}:1 - Error during parsing: {said}" in server.log()


def test_an_independent_client(server: Server) -> None:
    """kdig speaks QUIC by ngtcp2."""
    kdig = program("kdig")
    if "+[no]quic" not in run(kdig, "--help"):
        pytest.skip("needs kdig with QUIC (knot-dnsutils)")
    command = [kdig, "+quic", "+short", f"+timeout={REPLY:g}", "@127.0.0.1", "-p", str(server.port), "a.test", "A"]
    assert run(*command) == "192.0.2.1\n"


# ---- what is no connection ----


def probe(server: Server, *datagrams: bytes) -> socket.socket:
    """A socket from which these have been sent."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(("127.0.0.1", server.port))
    made.settimeout(REPLY)
    for datagram in datagrams:
        made.send(datagram)
    return made


def received(sock: socket.socket) -> Iterator[bytes]:
    """What is there already."""
    while True:
        try:
            yield sock.recv(65535)
        except BlockingIOError:
            return


def test_version_negotiation(server: Server) -> None:
    """RFC 9000 6: a version that is not spoken is answered with those that are, and only if the datagram is as long as a first one."""
    unknown = b"\xc0\x1a\x2a\x3a\x4a" + b"\x08abcdefgh" + b"\x08ijklmnop"
    with probe(server, unknown.ljust(1199, b"\0"), unknown.ljust(1200, b"\0")) as sock:
        offer = sock.recv(65535)
        assert offer[0] & 0x80
        assert offer[1:5] == bytes(4)
        assert offer[5:23] == b"\x08ijklmnop\x08abcdefgh"
        assert b"\0\0\0\1" in offer[23:]
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(65535)


def test_garbage_is_not_answered(server: Server) -> None:
    negotiation = b"\xc0" + bytes(4) + b"\x08abcdefgh\x08ijklmnop\0\0\0\1"
    initial = b"\xc3\0\0\0\1\x08abcdefgh\x08ijklmnop\0\x44\x9e"
    garbage = [b"", b"\0", b"\x40", b"\xff" * 1200, b"\x40" + bytes(1199), negotiation.ljust(1200, b"\0"), initial.ljust(1200, b"\x55")]
    garbage += [bytes([first]) + os.urandom(1199) for first in range(64, 256)]
    with probe(server, *garbage) as sock:
        with Client(server.port) as client:
            assert client.ask(QUESTION).answer
        sock.setblocking(False)
        for answer in received(sock):
            if answer[0] & 0x80:
                assert answer[1:5] == bytes(4)  # unknown versions are answered with the known ones
                assert len(answer) <= 1200
            else:
                assert len(answer) < 1200  # a stateless reset, where an id is one that the server may have given (RFC 9000 10.3)
