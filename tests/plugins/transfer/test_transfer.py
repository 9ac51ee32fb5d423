"""transfer: who may have which zone, and zones of every size on their way out."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.zone
import pytest

from fastdns._wire import name_text, name_wire
from fastdns.corefile import CorefileError
from fastdns.index.index import Index
from fastdns.plugins.transfer import Stanza, parse, peers
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]

# ---- set-up ----


def stanzas(text: str, keys: list[str] | None = None) -> list[tuple[list[str], list[str], str]]:
    return [(stanza.zones, stanza.to, stanza.source) for stanza in parse(Controller.of(text, keys))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("transfer example.net {\n to 1.2.3.4 5.6.7.8:1053 [1::2]:34\n}", [(["example.net."], ["1.2.3.4:53", "5.6.7.8:1053", "[1::2]:34"], "")]),
        ("transfer {\n to *\n}", [(["example.org.", "10.in-addr.arpa."], ["*"], "")]),
        ("transfer a.org B.org {\n to 1.2.3.4\n to *\n}", [(["a.org.", "b.org."], ["1.2.3.4:53", "*"], "")]),
        ("transfer a.org {\n to *\n}\ntransfer b.org {\n to 1.2.3.4\n source 9.9.9.9\n}", [(["a.org."], ["*"], ""), (["b.org."], ["1.2.3.4:53"], "9.9.9.9")]),
        ("transfer a.org {\n to fe80::1%eth0\n}", [(["a.org."], ["[fe80::1%eth0]:53"], "")]),
    ],
)
def test_properties(text: str, wanted: list[tuple[list[str], list[str], str]]) -> None:
    assert stanzas(text, ["example.org", "10.0.0.0/8"]) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transfer example.net", "Testfile:1 - Error during parsing: 'to' is required"),
        ("transfer {\n}", "'to' is required"),
        ("transfer {\n to\n}", "Wrong argument count or unexpected line ending after 'to'"),
        ("transfer {\n to example.com\n}", r"must specify an IP address: .example\.com."),
        ("transfer {\n from *\n}", 'unknown property "from"'),
        ("transfer {\n to *\n source\n}", "Wrong argument count"),
        ("transfer {\n to *\n source 1.1.1.1\n source 1.1.1.1\n}", "source already specified"),
        ("transfer {\n to *\n source x\n}", 'invalid source address "x"'),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=message):
        parse(Controller.of(text))


def test_the_first_stanza_of_a_zone_counts() -> None:
    first, second = Stanza(["a.org.", "b.org."]), Stanza(["B.org.", "c.org."])
    first.to, second.to = ["*"], ["192.0.2.1:53", "[fe80::1%lo]:53", "[fe80::2%none]:53"]
    found = peers([first, second])
    assert found["a.org."] == found["b.org."] == [(None, 0)]
    assert found["c.org."][0] == (bytes([192, 0, 2, 1]), 0)
    assert found["c.org."][1][1] == socket.if_nametoindex("lo")
    assert found["c.org."][2][1] == 0xFFFFFFFF


# ---- sources ----


def soa(serial: int) -> bytes:
    return name_wire("ns.example.org.") + name_wire("admin.example.org.") + struct.pack("!5I", serial, 3600, 600, 86400, 60)


def test_an_index_as_a_transfer() -> None:
    index = Index("example.org.")
    assert Transfer.of_index(index) is None
    index.put("b.example.org.", [(1, 300, b"aaaa"), (16, 1, b"\1x"), (1, 200, b"bbbb")])
    index.put("example.org.", [(2, 300, b"\0"), (6, 300, soa(5))])
    index.put("a.a.example.org.", [(1, 300, b"cccc")])
    transfer = Transfer.of_index(index)
    index.replace([])
    found = [(name_text(owner), kind, ttl, rdata) for owner, kind, ttl, rdata in transfer]
    assert found == [
        ("example.org.", 6, 300, soa(5)),
        ("example.org.", 2, 300, b"\0"),
        ("a.a.example.org.", 1, 300, b"cccc"),
        ("b.example.org.", 1, 300, b"aaaa"),
        ("b.example.org.", 1, 200, b"bbbb"),
        ("b.example.org.", 16, 1, b"\1x"),
        ("example.org.", 6, 300, soa(5)),
    ]
    assert list(transfer) == []


def test_serials() -> None:
    index = Index("example.org.")
    index.put("example.org.", [(6, 300, soa(5)), (2, 1, b"\0")])
    assert [len(list(Transfer.of_index(index, serial))) for serial in (None, 4, 5, 6)] == [3, 3, 1, 3]


def test_rows_as_a_transfer() -> None:
    rows = [(name_wire(f"n{i}.example.org."), 16, i, bytes(i * 13 % 5000)) for i in range(400)] + [(b"\0", 1, 0, bytes(65535))]
    assert list(Transfer.of_records(iter(rows))) == rows
    with pytest.raises(ValueError, match="not a name"):
        Transfer.of_records([*rows, (b"\3www", 1, 0, b"")])


# ---- transfers ----

#: A provider in Python; its zones are set by PROVIDES.
PROVIDER = """
import os, struct, time
from fastdns.index.index import Index
from fastdns._wire import name_wire
from fastdns.plugin import Log, Plugin
from fastdns.plugins.transfer import Transfer

