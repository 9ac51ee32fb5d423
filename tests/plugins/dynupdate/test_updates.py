"""UPDATE over sockets: prerequisites, changes, permissions, and who may send it (RFC 2136, RFC 3007)."""

from __future__ import annotations

import base64
import hmac
import http.client
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update
import pytest

from tests.certificates import write_certificates
from tests.plugins.dynupdate.zones import MEMORY, OTHER, SECRET, TSIG, add, key, message, narrow, seed, send, serial, transferred
from tests.quic import Client
from tests.server import Server
from tests.waiting import REPLY

Serve = Callable[..., Server]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(MEMORY, prepare=seed)


def test_an_update_is_served_at_once(server: Server) -> None:
    assert server.answers("host.example.org.") == ["NXDOMAIN"]
    update = message()
    update.add("host", 60, "A", "192.0.2.10")
    update.add("host", 60, "TXT", '"a b"', '"c"')
    update.add("Sub.Host", 60, "SRV", "1 2 3 Host.example.org.")
    reply = server.send(update)
    assert reply.rcode() == dns.rcode.NOERROR
    assert reply.opcode() == dns.opcode.UPDATE
    assert reply.flags & dns.flags.AA
    assert reply.flags & dns.flags.QR
    assert reply.had_tsig
    assert [str(rrset.name) for rrset in reply.sections[0]] == ["example.org."]
    assert server.answers("host.example.org.") == ["192.0.2.10"]
    assert server.answers("host.example.org.", "TXT") == ['"a b"', '"c"']
    assert server.answers("sub.host.example.org.", "SRV") == ["1 2 3 Host.example.org."]
    assert serial(server) == 2


