"""dnssec signs what leaves for those who ask with DO; dnspython checks every signature."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import dns.dnssec
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest

from tests.dnskeys import make_key
from tests.programs import program
from tests.server import Server
from tests.validators import Delv, Unbound, run
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]
Keys = dict[dns.name.Name, dns.rrset.RRset]

ZONE = """
$TTL 300
@ IN SOA ns admin 5 3600 600 86400 60
@ IN NS Ns
@ IN MX 10 Mail.Example.ORG.
ns IN A 192.0.2.53
www IN A 192.0.2.1
www IN A 192.0.2.2
www IN AAAA 2001:db8::1
alias IN CNAME WWW
out IN CNAME www.example.net.
*.w IN TXT "w"
cut IN NS ns.cut
ns.cut IN A 192.0.2.2
safe IN NS ns.cut
safe IN DS 4711 13 2 0000000000000000000000000000000000000000000000000000000000000000
a.ent IN A 192.0.2.3
_sip._udp IN SRV 1 2 5060 Www
nap IN NAPTR 1 2 "S" "SIP+D2U" "" _SIP._udp
"""

BLOCK = """
example.org:{port} {
    bind 127.0.0.1
    errors
    prometheus 127.0.0.1:{port2}
    dnssec {
        KEYS
    }
    file {dir}/db
}
"""


def started(serve: Serve, keys: Iterable[tuple[int, int]] = ((13, 257),), properties: str = "", zone: str = ZONE) -> tuple[Server, Keys]:
    """A server with keys of (algorithm, flags), and what their signatures are checked with."""
    records: list[dns.rrset.RRset] = []

    def prepare(folder: Path) -> None:
        (folder / "db").write_text(zone)
        for number, (algorithm, flags) in enumerate(keys):
            records.append(make_key(folder, "example.org.", algorithm, flags, f"k{number}", number))

    lines = "".join(f"key file {{dir}}/k{number}\n" for number, _ in enumerate(keys)) + properties
    server = serve(BLOCK.replace("KEYS", lines), prepare=prepare)
    return server, checked_by(records)


def checked_by(records: list[dns.rrset.RRset]) -> Keys:
    rrset = dns.rrset.RRset(dns.name.from_text("example.org."), dns.rdataclass.IN, dns.rdatatype.DNSKEY)
    for record in records:
        rrset.union_update(record)
    return {rrset.name: rrset}


@pytest.fixture(scope="module")
def one_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Keys]]:
    folder = tmp_path_factory.mktemp("dnssec")
    (folder / "db").write_text(ZONE)
    key = make_key(folder, "example.org.", name="k0")
    with Server(folder, BLOCK.replace("KEYS", "key file {dir}/k0")) as server:
        yield server, checked_by([key])


def ask(server: Server, name: str, kind: str = "A", tcp: bool = False) -> dns.message.Message:
    return server.query(name, kind, want_dnssec=True, payload=4096, tcp=tcp)


def check(message: dns.message.Message, keys: Keys) -> set[str]:
    """Every set that has signatures is signed well by every algorithm; gives their types."""
    signed = set()
    for section in (message.answer, message.authority, message.additional):
        for rrset in section:
            if rrset.rdtype == dns.rdatatype.RRSIG:
                continue
            sigs = [other for other in section if other.rdtype == dns.rdatatype.RRSIG and other.covers == rrset.rdtype and other.name == rrset.name]
            if sigs:
                original = dns.rrset.from_rdata_list(rrset.name, 3600, list(rrset))  # as CoreDNS, whatever the TTL is
                for rrsig in sigs[0]:
                    dns.dnssec.validate_rrsig(original, rrsig, keys)
                assert sigs[0].ttl == rrset.ttl
                signed.add(dns.rdatatype.to_text(rrset.rdtype))
    return signed


def types(message: dns.message.Message, section: str) -> list[str]:
    """Of the section's sets, sorted; RRSIG with what it covers."""
    return sorted(
        f"RRSIG {dns.rdatatype.to_text(rrset.covers)}" if rrset.rdtype == dns.rdatatype.RRSIG else dns.rdatatype.to_text(rrset.rdtype)
        for rrset in getattr(message, section)
    )


# ---- what is signed ----