log = Log()

def soa(serial):
    return name_wire("ns.example.org.") + name_wire("admin.example.org.") + struct.pack("!5I", serial, 3600, 600, 86400, 60)

def zone(origin, size, serial=55):
    index = Index(origin)
    index.put(origin, [(6, 300, soa(serial)), (2, 300, name_wire("ns.example.org."))])
    index.update((f"n{i}.{origin}", [(16, 60, b"\\xf0" + bytes([97 + i % 26]) * 240)]) for i in range(size))
    return index

class Zones(Plugin):
    zones = ("nothing.asked.",)
    indexes = {"example.org.": zone("example.org.", 3), "sub.example.org.": zone("sub.example.org.", 2),
               "big.test.": zone("big.test.", 20000), "some.test.": zone("some.test.", 600),
               "open.test.": zone("open.test.", 1), "empty.test.": Index("empty.test.")}
    wires = {name_wire(name): index for name, index in indexes.items()}

    def transfer(self, zone, serial):
        if zone == name_wire("broken.test."):
            raise RuntimeError("no such luck")
        if zone == name_wire("headless.test."):
            return Transfer.of_records([(zone, 2, 1, b"\\0")])
        if zone == name_wire("slow.test."):
            log.info("takes its time")
            while not os.path.exists("go"):
                time.sleep(0.01)
            log.info("is done")
            zone = name_wire("open.test.")
        if zone == name_wire("huge.test."):
            rows = [(zone, 6, 1, soa(1)), (zone, 16, 1, bytes(65535)), (zone, 6, 1, soa(1))]
            return Transfer.of_records(rows)
        index = self.wires.get(zone)
        return None if index is None else Transfer.of_index(index, serial)

    def close(self):
        Log("plugin/provider").info("closed")

def setup(controller):
    controller.next()
    timeouts = [float(word) for word in controller.remaining_args()]
    if timeouts:
        controller.config.read_timeout, controller.config.write_timeout, controller.config.idle_timeout = timeouts
    return Zones()
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    transfer example.org {
        to *
    }
    transfer sub.example.org private.test {
        to 127.0.0.50 127.0.0.51:5353
    }
    transfer test {
        to *
    }
    plugin {dir}/provider.py
    whoami
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("transfer")
    (folder / "provider.py").write_text(PROVIDER)
    with Server(folder, COREFILE) as started:
        yield started


def connect(server: Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), LIMIT, (source, 0))


def request(zone: str, kind: str = "AXFR", serial: int | None = None, **options: object) -> dns.message.Message:
    query = dns.message.make_query(zone, kind, **options)  # type: ignore[arg-type]
    if serial is not None:
        query.authority.append(dns.rrset.from_text(zone, 0, "IN", "SOA", f". . {serial} 0 0 0 0"))
    return query