@pytest.mark.parametrize(
    ("make", "rcode", "after"),
    [
        # Additions.
        (lambda m: m.add("www", 60, "A", "192.0.2.3"), "NOERROR", {("www", "A"): ["192.0.2.1", "192.0.2.2", "192.0.2.3"]}),
        (lambda m: m.add("new", 60, "CNAME", "www.example.org."), "NOERROR", {("new", "CNAME"): ["www.example.org."]}),
        (lambda m: m.add("alias", 60, "CNAME", "ns.example.org."), "NOERROR", {("alias", "CNAME"): ["ns.example.org."]}),
        (lambda m: m.add("@", 60, "NS", "ns2.example.org."), "NOERROR", {("@", "NS"): ["ns.example.org.", "ns2.example.org."]}),
        # What CNAME excludes is ignored.
        (lambda m: m.add("www", 60, "CNAME", "ns.example.org."), "NOERROR", None),
        (lambda m: m.add("alias", 60, "A", "192.0.2.3"), "NOERROR", None),
        # What is there already.
        (lambda m: m.add("www", 60, "A", "192.0.2.1"), "NOERROR", None),
        (lambda m: m.add("alias", 60, "CNAME", "WWW.example.org."), "NOERROR", None),
        # Deletions.
        (lambda m: m.delete("www", "A", "192.0.2.1"), "NOERROR", {("www", "A"): ["192.0.2.2"]}),
        (lambda m: m.delete("mail", "MX", "10 NS.example.org."), "NOERROR", {("mail", "MX"): []}),
        (lambda m: m.delete("www", "A"), "NOERROR", {("www", "A"): [], ("www", "TXT"): ['"Old"']}),
        (lambda m: m.delete("www"), "NOERROR", {("www", "A"): [], ("www", "TXT"): []}),
        (lambda m: m.delete("www", "TXT", '"old"'), "NOERROR", None),
        (lambda m: m.delete("none"), "NOERROR", None),
        (lambda m: m.delete("none", "A", "192.0.2.1"), "NOERROR", None),
        # The apex keeps its SOA and its last NS.
        (lambda m: m.delete("@"), "NOERROR", None),
        (lambda m: m.delete("@", "NS"), "NOERROR", None),
        (lambda m: m.delete("@", "SOA"), "NOERROR", None),
        (lambda m: m.delete("@", "NS", "ns.example.org."), "NOERROR", None),
        (lambda m: m.delete("@", "SOA", "ns.example.org. hostmaster.example.org. 1 3600 600 86400 60"), "NOERROR", None),
        # Types and names that are refused.
        (lambda m: m.add("sub", 60, "DS", "1 8 1 0123456789012345678901234567890123456789"), "NOTIMP", None),
        (lambda m: m.delete("sub", "RRSIG"), "NOTIMP", None),
        (lambda m: m.add("sub", 60, "TYPE65280", "\\# 1 00"), "FORMERR", None),
        (lambda m: m.add("www", 60, "SOA", "ns.example.org. hostmaster.example.org. 9 3600 600 86400 60"), "FORMERR", None),
        (lambda m: m.add("@", 60, "SOA", "ns.example.org. hostmaster.example.org. 0 3600 600 86400 60"), "FORMERR", None),
        # Prerequisites.
        (lambda m: m.present("www"), "NOERROR", None),
        (lambda m: m.present("none"), "NXDOMAIN", None),
        (lambda m: m.present("www", "A"), "NOERROR", None),
        (lambda m: m.present("www", "AAAA"), "NXRRSET", None),
        (lambda m: m.absent("none"), "NOERROR", None),
        (lambda m: m.absent("www"), "YXDOMAIN", None),
        (lambda m: m.absent("www", "AAAA"), "NOERROR", None),
        (lambda m: m.absent("www", "A"), "YXRRSET", None),
        (lambda m: m.present("www", "A", "192.0.2.1"), "NXRRSET", None),
        (lambda m: (m.present("www", "A", "192.0.2.2"), m.present("www", "A", "192.0.2.1")), "NOERROR", None),
        (lambda m: m.present("alias", "CNAME", "WWW.Example.org."), "NOERROR", None),
        (lambda m: m.present("www", "TXT", '"old"'), "NXRRSET", None),
        (lambda m: m.present("www", "DS"), "NOTIMP", None),
    ],
)  # fmt: skip
def test_rules(server: Server, make: Callable[[dns.update.UpdateMessage], object], rcode: str, after: dict[tuple[str, str], list[str]] | None) -> None:
    before = transferred(server.port)
    update = message()
    make(update)
    assert send(server, update) == rcode
    if after is None:
        assert transferred(server.port) == before
    else:
        assert serial(server) == 2
    for (name, kind), records in (after or {}).items():
        assert server.answers("example.org." if name == "@" else f"{name}.example.org.", kind) in (records, records or ["NXDOMAIN"])


def raw(*, zone: int = 6, zone_class: int = 1, prerequisites: bytes = b"", updates: bytes = b"", counts: tuple[int, int] = (0, 0)) -> bytes:
    return struct.pack("!HHHHHH", 7, 5 << 11, 1, *counts, 0) + b"\x07example\x03org\x00" + struct.pack("!HH", zone, zone_class) + prerequisites + updates


def signed(octets: bytes) -> bytes:
    """With a TSIG record of ``key.`` (RFC 8945 4)."""
    name, algorithm = b"\x03key\x00", b"\x0bhmac-sha256\x00"
    moment = struct.pack("!HIH", 0, int(time.time()), 300)
    mac = hmac.digest(base64.b64decode(SECRET), octets + name + struct.pack("!HI", 255, 0) + algorithm + moment + bytes(4), "sha256")
    rdata = algorithm + moment + struct.pack("!H", len(mac)) + mac + octets[:2] + bytes(4)
    return octets[:10] + b"\x00\x01" + octets[12:] + rr(name, 250, 255, 0, rdata)


def rr(name: bytes, kind: int, klass: int, ttl: int, rdata: bytes = b"") -> bytes:
    return name + struct.pack("!HHIH", kind, klass, ttl, len(rdata)) + rdata