@pytest.mark.parametrize(
    ("name", "kind", "answer", "authority"),
    [
        ("www.example.org.", "A", ["A", "RRSIG A"], ["NS", "RRSIG NS"]),
        ("WwW.example.org.", "AAAA", ["AAAA", "RRSIG AAAA"], ["NS", "RRSIG NS"]),
        ("alias.example.org.", "A", ["A", "CNAME", "RRSIG A", "RRSIG CNAME"], ["NS", "RRSIG NS"]),
        ("example.org.", "MX", ["MX", "RRSIG MX"], ["NS", "RRSIG NS"]),
        ("example.org.", "SOA", ["RRSIG SOA", "SOA"], ["NS", "RRSIG NS"]),
        ("_sip._udp.example.org.", "SRV", ["RRSIG SRV", "SRV"], ["NS", "RRSIG NS"]),
        ("nap.example.org.", "NAPTR", ["NAPTR", "RRSIG NAPTR"], ["NS", "RRSIG NS"]),
        ("x.w.example.org.", "TXT", ["RRSIG TXT", "TXT"], ["NS", "RRSIG NS"]),
        ("example.org.", "DNSKEY", ["DNSKEY", "RRSIG DNSKEY"], []),
        ("www.example.org.", "MX", [], ["NSEC", "RRSIG NSEC", "RRSIG SOA", "SOA"]),
        ("none.example.org.", "A", [], ["NSEC", "RRSIG NSEC", "RRSIG SOA", "SOA"]),
        ("www.example.org.", "NSEC", ["NSEC", "RRSIG NSEC"], []),
        ("x.cut.example.org.", "A", [], ["NS", "NSEC", "RRSIG NSEC"]),
        ("x.safe.example.org.", "A", [], ["DS", "NS", "RRSIG DS"]),
        ("safe.example.org.", "DS", ["DS", "RRSIG DS"], ["NS", "RRSIG NS"]),
    ],
)
def test_sections(one_key: tuple[Server, Keys], name: str, kind: str, answer: list[str], authority: list[str]) -> None:
    server, keys = one_key
    for tcp in (False, False, True):
        reply = ask(server, name, kind, tcp)
        assert (types(reply, "answer"), types(reply, "authority")) == (answer, authority)
        assert reply.rcode() == dns.rcode.NOERROR
        assert reply.flags & dns.flags.AA or "cut" in name or "safe" in name
        wanted = {word.split()[1] for word in answer + authority if word.startswith("RRSIG")}
        assert check(reply, keys) >= wanted
    plain = server.query(name, kind)
    assert not any("RRSIG" in types(plain, section) for section in ("answer", "authority"))
    assert plain.rcode() == (dns.rcode.NXDOMAIN if name == "none.example.org." else dns.rcode.NOERROR)


@pytest.mark.parametrize(("ttl", "minimum"), [(300, 60), (60, 300)])
def test_nsec_has_the_smaller_of_the_soa_s_ttl_and_minimum(serve: Serve, ttl: int, minimum: int) -> None:
    def prepare(folder: Path) -> None:
        make_key(folder, "example.org.", name="k0")

    soa = f"example.org. {ttl} IN SOA ns.example.org. admin.example.org. 1 2 3 4 {minimum}"
    block = 'example.org:{port} {\n bind 127.0.0.1\n dnssec {\n key file {dir}/k0\n }\n template IN A {\n rcode NXDOMAIN\n authority "SOA"\n }\n}'
    server = serve(block.replace("SOA", soa), prepare=prepare)
    ttls = {dns.rdatatype.to_text(rrset.rdtype): rrset.ttl for rrset in ask(server, "x.example.org.").authority if rrset.rdtype != dns.rdatatype.RRSIG}
    assert ttls == {"SOA": ttl, "NSEC": 60}


def denial(message: dns.message.Message) -> tuple[str, str, set[str]]:
    """Owner, next name and types of the NSEC."""
    (nsec,) = [rrset for rrset in message.authority + message.answer if rrset.rdtype == dns.rdatatype.NSEC]
    return nsec.name.to_text(), nsec[0].next.to_text(), set(nsec[0].to_text().split()[1:])


COMMON = {"A", "HINFO", "TXT", "AAAA", "LOC", "SRV", "CERT", "SSHFP", "RRSIG", "NSEC", "TLSA", "HIP", "OPENPGPKEY", "SPF"}