def receive(sock: socket.socket) -> bytes:
    """The octets of the next message."""

    def exactly(size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            more = sock.recv(size - len(octets))
            if not more:
                raise EOFError
            octets += more
        return octets

    return exactly(int.from_bytes(exactly(2), "big"))


def transfer(
    server: Server, zone: str, kind: str = "AXFR", serial: int | None = None, source: str = "127.0.0.1", **options: object
) -> list[dns.message.Message]:
    """All messages of a transfer; just one for a refusal."""
    query = request(zone, kind, serial, **options)
    messages: list[dns.message.Message] = []
    soas = 0
    with connect(server, source) as sock:
        dns.query.send_tcp(sock, query)
        while soas < 2:
            octets = receive(sock)
            assert len(octets) <= 65535
            message = dns.message.from_wire(octets, one_rr_per_rrset=True)
            assert query.is_response(message)
            messages.append(message)
            soas += sum(rrset.rdtype == dns.rdatatype.SOA for rrset in message.answer)
            if message.rcode() != dns.rcode.NOERROR or soas == 0 or (serial is not None and len(message.answer) == 1):
                break
    return messages


def lines(messages: list[dns.message.Message]) -> list[str]:
    return [rrset.to_text() for message in messages for rrset in message.answer]


SOA = "300 IN SOA ns.example.org. admin.example.org. 55 3600 600 86400 60"


@pytest.mark.parametrize("zone", ["example.org.", "EXAMPLE.org."])
def test_axfr(server: Server, zone: str) -> None:
    messages = transfer(server, zone)
    assert len(messages) == 1
    found = lines(messages)
    assert found[0].endswith(SOA)
    assert found[-1].endswith(SOA)
    assert len(found) == 6
    assert found[1].endswith("300 IN NS ns.example.org.")
    assert messages[0].flags == dns.flags.QR | dns.flags.AA | dns.flags.RD
    assert messages[0].question[0].name.to_text() == zone
    assert not messages[0].authority
    assert not messages[0].additional
    server.wait_log(r'^\[INFO\] plugin/transfer: Outgoing transfer of 6 records of zone "(?i:example.org.)" to 127.0.0.1 for 55 SOA serial$')


def test_a_zone_of_several_messages(server: Server) -> None:
    messages = transfer(server, "some.test.")
    assert len(lines(messages)) == 603
    assert len(set(lines(messages))) == 602
    assert len(messages) == 3
    assert all(message.question and message.flags & dns.flags.AA for message in messages)


def test_edns_is_in_every_message(server: Server) -> None:
    messages = transfer(server, "some.test.", use_edns=0, payload=1232, want_dnssec=True)
    assert len(messages) == 3
    assert all((message.edns, message.payload, message.ednsflags) == (0, 1232, dns.flags.DO) for message in messages)


def test_a_big_zone(server: Server) -> None:
    with connect(server) as sock:
        dns.query.send_tcp(sock, request("big.test."))
        records = sizes = 0
        while records < 20003:
            octets = receive(sock)
            records += int.from_bytes(octets[6:8], "big")
            sizes = max(sizes, len(octets))
    assert records == 20003
    assert 60000 < sizes < 64000


def test_dnspython_takes_it(server: Server) -> None:
    zone = dns.zone.Zone("some.test.")
    dns.query.inbound_xfr("127.0.0.1", zone, port=server.port, lifetime=LIMIT)
    assert len(zone.nodes) == 601


# source, zone, rcode (NOERROR: transferred), records, comes from this plugin
ACCESS = [
    ("127.0.0.1", "example.org.", "NOERROR"),
    ("127.0.0.1", "sub.example.org.", "REFUSED"),
    ("127.0.0.50", "sub.example.org.", "NOERROR"),
    ("127.0.0.51", "sub.example.org.", "NOERROR"),
    ("127.0.0.52", "sub.example.org.", "REFUSED"),
    ("127.0.0.1", "SUB.Example.org.", "REFUSED"),
    ("127.0.0.1", "private.test.", "REFUSED"),
    ("127.0.0.1", "x.private.test.", "REFUSED"),
    ("127.0.0.1", "x.sub.example.org.", "REFUSED"),
    ("127.0.0.50", "open.test.", "NOERROR"),
]


@pytest.mark.parametrize(("source", "zone", "rcode"), ACCESS)
def test_the_longest_zone_decides(server: Server, source: str, zone: str, rcode: str) -> None:
    """GHSA-h8mm (CVE-2026-33489): a stanza for a parent never gives a subzone away, whatever their order or spelling."""
    messages = transfer(server, zone, source=source)
    assert dns.rcode.to_text(messages[0].rcode()) == rcode
    if rcode == "REFUSED":
        assert not messages[0].flags & dns.flags.AA
        assert lines(messages) == []
    else:
        assert len(lines(messages)) > 2


@pytest.mark.parametrize("zone", ["n1.example.org.", "other.example.org.", "empty.test.", "elsewhere.net."])
def test_only_exact_zones_are_given_away(server: Server, zone: str) -> None:
    """Anything else goes down the chain, here to whoami."""
    (message,) = transfer(server, zone)
    assert message.rcode() == dns.rcode.NOERROR
    assert message.answer == []
    assert message.additional[0].to_text() == f"{zone} 0 IN A 127.0.0.1"


@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_udp_is_refused(server: Server, kind: str) -> None:
    reply = dns.query.udp(request("example.org.", kind, 55 if kind == "IXFR" else None), "127.0.0.1", REPLY, server.port)
    assert reply.rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize(("serial", "count"), [(55, 1), (54, 6), (56, 6)])
def test_ixfr(server: Server, serial: int, count: int) -> None:
    """The same serial: the SOA alone; any other: the whole zone."""
    messages = transfer(server, "example.org.", "IXFR", serial)
    assert len(lines(messages)) == count
    assert bool(messages[0].flags & dns.flags.AA) == (count > 1)
    what = "noop, incremental transfer for up to date" if count == 1 else f"transfer of {count} records of"
    server.wait_log(rf'^\[INFO\] plugin/transfer: Outgoing {what} zone "example.org." to 127.0.0.1 for 55 SOA serial$')


def test_ixfr_needs_one_soa(server: Server) -> None:
    bare = request("example.org.", "IXFR")
    other = request("example.org.", "IXFR")
    other.authority.append(dns.rrset.from_text("example.org.", 0, "IN", "NS", "ns.example.org."))
    for query in (bare, other):
        reply = dns.query.tcp(query, "127.0.0.1", REPLY, server.port)
        assert reply.rcode() == dns.rcode.SERVFAIL
        assert not reply.answer


def test_each_of_many_addresses_may_transfer(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "provider.py").write_text(PROVIDER)
    allowed = [f"127.{number % 7 + 1}.{number // 200}.{number % 200 + 1}" for number in range(2000)]
    listed = " ".join(["2001:db8::1", *allowed, "2001:db8::2"])
    server = serve(COREFILE.replace("{dir}", str(tmp_path)).replace("to 127.0.0.50 127.0.0.51:5353", f"to {listed}"))
    for source in (min(allowed), max(allowed), *allowed[::400]):
        assert len(lines(transfer(server, "sub.example.org.", source=source))) == 5
    for source in ("127.0.0.1", "127.1.0.250", "127.200.0.1"):
        assert transfer(server, "sub.example.org.", source=source)[0].rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize(("zone", "text"), [("broken.test.", "no such luck"), ("headless.test.", "plugin/transfer: the zone does not begin with its SOA")])
def test_a_provider_that_fails(server: Server, zone: str, text: str) -> None:
    (message,) = transfer(server, zone)
    assert message.rcode() == dns.rcode.SERVFAIL
    server.wait_log(rf"^\[ERROR\] plugin/errors: 2 {zone} AXFR: {text}$")
    assert len(lines(transfer(server, "open.test."))) == 4


def test_a_record_that_no_message_holds_breaks_the_connection(server: Server) -> None:
    with connect(server) as sock:
        dns.query.send_tcp(sock, request("huge.test."))
        assert int.from_bytes(receive(sock)[6:8], "big") == 1
        with pytest.raises(EOFError):
            receive(sock)
    assert len(lines(transfer(server, "open.test."))) == 4


def test_queries_are_answered_while_a_provider_takes_its_time(server: Server) -> None:
    with connect(server) as sock:
        dns.query.send_tcp(sock, request("slow.test."))
        server.wait_log("takes its time")
        for _ in range(20):
            assert server.query("www.elsewhere.net.").rcode() == dns.rcode.NOERROR
        assert "is done" not in server.log()
        (server.folder / "go").touch()
        assert len(dns.message.from_wire(receive(sock), one_rr_per_rrset=True).answer) == 4
    # And when nobody waits for it any more:
    (server.folder / "go").unlink()
    start = len(server.log())
    with connect(server) as sock:
        dns.query.send_tcp(sock, request("slow.test."))
        server.wait_log("takes its time", start=start)
    (server.folder / "go").touch()
    server.wait_log("is done", start=start)
    assert len(lines(transfer(server, "open.test."))) == 4


def test_a_small_zone_does_not_wait_for_large_ones(serve: Serve, tmp_path: Path) -> None:
    """A provider whose size is not known counts as large."""
    (tmp_path / "provider.py").write_text(PROVIDER)
    (tmp_path / "db").write_text("@ 60 IN SOA ns host 1 1 1 1 1\n@ 60 IN NS ns\n")
    text = "small.org:{port} {\n    bind 127.0.0.1\n    transfer {\n        to *\n    }\n    file " + f"{tmp_path}/db" + "\n}\n"
    server = serve(COREFILE.replace("{dir}", str(tmp_path)) + text)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect(server)) for _ in range(6)]
        for sock in socks:
            dns.query.send_tcp(sock, request("slow.test."))
        server.wait_log("takes its time")
        assert len(lines(transfer(server, "small.org."))) == 3
        assert lines(transfer(server, "small.org.", "IXFR", 1)) == ["small.org. 60 IN SOA ns.small.org. host.small.org. 1 1 1 1 1"]
        assert "is done" not in server.log()
        (server.folder / "go").touch()
        for sock in socks:
            assert len(dns.message.from_wire(receive(sock), one_rr_per_rrset=True).answer) == 4