@pytest.mark.parametrize(
    ("octets", "rcode"),
    [
        (raw(zone=1), "FORMERR"),
        (raw(zone=255), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 1, 255, 1), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 1, 255, 0, b"abcd"), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 252, 255, 0), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 255, 1, 0), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 1, 1, 0), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x0c", 1, 3, 0), counts=(1, 0)), "FORMERR"),
        (raw(prerequisites=rr(b"\xc0\x14", 1, 255, 0), counts=(1, 0)), "NOTZONE"),
        (raw(updates=rr(b"\xc0\x14", 1, 1, 60, b"abcd"), counts=(0, 1)), "NOTZONE"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 1, 60), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 255, 1, 60), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 255, 60), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 255, 0, b"abcd"), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 255, 254, 0), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 254, 1, b"abcd"), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 3, 0, b"abcd"), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 48, 1, 0, b"abcdefgh"), counts=(0, 1)), "NOTIMP"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 16, 1, 0, b"\x05ab"), counts=(0, 1)), "FORMERR"),
        (raw(updates=rr(b"\x01a\xc0\x0c", 1, 1, 0, b"abc"), counts=(0, 1)), "FORMERR"),
    ],
)
def test_malformed_messages(server: Server, octets: bytes, rcode: str) -> None:
    octets = signed(octets)
    before = transferred(server.port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REPLY)
        sock.connect(("127.0.0.1", server.port))
        sock.send(octets)
        reply = sock.recv(65535)
    assert dns.rcode.to_text(dns.rcode.Rcode(reply[3] & 15)) == rcode
    assert transferred(server.port) == before


def test_the_ttl_of_a_record_can_be_changed_alone(server: Server) -> None:
    assert add(server, "ns", 300, "A", "192.0.2.53") == "NOERROR"
    assert "ns.example.org. 300 A 192.0.2.53" in transferred(server.port)
    assert serial(server) == 2


def test_a_dname_replaces_another(server: Server) -> None:
    for target in ("a.test.", "b.test."):
        assert add(server, "sub", 60, "DNAME", target) == "NOERROR"
    assert server.answers("sub.example.org.", "DNAME") == ["b.test."]


def test_an_soa_gives_the_serial_where_it_is_higher(server: Server) -> None:
    for given, found in [(100, 100), (50, 100), (100 + (1 << 31), 100), (99 + (1 << 31), 99 + (1 << 31)), (4294967295, 4294967295)]:
        assert add(server, "@", 60, "SOA", f"ns.example.org. new.example.org. {given} 3600 600 86400 60") == "NOERROR"
        assert serial(server) == found
    assert server.answers("example.org.", "SOA")[0].split()[1] == "new.example.org."
    assert add(server, "host") == "NOERROR"
    assert serial(server) == 1  # never 0


def test_all_of_a_message_or_nothing(server: Server) -> None:
    before = transferred(server.port)
    update = message()
    update.add("host", 60, "A", "192.0.2.10")
    update.delete("www")
    update.add("sub", 60, "NSEC", "a.example.org. A")
    assert send(server, update) == "NOTIMP"
    assert transferred(server.port) == before


def test_permissions(server: Server) -> None:
    cases: list[tuple[Callable[[Any], object], str]] = [
        (lambda m: m.add("host", 60, "A", "192.0.2.10"), "NOERROR"),
        (lambda m: m.delete("host", "AAAA"), "NOERROR"),
        (lambda m: m.add("host", 60, "TXT", "x"), "REFUSED"),
        (lambda m: m.delete("host"), "REFUSED"),
        (lambda m: m.delete("other"), "NOERROR"),
        (lambda m: m.delete("other", "A"), "REFUSED"),
        (lambda m: m.add("www", 60, "A", "192.0.2.10"), "REFUSED"),
        (lambda m: (m.add("host", 60, "A", "192.0.2.11"), m.add("www", 60, "A", "192.0.2.10")), "REFUSED"),
        # Prerequisites come first (RFC 2136 3), and need no permission.
        (lambda m: (m.absent("www"), m.add("www", 60, "A", "192.0.2.10")), "YXDOMAIN"),
    ]
    for make, rcode in cases:
        update = message(with_key=narrow())
        make(update)
        assert send(server, update) == rcode
    assert server.answers("host.example.org.") == ["192.0.2.10"]


