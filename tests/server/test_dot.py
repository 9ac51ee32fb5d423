"""DNS over TLS: whole servers, asked over real connections."""

from __future__ import annotations

import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
import pytest

from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.tls.client import ask, connect, framed, is_closed, read
from tests.waiting import REPLY, until

COREFILE = "tls://.:{port} {\n tls server.pem server.key\n whoami\n}"


@pytest.fixture
def serve_tls(serve: Callable[..., Server]) -> Callable[..., Server]:
    """`serve` with certificates."""

    def start(corefile: str, prepare: Callable[[Path], object] = write_certificates) -> Server:
        return serve(corefile, prepare=prepare)

    return start


def test_many_queries_on_one_connection(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls(COREFILE)
    queries = [dns.message.make_query("a.test.", "A", id=i) for i in range(500)]
    with connect(server) as connection:
        octets = framed(*queries)
        for start in range(0, len(octets), 1000):  # messages in pieces, and several in one
            connection.sendall(octets[start : start + 1000])
        replies = [read(connection) for _ in queries]
    assert sorted(reply.id for reply in replies) == list(range(500))
    assert all(str(reply.additional[1].name) == "_tcp.a.test." for reply in replies)


def test_each_reply_is_a_record(serve_tls: Callable[..., Server]) -> None:
    """There are clients that take the first message of a record, and wait for the socket then. A call of `recv` gives one record."""
    server = serve_tls(COREFILE)
    with connect(server) as connection:
        connection.sendall(framed(*[dns.message.make_query("a.test.", "A", id=i) for i in range(50)]))
        records = [connection.recv(65536) for _ in range(50)]
    assert [struct.unpack_from(">HH", octets) for octets in records] == [(len(octets) - 2, i) for i, octets in enumerate(records)]


def test_clear_text_without_a_certificate(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls("tls://.:{port} {\n whoami\n}")
    assert server.query("a.test.", tcp=True).rcode() == dns.rcode.NOERROR


def test_an_old_protocol_is_refused(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    context = client_context(server.folder)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain, pytest.raises(OSError, match="(?i)protocol|alert|eof|reset"):
        context.wrap_socket(plain)


@pytest.mark.parametrize(
    ("version", "offered", "chosen"),
    [
        (ssl.TLSVersion.TLSv1_3, "", "TLS_AES_128_GCM_SHA256"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE+AES256:ECDHE+AESGCM:ECDHE+CHACHA20", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE+CHACHA20:ECDHE+AESGCM", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
def test_the_server_chooses_the_suite(serve: Callable[..., Server], version: ssl.TLSVersion, offered: str, chosen: str) -> None:
    """As in Go; a client that puts ChaCha20 first has no AES in its processor."""
    server = serve(COREFILE, prepare=write_certificates)
    context = client_context(server.folder)
    context.minimum_version = context.maximum_version = version
    if offered:
        context.set_ciphers(offered)
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain, context.wrap_socket(plain) as tls:
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == chosen


def test_connections_outlive_a_reload(serve_tls: Callable[..., Server]) -> None:
    corefile = COREFILE.replace("whoami", "timeouts {\n read 1h\n idle 1h\n }\n whoami")
    server = serve_tls(corefile)
    with connect(server) as before:
        server.reload(corefile.replace("whoami", "hosts {\n 192.0.2.9 a.test\n }"))
        until(lambda: ask(server).answer)
        before.sendall(framed(dns.message.make_query("a.test.", "A")))
        assert read(before).answer  # the new configuration answers on the connection of old


def test_what_cannot_be_served_is_said(serve: Callable[..., Server]) -> None:
    server = serve("tls://.:{port} {\n tls server.pem ca.key\n whoami\n}", prepare=write_certificates, wait=False)
    assert server.exit_status() == 1
    assert "plugin/tls: could not load TLS cert: tls: private key does not match public key" in server.log()


# ---- messages ----


def test_what_is_no_query(serve_tls: Callable[..., Server]) -> None:
    """Rejections as over TCP; what is ignored leaves the connection as it is."""
    server = serve_tls(COREFILE)
    query = dns.message.make_query("a.test.", "A", id=5)
    update = dns.message.make_query("a.test.", "A", id=6)
    update.set_opcode(dns.opcode.UPDATE)
    with connect(server) as connection:
        connection.sendall(b"\0\0" + b"\0\3abc" + framed(dns.message.make_response(query)) + framed(update) + b"\0\x0e" + query.to_wire()[:14])
        connection.sendall(framed(query))
        replies = {reply.id if reply.question else -reply.id: reply.rcode() for reply in (read(connection) for _ in range(3))}
    assert replies == {-6: dns.rcode.NOTIMP, -5: dns.rcode.FORMERR, 5: dns.rcode.NOERROR}


def test_replies_are_whole_whatever_the_client_says(serve_tls: Callable[..., Server]) -> None:
    """As over TCP: 65,535 octets (spec/server.md 5); larger than a record of TLS."""
    hosts = "".join(f" 192.0.{i // 250}.{i % 250 + 1} big.test\n" for i in range(3000))
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n hosts {\n" + hosts + " }\n}")
    with connect(server) as connection:
        connection.sendall(framed(*[dns.message.make_query("big.test.", "A", id=i, use_edns=0, payload=512) for i in range(5)]))
        replies = [read(connection) for _ in range(5)]
    assert sorted(reply.id for reply in replies) == list(range(5))
    assert all(len(reply.answer[0]) == 3000 and not reply.flags & dns.flags.TC for reply in replies)


def test_slow_replies_are_overtaken(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n whoami\n}\ntls://slow.test:{port} {\n erratic {\n drop 0\n delay 1 300ms\n }\n}")
    with connect(server) as connection:
        connection.sendall(framed(dns.message.make_query("a.slow.test.", "A", id=1), dns.message.make_query("a.test.", "A", id=2)))
        assert [read(connection).id, read(connection).id] == [2, 1]


def test_a_signed_query(serve_tls: Callable[..., Server]) -> None:
    known = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n tsig {\n secret key.test. " + known + "\n require all\n }\n whoami\n}")
    for secret, rcode in ((known, dns.rcode.NOERROR), ("AAAA", dns.rcode.NOTAUTH)):
        query = dns.message.make_query("a.test.", "A")
        query.use_tsig(dns.tsigkeyring.from_text({"key.test.": secret}), algorithm=dns.tsig.HMAC_SHA256)
        with connect(server) as connection:
            octets = query.to_wire()
            connection.sendall(struct.pack(">H", len(octets)) + octets)
            size = struct.unpack(">H", read_exactly(connection, 2))[0]
            assert read_exactly(connection, size)[3] & 15 == rcode


def read_exactly(connection: socket.socket, size: int) -> bytes:
    octets = b""
    while len(octets) < size:
        part = connection.recv(size - len(octets))
        assert part, "the connection has ended"
        octets += part
    return octets


def test_a_zone_transfer(serve_tls: Callable[..., Server]) -> None:
    """Several messages, as fast as the client reads them."""
    zone = "$ORIGIN z.test.\n@ 300 SOA ns h 1 2 3 4 60\n@ 300 NS ns\nns A 192.0.2.1\n" + "".join(f"h{i} 300 TXT {'x' * 200}\n" for i in range(8000))

    def prepare(folder: Path) -> None:
        write_certificates(folder)
        (folder / "db").write_text(zone)

    server = serve_tls("tls://z.test:{port} {\n tls server.pem server.key\n file db\n transfer {\n to *\n }\n}", prepare)
    with connect(server) as connection:
        connection.sendall(framed(dns.message.make_query("z.test.", "AXFR")))
        names, soas, messages = set(), 0, 0
        while soas < 2:
            message = dns.query.receive_tcp(connection, None, one_rr_per_rrset=True)[0]
            messages += 1
            for rrset in message.answer:
                names.add(rrset.name)
                soas += rrset.rdtype == dns.rdatatype.SOA
        connection.sendall(framed(dns.message.make_query("h5.z.test.", "TXT")))
        assert read(connection).answer
    assert messages > 10
    assert len(names) == 8002
    with connect(server) as leaver:
        leaver.sendall(framed(dns.message.make_query("z.test.", "AXFR")))
        leaver.recv(100)
    assert ask(server, "ns.z.test.").answer


# ---- time, and the end ----


def test_times_and_the_number_of_queries(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n timeouts {\n read 1s\n idle 2s\n maxtcpqueries 3\n }\n whoami\n}")
    with connect(server, attempts=5) as silent, socket.create_connection(("127.0.0.1", server.port), REPLY) as no_handshake:
        assert is_closed(silent)
        assert is_closed(no_handshake)
    with connect(server, attempts=5) as idle:
        start = time.monotonic()
        idle.sendall(framed(dns.message.make_query("a.test.", "A")))
        read(idle)
        assert is_closed(idle)
        assert time.monotonic() - start > 1.9
    with connect(server, attempts=5) as busy:
        busy.sendall(framed(*[dns.message.make_query("a.test.", "A")] * 5))
        for _ in range(3):
            read(busy)
        assert is_closed(busy)


def test_a_client_that_sends_no_more_gets_its_replies(serve: Callable[..., Server]) -> None:
    server = serve("tls://.:{port} {\n tls server.pem server.key\n erratic {\n drop 0\n delay 1 300ms\n }\n}", prepare=write_certificates)
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(server.folder).wrap_bio(incoming, outgoing)

        def exchange(act: Callable[[], object]) -> object:
            while True:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    if outgoing.pending:
                        plain.sendall(outgoing.read())
                    part = plain.recv(65536)
                    incoming.write(part) if part else incoming.write_eof()

        exchange(tls.do_handshake)
        tls.write(framed(dns.message.make_query("a.test.", "A", id=9), dns.message.make_query("b.test.", "A", id=9)))
        with pytest.raises(ssl.SSLWantReadError):
            tls.unwrap()  # says that nothing follows, and waits for the same of the other side
        plain.sendall(outgoing.read())
        plain.shutdown(socket.SHUT_WR)
        octets = b""
        while part := plain.recv(65536):
            octets += part
        assert len(octets) > 100  # OpenSSL reads nothing any more after its own goodbye; the replies have come


def test_a_client_that_does_not_read_is_left(serve_tls: Callable[..., Server]) -> None:
    hosts = "".join(f" 192.0.{i // 250}.{i % 250 + 1} big.test\n" for i in range(3000))
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n timeouts {\n write 1s\n }\n hosts {\n" + hosts + " }\n}")
    with connect(server) as connection:
        connection.settimeout(1)
        octets = framed(dns.message.make_query("big.test.", "A")) * 1000000
        with pytest.raises(OSError, match="timed out|reset|pipe|EOF"):
            connection.sendall(octets)
        assert ask(server, "big.test.").answer
        until(lambda: not established(server.port), "the end of the connection")
    assert server.memory() < 300_000_000


def test_clients_that_say_nothing_keep_nobody_out(serve_tls: Callable[..., Server]) -> None:
    """More than may shake hands at a time, each with an hour for it."""
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n timeouts {\n read 1h\n }\n whoami\n}")
    silent = [socket.create_connection(("127.0.0.1", server.port), REPLY) for _ in range(1050)]
    assert ask(server).rcode() == dns.rcode.NOERROR
    for connection in silent:
        connection.close()
    until(lambda: not established(server.port), "the end of the connections")
    assert ask(server).rcode() == dns.rcode.NOERROR


def established(port: int) -> int:
    """Connections of the server's side that stand."""
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:] + Path("/proc/net/tcp6").read_text().splitlines()[1:]:
        words = line.split()
        found += words[1].endswith(f":{port:04X}") and words[3] == "01"
    return found


def test_garbage_before_and_inside_of_tls(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls(COREFILE)
    for octets in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x15\x03\x03\0\2\2\0"):
        with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain:
            plain.sendall(octets)
            until(lambda: is_closed(plain), "the end")
    with connect(server) as connection:
        connection.sendall(framed(dns.message.make_query("a.test.", "A")))
        read(connection)
        socket.socket.send(connection, b"\x17\x03\x03\0\x20" + bytes(32))  # a record that nobody encrypted
        assert is_closed(connection)
    with connect(server) as connection:
        connection.sendall(b"\xff\xff" + bytes(65535))
        assert ask(server).rcode() == dns.rcode.NOERROR


@pytest.mark.memory
def test_many_connections(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls(COREFILE.replace("whoami", "timeouts {\n idle 1h\n read 1h\n }\n whoami"))
    before = server.memory()
    connections = [connect(server) for _ in range(150)]
    for connection in connections:
        connection.sendall(framed(dns.message.make_query("a.test.", "A")))
    for connection in connections:
        read(connection)
    assert server.memory() - before < 150 * 150_000
    for connection in connections:
        connection.close()
    until(lambda: not established(server.port), "the end of the connections")


def test_reloads_under_load_lose_nothing(serve_tls: Callable[..., Server]) -> None:
    """Connections are kept, and each query is answered by one configuration or the other."""
    corefile = "tls://.:{port} {\n tls server.pem server.key\n hosts {\n 192.0.2.%d a.test\n }\n}"
    server = serve_tls(corefile % 1)
    ended = threading.Event()
    failures: list[BaseException] = []
    answered = [0]

    def load() -> None:
        try:
            with connect(server) as connection:
                while not ended.is_set():
                    connection.sendall(framed(*[dns.message.make_query("a.test.", "A", id=i) for i in range(20)]))
                    replies = [read(connection) for _ in range(20)]
                    assert {reply.id for reply in replies} == set(range(20))
                    assert all(reply.answer for reply in replies)
                    answered[0] += 20
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(2, 6):
        before = answered[0]
        server.reload(corefile % i)
        until(lambda before=before: answered[0] > before + 100 or failures, "replies")
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_address_that_is_no_longer_served(serve_tls: Callable[..., Server]) -> None:
    """What was asked is answered, then the connection ends; nobody is accepted any more."""
    slow = "tls://.:{port} {\n tls server.pem server.key\n erratic {\n drop 0\n delay 2 1s\n }\n}\n.:{port2} {\n whoami\n}"
    server = serve_tls(slow)
    with connect(server) as connection:
        connection.sendall(framed(*(dns.message.make_query("a.test.", "A", id=number) for number in (3, 4))))
        first = read(connection).id  # of the two that the server has by now
        server.reload(".:{port2} {\n whoami\n}")
        assert read(connection).id == 7 - first
        assert is_closed(connection)

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.port), REPLY).close()
        except ConnectionRefusedError:
            return True
        return False

    until(is_refused, "the end of the address")


def test_the_end_of_the_server_waits_for_replies(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n log\n erratic {\n drop 0\n delay 1 1s\n }\n}")
    with connect(server) as connection:
        connection.sendall(framed(dns.message.make_query("a.test.", "A", id=3)))
        connection.sendall(framed(dns.message.make_query("a.test.", "A", id=4)))
        read(connection)
        server.process.terminate()
        assert read(connection).id in (3, 4)
        assert is_closed(connection)
    assert server.exit_status() == 0


def test_sockets_are_handed_over_to_a_new_process(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls(COREFILE + "\n# {port2}")
    server.signal(signal.SIGUSR2)
    server.wait_log("Upgrade finished")
    assert ask(server).rcode() == dns.rcode.NOERROR


def test_metrics_and_log_name_the_transport(serve_tls: Callable[..., Server]) -> None:
    server = serve_tls("tls://.:{port} {\n tls server.pem server.key\n prometheus 127.0.0.1:{port2}\n log\n whoami\n}")
    ask(server)
    sample = f'coredns_dns_requests_total{{family="1",proto="tcp",server="tls://:{server.port}",type="A",view="",zone="."}}'
    until(lambda: server.metric(server.ports["port2"], sample) == 1, "the sample")
    server.wait_log(r'"A IN a\.test\. tcp \d+ false 65535" NOERROR')