def slow_client(server: Server, zone: str, source: str = "127.0.0.1") -> socket.socket:
    """A connection that asks for a zone and does not read it."""
    sock = socket.socket()
    sock.bind((source, 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(LIMIT)
    sock.connect(("127.0.0.1", server.port))
    dns.query.send_tcp(sock, request(zone))
    return sock


def test_slow_clients_are_counted_and_let_go(serve: Serve, tmp_path: Path) -> None:
    """48 transfers at a time for one network; a client that goes away frees its place, and what it held."""
    (tmp_path / "provider.py").write_text(PROVIDER)
    server = serve(COREFILE.replace("{dir}", str(tmp_path)))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(slow_client(server, "big.test.")) for _ in range(80)]
        rcodes = [sock.recv(6, socket.MSG_WAITALL | socket.MSG_PEEK)[5] & 15 for sock in clients]
        assert 24 < rcodes.count(dns.rcode.SERVFAIL) <= 32
        assert set(rcodes) == {dns.rcode.NOERROR, dns.rcode.SERVFAIL}
        server.wait_log("plugin/transfer: too many transfers")
        assert server.query("www.elsewhere.net.").rcode() == dns.rcode.NOERROR
    until(lambda: transfer(server, "open.test.")[0].rcode() == dns.rcode.NOERROR, "that there is room")
    reply = transfer(server, "open.test.")
    assert len(lines(reply)) == 4


def test_a_network_that_does_not_read_leaves_places_to_others(serve: Serve, tmp_path: Path) -> None:
    """Three networks take as many places as they get; a fourth one finds one."""
    (tmp_path / "provider.py").write_text(PROVIDER)
    server = serve(COREFILE.replace("{dir}", str(tmp_path)))
    with contextlib.ExitStack() as stack:
        for network in (1, 2, 3):
            clients = [stack.enter_context(slow_client(server, "big.test.", f"127.0.{network}.1")) for _ in range(70)]
            rcodes = [sock.recv(6, socket.MSG_WAITALL | socket.MSG_PEEK)[5] & 15 for sock in clients]
            assert dns.rcode.SERVFAIL in rcodes
        assert len(lines(transfer(server, "open.test.", source="127.0.4.1"))) == 4


def test_a_transfer_outlives_a_reload(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "provider.py").write_text(PROVIDER)
    server = serve(COREFILE.replace("{dir}", str(tmp_path)))
    with slow_client(server, "big.test.") as sock:
        records = int.from_bytes(receive(sock)[6:8], "big")
        server.reload(".:{port} {\n bind 127.0.0.1\n whoami\n}\n")
        assert transfer(server, "open.test.")[0].answer == []
        while records < 20003:
            records += int.from_bytes(receive(sock)[6:8], "big")
        assert records == 20003


def test_transfers_that_wait_for_a_thread_outlive_a_reload(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "provider.py").write_text(PROVIDER)
    server = serve(COREFILE.replace("{dir}", str(tmp_path)))
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect(server)) for _ in range(6)]
        for sock in socks:
            dns.query.send_tcp(sock, request("slow.test."))
        server.wait_log("takes its time")
        server.reload(".:{port} {\n bind 127.0.0.1\n whoami\n}\n")
        assert transfer(server, "open.test.")[0].answer == []
        (server.folder / "go").touch()
        for sock in socks:
            assert len(dns.message.from_wire(receive(sock), one_rr_per_rrset=True).answer) == 4
    server.wait_log("plugin/provider: closed")


def test_a_client_that_takes_little_by_little_does_not_keep_its_configuration(serve: Serve, tmp_path: Path) -> None:
    """The time to write counts for whole messages, however many octets of one are taken meanwhile, and beside any other time."""
    (tmp_path / "provider.py").write_text(PROVIDER)
    server = serve(COREFILE.replace("{dir}/provider.py", f"{tmp_path}/provider.py 600 1 600"))
    cut = threading.Event()

    def sip(sock: socket.socket) -> None:
        try:
            while sock.recv(1024):
                time.sleep(0.05)
        except ConnectionResetError:
            cut.set()

    with slow_client(server, "big.test.") as sock:
        receive(sock)
        threading.Thread(target=sip, args=(sock,), daemon=True).start()
        server.reload(".:{port} {\n bind 127.0.0.1\n whoami\n}\n")
        server.wait_log("plugin/provider: closed")
        assert cut.wait(LIMIT)