@pytest.mark.parametrize(
    ("name", "kind", "following", "kinds"),
    [
        ("www.example.org.", "MX", "\\000.www.example.org.", COMMON),
        ("None.Example.org.", "TXT", "\\000.None.Example.org.", COMMON - {"TXT"}),
        ("none.example.org.", "TYPE65280", "\\000.none.example.org.", COMMON),
        ("ent.example.org.", "A", "\\000.ent.example.org.", COMMON - {"A"}),
        ("example.org.", "HINFO", "\\000.example.org.", COMMON | {"NS", "SOA", "MX", "DNSKEY"} - {"HINFO"}),
        ("example.org.", "NSEC", "\\000.example.org.", COMMON | {"NS", "SOA", "MX", "DNSKEY"}),
        ("www.example.org.", "DS", "\\000.www.example.org.", COMMON | {"NS"}),
        ("x.cut.example.org.", "A", "x\\000.cut.example.org.", COMMON | {"NS"}),
    ],
)
def test_denials(one_key: tuple[Server, Keys], name: str, kind: str, following: str, kinds: set[str]) -> None:
    server, keys = one_key
    reply = ask(server, name, kind)
    if name == "example.org." and kind == "HINFO":
        kinds = kinds - {"HINFO"}
    assert denial(reply) == (name, following, kinds)
    assert "NSEC" in check(reply, keys)


def test_outside_of_the_zones_nothing_is_signed(one_key: tuple[Server, Keys]) -> None:
    server, keys = one_key
    reply = ask(server, "out.example.org.")
    assert types(reply, "answer")[0] == "CNAME"
    assert "CNAME" in check(reply, keys)


def test_a_name_without_room_for_the_next(one_key: tuple[Server, Keys]) -> None:
    """Its NSEC cannot be made; the SOA is signed all the same."""
    server, keys = one_key
    name = ".".join(["a" * 63] * 3 + ["b" * 48]) + ".example.org."
    reply = ask(server, name)
    assert types(reply, "authority") == ["RRSIG SOA", "SOA"]
    assert check(reply, keys) == {"SOA"}


def test_validity(one_key: tuple[Server, Keys]) -> None:
    server, _ = one_key
    (rrsig,) = [rrset for rrset in ask(server, "www.example.org.").answer if rrset.rdtype == dns.rdatatype.RRSIG]
    now = time.time()
    assert abs(rrsig[0].inception - (now - 3 * 3600)) < LIMIT
    assert abs(rrsig[0].expiration - (now + 8 * 86400)) < LIMIT
    assert (rrsig[0].original_ttl, rrsig.ttl, rrsig[0].labels, rrsig[0].signer.to_text()) == (3600, 300, 3, "example.org.")


# ---- keys ----


@pytest.mark.parametrize("algorithm", [5, 7, 8, 10, 13, 14, 15])
def test_algorithms(serve: Serve, algorithm: int) -> None:
    server, keys = started(serve, [(algorithm, 257)])
    for name, kind in (("www.example.org.", "A"), ("example.org.", "DNSKEY"), ("none.example.org.", "A")):
        reply = ask(server, name, kind, tcp=True)
        assert check(reply, keys)
        assert {rrsig.algorithm for rrset in reply.answer + reply.authority if rrset.rdtype == dns.rdatatype.RRSIG for rrsig in rrset} == {algorithm}


def test_split_keys(serve: Serve) -> None:
    """Key signing keys sign the keys, zone signing keys all else."""
    server, keys = started(serve, [(13, 257), (13, 256), (15, 256)])
    (rrset,) = keys.values()
    tags = {flags: {dns.dnssec.key_id(key) for key in rrset if key.flags == flags} for flags in (256, 257)}
    for name, kind, wanted in (("example.org.", "DNSKEY", 257), ("www.example.org.", "A", 256), ("none.example.org.", "A", 256)):
        reply = ask(server, name, kind, tcp=True)
        check(reply, keys)
        for section in (reply.answer, reply.authority):
            for sigs in section:
                if sigs.rdtype == dns.rdatatype.RRSIG:
                    assert {rrsig.key_tag for rrsig in sigs} == tags[wanted]


def test_keys_without_zone_keys_sign_everything(serve: Serve) -> None:
    server, keys = started(serve, [(13, 257), (15, 257)])
    (rrset,) = keys.values()
    reply = ask(server, "www.example.org.")
    check(reply, keys)
    assert {rrsig.key_tag for sigs in reply.answer if sigs.rdtype == dns.rdatatype.RRSIG for rrsig in sigs} == {dns.dnssec.key_id(key) for key in rrset}


def test_no_keys(serve: Serve) -> None:
    server, _ = started(serve, [])
    assert types(ask(server, "www.example.org."), "answer") == ["A"]
    assert ask(server, "example.org.", "DNSKEY").answer == []


# ---- the cache, and its limits ----