def test_a_key_without_any_permission_learns_nothing(server: Server) -> None:
    update = message(with_key=key("stranger."))
    update.absent("www")
    assert send(server, update) == "REFUSED"


def test_unsigned_and_badly_signed_updates_are_refused(serve: Serve) -> None:
    strict_block = f"strict.test:{{port}} {{\n bind 127.0.0.1\n {TSIG}\n dynupdate example.org {{\n file seed\n allow key. * *\n }}\n}}"
    text = MEMORY.replace("require_opcode UPDATE", "") + strict_block
    server = serve(text, prepare=seed)
    unsigned = dns.update.UpdateMessage("example.org.")
    unsigned.add("host", 60, "A", "192.0.2.10")
    reply = server.send(unsigned)
    assert (reply.rcode(), bool(reply.flags & dns.flags.AA)) == (dns.rcode.REFUSED, True)
    strict = dns.update.UpdateMessage("strict.test.")
    assert server.send(strict).rcode() == dns.rcode.REFUSED
    wrong = message(with_key=key("key.", OTHER))
    wrong.add("host", 60, "A", "192.0.2.10")
    with pytest.raises(dns.tsig.PeerBadSignature):
        server.send(wrong)
    assert server.answers("host.example.org.") == ["NXDOMAIN"]


def test_other_zones_are_not_this_servers(server: Server) -> None:
    for zone in ("www.example.org.", "sub.example.org."):
        assert send(server, message(zone)) == "NOTAUTH"


def test_other_blocks_do_not_implement_it(serve: Serve) -> None:
    text = MEMORY + "example.net:{port} {\n bind 127.0.0.1\n whoami\n}\nexample.net:{port2} {\n bind 127.0.0.1\n whoami\n}"
    server = serve(text, prepare=seed)
    update = dns.update.UpdateMessage("example.net.")
    reply = server.send(update)
    assert (reply.rcode(), len(reply.sections[0])) == (dns.rcode.NOTIMP, 1)
    reply = server.send(update, port=server.ports["port2"])
    assert (reply.rcode(), len(reply.sections[0])) == (dns.rcode.NOTIMP, 0)
    assert server.send(dns.update.UpdateMessage("example.com.")).rcode() == dns.rcode.REFUSED


@pytest.mark.parametrize("opcode", [1, 2, 3, 6, 15])
def test_other_opcodes_are_not_implemented(server: Server, opcode: int) -> None:
    query = dns.message.make_query("example.org.", "SOA")
    query.set_opcode(opcode)  # type: ignore[arg-type]
    assert server.send(query).rcode() == dns.rcode.NOTIMP


@pytest.mark.parametrize("tcp", [False, True])
def test_large_messages(server: Server, tcp: bool) -> None:
    update = message()
    for number in range(1000 if tcp else 30):
        update.add(f"h{number}", 60, "TXT", "x" * 30)
    assert send(server, update, tcp) == "NOERROR"
    assert server.answers("h29.example.org.", "TXT") == ['"%s"' % ("x" * 30)]


def test_limits(serve: Serve) -> None:
    server = serve(MEMORY.replace("file seed", "file seed\n max_records 11\n max_bytes 500\n max_update_records 3"), prepare=seed)
    update = message()
    update.present("www")
    for number in range(3):
        update.add(f"h{number}", 60, "A", "192.0.2.1")
    assert send(server, update) == "REFUSED"
    update = message()
    for number in range(3):
        update.add(f"h{number}", 60, "A", "192.0.2.1")
    assert send(server, update) == "NOERROR"
    assert add(server, "more") == "REFUSED"
    server.wait_log(r"UPDATE for example\.org\. failed: zone exceeds max_records \(11\)")
    update = message()
    update.delete("h0")
    update.add("h1", 60, "TXT", "x" * 250)
    assert send(server, update) == "REFUSED"
    server.wait_log(r"zone exceeds max_bytes \(500\)")
    assert serial(server) == 2