def test_what_was_signed_is_kept(serve: Serve) -> None:
    server, keys = started(serve)
    page = server.ports["port2"]
    signatures = set()
    for _ in range(5):
        reply = ask(server, "www.example.org.")
        check(reply, keys)
        signatures |= {rrset[0].signature for rrset in reply.answer if rrset.rdtype == dns.rdatatype.RRSIG}
    assert len(signatures) == 1
    label = f'{{server="dns://127.0.0.1:{server.port}"'
    assert server.metric(page, f"coredns_dnssec_cache_misses_total{label}}}") == 2
    assert server.metric(page, f"coredns_dnssec_cache_hits_total{label}}}") == 8
    assert server.metric(page, f'coredns_dnssec_cache_entries{label},type="signature"}}') == 2


def test_the_cache_is_bounded(serve: Serve) -> None:
    server, keys = started(serve, [(15, 257)], "cache_capacity 10")
    asked = [dns.message.make_query(f"n{i}.example.org.", "A", want_dnssec=True) for i in range(1100)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REPLY)
        sock.connect(("127.0.0.1", server.port))
        for at in range(0, len(asked), 50):
            for query in asked[at : at + 50]:
                sock.send(query.to_wire())
            replies = [sock.recv(65535) for _ in range(50)]
            assert check(dns.message.from_wire(replies[at // 50]), keys) == {"NSEC", "SOA"}
    label = f'{{server="dns://127.0.0.1:{server.port}",type="signature"}}'
    assert server.metric(server.ports["port2"], f"coredns_dnssec_cache_entries{label}") == 1024


def test_no_more_signatures_a_second(serve: Serve) -> None:
    """Above the limit queries fail; what is kept is answered all the same."""
    server, keys = started(serve, properties="signatures_per_second 5")
    assert check(ask(server, "www.example.org."), keys) == {"A", "NS"}
    rcodes = [ask(server, f"n{i}.example.org.").rcode() for i in range(200)]
    assert rcodes.count(dns.rcode.SERVFAIL) > 50
    assert check(ask(server, "www.example.org."), keys) == {"A", "NS"}
    label = f'{{server="dns://127.0.0.1:{server.port}"}}'
    assert server.metric(server.ports["port2"], f"fastdns_dnssec_refused_total{label}") == rcodes.count(dns.rcode.SERVFAIL)
    server.wait_log(r"^\[ERROR\] plugin/errors: 2 n\d+\.example\.org\. A: plugin/dnssec: too many signatures are wanted$")
    until(lambda: ask(server, "later.example.org.").rcode() == dns.rcode.NOERROR, "a signature later on")


class Flood(threading.Thread):
    """Names that nobody has asked for, from an address in each of the networks, until it is closed."""

    def __init__(self, server: Server, zone: str, networks: Iterable[int]) -> None:
        super().__init__()
        self.socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in networks]
        for sock, network in zip(self.socks, networks, strict=True):
            sock.bind((f"127.0.{network}.1", 0))
            sock.connect(("127.0.0.1", server.port))
        self.zone, self.going = zone, True
        self.start()

    def run(self) -> None:
        for number in itertools.count():
            query = dns.message.make_query(f"f{number}.{self.zone}", "A", want_dnssec=True, payload=4096)
            self.socks[number % len(self.socks)].send(query.to_wire())
            if not self.going:
                return
            time.sleep(0.001)

    def close(self) -> None:
        self.going = False
        self.join()
        for sock in self.socks:
            sock.close()


def answers_of(server: Server, zone: str, source: str) -> list[str]:
    """The rcodes of new names, two a second."""
    rcodes = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(REPLY)
        for number in range(8):
            sock.send(dns.message.make_query(f"own{number}.{zone}", "A", want_dnssec=True, payload=4096).to_wire())
            rcodes.append(dns.rcode.to_text(dns.message.from_wire(sock.recv(65535)).rcode()))
            time.sleep(0.5)
    return rcodes


def test_a_network_that_floods_uses_up_no_budget_of_another(serve: Serve) -> None:
    server, _ = started(serve, properties="signatures_per_second 50")
    assert ask(server, "none.example.org.").rcode() == dns.rcode.NOERROR
    with contextlib.closing(Flood(server, "example.org.", [1])):
        label = f'{{server="dns://127.0.0.1:{server.port}"}}'
        until(lambda: server.metric(server.ports["port2"], f"fastdns_dnssec_refused_total{label}") > 0)
        assert answers_of(server, "example.org.", "127.0.2.1") == ["NOERROR"] * 8


def test_a_zone_that_is_flooded_uses_up_no_budget_of_another(serve: Serve) -> None:
    """From however many networks the flood comes."""

    def prepare(folder: Path) -> None:
        (folder / "db").write_text(ZONE)
        for number, zone in enumerate(("example.org.", "example.net.")):
            make_key(folder, zone, 13, 257, f"k{number}", number)

    one = BLOCK.replace("KEYS", "key file {dir}/k0\n signatures_per_second 50")
    other = BLOCK.replace("KEYS", "key file {dir}/k1\n signatures_per_second 50").replace("example.org", "example.net")
    server = serve(one + other, prepare=prepare)
    assert ask(server, "none.example.org.").rcode() == ask(server, "none.example.net.").rcode() == dns.rcode.NOERROR
    with contextlib.closing(Flood(server, "example.org.", range(10, 210))):
        label = f'{{server="dns://127.0.0.1:{server.port}"}}'
        until(lambda: server.metric(server.ports["port2"], f"fastdns_dnssec_refused_total{label}") > 0)
        assert answers_of(server, "example.net.", "127.0.2.1") == ["NOERROR"] * 8


def test_the_same_question_from_many(serve: Serve) -> None:
    server, keys = started(serve, [(8, 257)])
    replies: list[dns.message.Message] = []
    threads = [threading.Thread(target=lambda: replies.append(ask(server, "many.example.org."))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len(replies) == 20
    assert all(check(reply, keys) == {"NSEC", "SOA"} for reply in replies)
    label = f'{{server="dns://127.0.0.1:{server.port}",type="signature"}}'
    assert server.metric(server.ports["port2"], f"coredns_dnssec_cache_entries{label}") == 2


def test_a_reload_loses_no_signature(serve: Serve) -> None:
    """What waits for its signatures gets them from the configuration that it began in."""
    server, keys = started(serve, [(8, 257)])
    over = threading.Event()
    problems: list[object] = []
    asked = 0

    def load() -> None:
        nonlocal asked
        while not over.is_set():
            asked += 1
            try:
                if check(ask(server, f"n{asked}.example.org."), keys) != {"NSEC", "SOA"}:
                    problems.append(asked)
            except Exception as error:  # a lost query or a bad signature
                problems.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    corefile = server.corefile.read_text()
    for _ in range(3):
        before = asked
        server.reload(corefile)
        until(lambda before=before: asked > before + 20 or problems, "queries")
    over.set()
    thread.join(LIMIT)
    assert not problems


# ---- others' eyes ----


def test_delv(serve: Serve) -> None:
    server, keys = started(serve, [(13, 257), (13, 256)])
    (rrset,) = keys.values()
    (key,) = [key for key in rrset if key.flags == 257]
    delv = Delv(server.folder, server.port, "example.org.", key)
    assert "; fully validated" in delv.ask("www.example.org.", "A")
    assert "; fully validated" in delv.ask("x.w.example.org.", "TXT")
    assert "; negative response, fully validated" in delv.ask("none.example.org.", "A")
    assert "; negative response, fully validated" in delv.ask("example.org.", "HINFO")


def test_kdig(one_key: tuple[Server, Keys]) -> None:
    kdig = program("kdig")
    server, _ = one_key
    shown = run(kdig, "@127.0.0.1", "-p", str(server.port), "+dnssec", "none.example.org.", "A")
    assert "status: NOERROR" in shown
    assert "NSEC\t\\000.none.example.org. A" not in shown
    assert "RRSIG\tNSEC 13 3 3600" in shown


def test_unbound_validates(serve: Serve, tmp_path: Path) -> None:
    server, keys = started(serve, [(13, 257), (15, 256)])
    (rrset,) = keys.values()
    (key,) = [key for key in rrset if key.flags == 257]
    with Unbound(tmp_path, server.port, {"example.org.": key}) as unbound:
        for name, kind in (
            ("www.example.org.", "A"),
            ("alias.example.org.", "AAAA"),
            ("example.org.", "MX"),
            ("nap.example.org.", "NAPTR"),
            ("none.example.org.", "A"),
            ("www.example.org.", "MX"),
            ("ent.example.org.", "A"),
            ("www.example.org.", "DS"),
        ):
            reply = unbound.resolve(name, kind)
            assert reply is not None
            assert (reply.rcode(), bool(reply.flags & dns.flags.AD)) == (dns.rcode.NOERROR, True), (name, kind)


def test_replies_that_are_too_big_for_udp(serve: Serve) -> None:
    server, keys = started(serve, [(8, 257), (10, 257)])
    query = dns.message.make_query("www.example.org.", "A", want_dnssec=True, payload=512)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REPLY)
        sock.sendto(query.to_wire(), ("127.0.0.1", server.port))
        octets = sock.recv(65535)
    assert len(octets) <= 512
    assert dns.message.from_wire(octets).flags & dns.flags.TC
    assert check(ask(server, "www.example.org.", tcp=True), keys) == {"A", "NS"}