ENCRYPTED = """tls://example.org:{{port}} https://example.org:{{port2}} {{
    bind 127.0.0.1
    tls server.pem server.key
    {tsig}
    dynupdate {{
        file seed
        allow key. * *
    }}
}}
quic://example.org:{{port3}} {{
    bind 127.0.0.1
    tls server.pem server.key
    {tsig}
    dynupdate {{
        file seed
        allow key. * *
    }}
}}"""


@pytest.fixture
def encrypted(serve: Serve) -> Server:
    def prepare(folder: object) -> None:
        write_certificates(folder)  # type: ignore[arg-type]
        seed(folder)  # type: ignore[arg-type]

    return serve(ENCRYPTED.format(tsig=TSIG), prepare=prepare)


def test_encrypted_transports(encrypted: Server) -> None:
    server = encrypted

    def read(octets: bytes, request: dns.message.Message) -> dns.message.Message:
        return dns.message.from_wire(octets, keyring={key().name: key()}, request_mac=request.mac or b"")

    def ask(update: dns.message.Message, transport: str) -> dns.message.Message:
        if transport == "tls":
            return dns.query.tls(update, "127.0.0.1", port=server.port, verify=False, timeout=REPLY)
        if transport == "https":
            connection = http.client.HTTPSConnection("127.0.0.1", server.ports["port2"], timeout=REPLY, context=ssl._create_unverified_context())
            connection.request("POST", "/dns-query", update.to_wire(), {"Content-Type": "application/dns-message"})
            reply = read(connection.getresponse().read(), update)
            connection.close()
            return reply
        with Client(server.ports["port3"]) as client:
            stream = client.begin(update.to_wire())
            client.pump(lambda: stream in client.ended)
            return read(bytes(client.received.pop(stream))[2:], update)

    for transport in ("tls", "https", "quic"):
        update = message()
        update.add("host", 60, "TXT", transport)
        if transport == "quic":
            update.id = 0
        assert ask(update, transport).rcode() == dns.rcode.NOERROR, transport
        unsigned = dns.update.UpdateMessage("example.org.", id=0)
        assert ask(unsigned, transport).rcode() == dns.rcode.REFUSED, transport
        query = dns.message.make_query("host.example.org.", "TXT", id=0)
        assert f'"{transport}"' in str(ask(query, transport).answer[0])


def test_a_cache_passes_the_zone(serve: Serve) -> None:
    text = MEMORY.replace("errors", "errors\n cache\n prometheus 127.0.0.1:{port4}")
    server = serve(text, prepare=seed)
    for number in range(5):
        assert server.answers(f"h{number}.example.org.") == ["NXDOMAIN"]
        assert add(server, f"h{number}") == "NOERROR"
        assert server.answers(f"h{number}.example.org.") == ["192.0.2.9"]
    page = server.get(server.ports["port4"], "/metrics")
    assert "coredns_cache_requests_total{" not in page
    assert server.metric(server.ports["port4"], 'fastdns_dynupdate_updates_total{rcode="NOERROR",zone="example.org."}') == 5
    assert server.metric(server.ports["port4"], 'fastdns_dynupdate_zone_records{zone="example.org."}') == 13
    assert server.metric(server.ports["port4"], 'fastdns_dynupdate_update_duration_seconds_count{zone="example.org."}') == 5


def test_names_outside_of_the_zone_go_on(serve: Serve) -> None:
    text = f".:{{port}} {{\n bind 127.0.0.1\n {TSIG}\n dynupdate example.org {{\n file seed\n allow key. * *\n }}\n hosts {{\n 192.0.2.7 other.test\n }}\n}}"
    server = serve(text, prepare=seed)
    assert server.answers("other.test.") == ["192.0.2.7"]
    assert server.answers("ns.example.org.") == ["192.0.2.53"]
    assert send(server, message("other.test.")) == "NOTAUTH"
    assert add(server, "host") == "NOERROR"
    assert server.answers("host.example.org.") == ["192.0.2.9"]


def test_secrets_stay_where_they_are(server: Server) -> None:
    assert add(server, "host") == "NOERROR"
    assert SECRET not in server.log()
