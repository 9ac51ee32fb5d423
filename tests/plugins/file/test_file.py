"""file: zones in master files, asked through sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.file import parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

SOA = "@ 300 IN SOA ns admin 1 3600 600 86400 60\n"

ZONE = f"""
{SOA}
@ 300 IN NS ns
@ 300 IN NS ns.other.test.
ns 300 IN A 192.0.2.53
www 300 IN CNAME web
web 60 IN A 192.0.2.80
web 60 IN AAAA 2001:db8::80
mail 300 IN MX 10 web
mail 300 IN MX 20 web
mail 300 IN MX 30 far.other.test.
_sip._tcp 300 IN SRV 1 2 5060 web
svc 300 IN HTTPS 1 web alpn=h2
*.wild 300 IN TXT "wild"
*.wild 300 IN A 192.0.2.1
host.wild 300 IN A 192.0.2.2
a.ent 300 IN A 192.0.2.3
*.other 300 IN A 192.0.2.4
x.empty.other 300 IN A 192.0.2.5
toempty 300 IN CNAME empty.other
round.ring 300 IN DNAME ring
child 300 IN NS ns.child
child 300 IN NS ns
child 300 IN DS 1 8 2 00000000000000000000000000000000000000000000000000000000000000FF
ns.child 300 IN A 192.0.2.6
tochild 300 IN CNAME x.child
moved 300 IN DNAME wild
self 300 IN DNAME self
grows 300 IN DNAME a.grows
cutmoved 300 IN DNAME child
twice 300 IN DNAME cutmoved
totwice 300 IN CNAME x.cutmoved
both 300 IN DNAME wild
both 300 IN NS ns.child
high 2147483648 IN A 192.0.2.7
most 2147483647 IN A 192.0.2.7
turn 300 IN DNAME {"t" * 60}.around
around 300 IN DNAME {"u" * 60}.turn
gone 300 IN CNAME nothing
away 300 IN CNAME www.other.test.
loop 300 IN CNAME loop
long 300 IN DNAME {".".join(["l" * 60] * 3)}
"""

BELOW = ["ns.child.example.org. 300 IN A 192.0.2.6", "ns.example.org. 300 IN A 192.0.2.53"]
REFERRAL = ["child.example.org. 300 IN NS ns.child.example.org.", "child.example.org. 300 IN NS ns.example.org."]
SERVERS = ["example.org. 300 IN NS ns.example.org.", "example.org. 300 IN NS ns.other.test."]
APEX = ["example.org. 300 IN SOA ns.example.org. admin.example.org. 1 3600 600 86400 60"]
#: In negative answers, with the smaller of TTL and MINIMUM (RFC 2308 3).
START = ["example.org. 60 IN SOA ns.example.org. admin.example.org. 1 3600 600 86400 60"]
WEB = ["web.example.org. 60 IN A 192.0.2.80", "web.example.org. 60 IN AAAA 2001:db8::80"]
AA = "AA"

# question, rcode, flags, answer, authority, additional
ANSWERS: list[tuple[str, str, str, list[str], list[str], list[str]]] = [
    ("web.example.org. A", "NOERROR", AA, WEB[:1], SERVERS, []),
    ("WEB.Example.Org. A", "NOERROR", AA, WEB[:1], SERVERS, []),
    ("web.example.org. TXT", "NOERROR", AA, [], START, []),
    ("web.example.org. ANY", "NOERROR", AA, [], START, []),
    ("nothing.example.org. A", "NXDOMAIN", AA, [], START, []),
    ("x.web.example.org. A", "NXDOMAIN", AA, [], START, []),
    ("example.org. SOA", "NOERROR", AA, APEX, SERVERS, []),
    ("example.org. NS", "NOERROR", AA, SERVERS, [], ["ns.example.org. 300 IN A 192.0.2.53"]),
    ("example.org. A", "NOERROR", AA, [], START, []),
    ("www.example.org. A", "NOERROR", AA, ["www.example.org. 300 IN CNAME web.example.org.", *WEB[:1]], SERVERS, []),
    ("www.example.org. CNAME", "NOERROR", AA, ["www.example.org. 300 IN CNAME web.example.org."], SERVERS, []),
    ("www.example.org. TXT", "NOERROR", AA, ["www.example.org. 300 IN CNAME web.example.org."], START, []),
    (
        "mail.example.org. MX",
        "NOERROR",
        AA,
        [f"mail.example.org. 300 IN MX {text}" for text in ("10 web.example.org.", "20 web.example.org.", "30 far.other.test.")],
        SERVERS,
        WEB,
    ),
    ("_sip._tcp.example.org. SRV", "NOERROR", AA, ["_sip._tcp.example.org. 300 IN SRV 1 2 5060 web.example.org."], SERVERS, WEB),
    ("svc.example.org. HTTPS", "NOERROR", AA, ['svc.example.org. 300 IN HTTPS 1 web.example.org. alpn="h2"'], SERVERS, WEB),
    ("_tcp.example.org. SRV", "NOERROR", AA, [], START, []),
    ("q.wild.example.org. TXT", "NOERROR", AA, ['q.wild.example.org. 300 IN TXT "wild"'], SERVERS, []),
    ("p.Q.wild.example.org. TXT", "NOERROR", AA, ['p.q.wild.example.org. 300 IN TXT "wild"'], SERVERS, []),
    ("q.wild.example.org. MX", "NOERROR", AA, [], START, []),
    ("q.host.wild.example.org. TXT", "NXDOMAIN", AA, [], START, []),
    ("*.wild.example.org. TXT", "NOERROR", AA, ['*.wild.example.org. 300 IN TXT "wild"'], SERVERS, []),
    ("ent.example.org. A", "NOERROR", AA, [], START, []),
    ("x.ent.example.org. A", "NXDOMAIN", AA, [], START, []),
    ("empty.other.example.org. A", "NOERROR", AA, [], START, []),
    ("toempty.example.org. A", "NOERROR", AA, ["toempty.example.org. 300 IN CNAME empty.other.example.org."], START, []),
    ("y.empty.other.example.org. A", "NXDOMAIN", AA, [], START, []),
    ("child.example.org. A", "NOERROR", "", [], REFERRAL, BELOW),
    ("child.example.org. NS", "NOERROR", "", [], REFERRAL, BELOW),
    ("a.b.child.example.org. A", "NOERROR", "", [], REFERRAL, BELOW),
    ("a.child.example.org. DS", "NOERROR", "", [], REFERRAL, BELOW),
    ("child.example.org. DS", "NOERROR", AA, [f"child.example.org. 300 IN DS 1 8 2 {'0' * 62}ff"], SERVERS, []),
    ("tochild.example.org. A", "NOERROR", AA, ["tochild.example.org. 300 IN CNAME x.child.example.org."], REFERRAL, BELOW),
    (
        "q.moved.example.org. A",
        "NOERROR",
        AA,
        [
            "moved.example.org. 300 IN DNAME wild.example.org.",
            "q.moved.example.org. 300 IN CNAME q.wild.example.org.",
            "q.wild.example.org. 300 IN A 192.0.2.1",
        ],
        SERVERS,
        [],
    ),
    (
        "q.moved.example.org. CNAME",
        "NOERROR",
        AA,
        ["moved.example.org. 300 IN DNAME wild.example.org.", "q.moved.example.org. 300 IN CNAME q.wild.example.org."],
        SERVERS,
        [],
    ),
    (
        "x.y.round.round.ring.example.org. A",
        "NXDOMAIN",
        AA,
        [
            "round.ring.example.org. 300 IN DNAME ring.example.org.",
            "x.y.round.round.ring.example.org. 300 IN CNAME x.y.round.ring.example.org.",
            "x.y.round.ring.example.org. 300 IN CNAME x.y.ring.example.org.",
        ],
        START,
        [],
    ),
    (
        "round.round.ring.example.org. DNAME",
        "NOERROR",
        AA,
        ["round.ring.example.org. 300 IN DNAME ring.example.org.", "round.round.ring.example.org. 300 IN CNAME round.ring.example.org."],
        SERVERS,
        [],
    ),
    ("moved.example.org. DNAME", "NOERROR", AA, ["moved.example.org. 300 IN DNAME wild.example.org."], SERVERS, []),
    ("moved.example.org. A", "NOERROR", AA, [], START, []),
    (
        "x.self.example.org. A",
        "NOERROR",
        AA,
        ["self.example.org. 300 IN DNAME self.example.org.", "x.self.example.org. 300 IN CNAME x.self.example.org."],
        SERVERS,
        [],
    ),
    (
        "x.grows.example.org. A",
        "YXDOMAIN",
        AA,
        ["grows.example.org. 300 IN DNAME a.grows.example.org.", "x.grows.example.org. 300 IN CNAME x.a.grows.example.org."],
        SERVERS,
        [],
    ),
    (
        "x.cutmoved.example.org. A",
        "NOERROR",
        AA,
        ["cutmoved.example.org. 300 IN DNAME child.example.org.", "x.cutmoved.example.org. 300 IN CNAME x.child.example.org."],
        REFERRAL,
        BELOW,
    ),
    (
        "x.twice.example.org. A",
        "NOERROR",
        AA,
        [
            "twice.example.org. 300 IN DNAME cutmoved.example.org.",
            "x.twice.example.org. 300 IN CNAME x.cutmoved.example.org.",
            "cutmoved.example.org. 300 IN DNAME child.example.org.",
            "x.cutmoved.example.org. 300 IN CNAME x.child.example.org.",
        ],
        REFERRAL,
        BELOW,
    ),
    ("totwice.example.org. CNAME", "NOERROR", AA, ["totwice.example.org. 300 IN CNAME x.cutmoved.example.org."], SERVERS, []),
    (
        "totwice.example.org. A",
        "NOERROR",
        AA,
        [
            "totwice.example.org. 300 IN CNAME x.cutmoved.example.org.",
            "cutmoved.example.org. 300 IN DNAME child.example.org.",
            "x.cutmoved.example.org. 300 IN CNAME x.child.example.org.",
        ],
        REFERRAL,
        BELOW,
    ),
    ("x.both.example.org. A", "NOERROR", "", [], ["both.example.org. 300 IN NS ns.child.example.org."], BELOW[:1]),
    ("high.example.org. A", "NOERROR", AA, ["high.example.org. 0 IN A 192.0.2.7"], SERVERS, []),
    ("most.example.org. A", "NOERROR", AA, ["most.example.org. 2147483647 IN A 192.0.2.7"], SERVERS, []),
    ("gone.example.org. A", "NXDOMAIN", AA, ["gone.example.org. 300 IN CNAME nothing.example.org."], START, []),
    ("away.example.org. A", "NOERROR", AA, ["away.example.org. 300 IN CNAME www.other.test."], SERVERS, []),
    ("example.org. AXFR", "REFUSED", "", [], [], []),
    ("example.net. A", "REFUSED", "", [], [], []),
]


def texts(section: list[object]) -> list[str]:
    return sorted(line for rrset in section for line in str(rrset).splitlines())


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("zone")
    (folder / "db").write_text(ZONE)
    with Server(folder, ".:{port} {\n bind 127.0.0.1\n file {dir}/db example.org\n}") as server:
        yield server


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_answers(zone: Server, transport: str) -> None:
    wrong = []
    for question, rcode, flags, *sections in ANSWERS:
        name, rdtype = question.split()
        if rdtype == "AXFR" and transport == "tcp":
            continue
        reply = zone.query(name, rdtype, tcp=transport == "tcp", payload=4096)
        found = (dns.rcode.to_text(reply.rcode()), AA if reply.flags & dns.flags.AA else "", *map(texts, reply.sections[1:]))
        if found != (rcode, flags, *map(sorted, sections)):
            wrong.append(f"{question}: {found}")
    assert not wrong


def test_a_circle_of_aliases_is_cut(zone: Server) -> None:
    reply = zone.query("loop.example.org.")
    assert reply.rcode() == dns.rcode.NOERROR
    assert texts(reply.answer) == ["loop.example.org. 300 IN CNAME loop.example.org."]


def test_a_dname_that_makes_too_long_a_name_is_told(zone: Server) -> None:
    reply = zone.query("x" * 60 + ".long.example.org.")
    assert reply.rcode() == dns.rcode.YXDOMAIN
    assert [rrset.rdtype for rrset in reply.answer] == [dns.rdatatype.DNAME]


def test_dnames_that_lead_to_each_other_until_the_name_is_too_long(zone: Server) -> None:
    reply = zone.query("x.turn.example.org.")
    assert reply.rcode() == dns.rcode.YXDOMAIN
    assert {rrset.rdtype for rrset in reply.answer} == {dns.rdatatype.DNAME, dns.rdatatype.CNAME}


@pytest.mark.parametrize("records", ["", "www 300 IN A 192.0.2.1\n"])
def test_an_apex_of_soa_and_ns_alone_exists(serve: Serve, records: str) -> None:
    def prepare(folder: Path) -> None:
        (folder / "db").write_text(SOA + "@ 300 IN NS ns\n" + records)

    server = serve("example.org:{port} {\n bind 127.0.0.1\n file {dir}/db\n}", prepare=prepare)
    for kind in ("A", "TXT", "CNAME"):
        reply = server.query("example.org.", kind)
        assert (reply.rcode(), texts(reply.authority)) == (dns.rcode.NOERROR, START)
    assert server.query("none.example.org.").rcode() == dns.rcode.NXDOMAIN


def test_an_apex_of_soa_and_ns_alone_falls_through(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "db").write_text(SOA + "@ 300 IN NS ns\n")

    server = serve("example.org:{port} {\n bind 127.0.0.1\n file {dir}/db {\n fallthrough\n }\n whoami\n}", prepare=prepare)
    assert server.query("example.org.").additional, "whoami"


def test_negative_answers_have_the_soa_s_ttl_where_minimum_is_larger(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "db").write_text("@ 30 IN SOA ns admin 1 3600 600 86400 60\n@ 300 IN NS ns\nwww 300 IN A 192.0.2.1\ngone 300 IN CNAME none\n")

    server = serve("example.org:{port} {\n bind 127.0.0.1\n file {dir}/db\n}", prepare=prepare)
    for name, kind in (("none.example.org.", "A"), ("www.example.org.", "TXT"), ("gone.example.org.", "A")):
        assert {rrset.ttl for rrset in server.query(name, kind).authority} == {30}


def test_notify_gets_no_reply(zone: Server) -> None:
    request = dns.message.make_query("example.org.", "SOA")
    request.set_opcode(dns.opcode.NOTIFY)
    with pytest.raises(Exception, match="timed out"):
        zone.send(request, timeout=0.5)
    until(lambda: "[INFO] plugin/file: Dropping notify from 127.0.0.1 for example.org." in zone.log())


# ---- set-up ----


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ("", {"fall": [], "reload": 60 * 10**9, "by_mtime": False}),
        ("fallthrough", {"fall": ["."]}),
        ("fallthrough a.test", {"fall": ["a.test."]}),
        ("reload 10s", {"reload": 10 * 10**9}),
        ("reload 0", {"reload": 0}),
        ("reload_by_mtime", {"by_mtime": True}),
        ("upstream 10.0.0.1", {"fall": []}),
    ],
)
def test_properties(tmp_path: Path, properties: str, wanted: dict[str, object]) -> None:
    (tmp_path / "db").write_text(SOA)
    settings = parse(Controller.of(f"file {tmp_path}/db a.test B.test {{\n {properties}\n}}"))
    assert {key: getattr(settings, key) for key in wanted} == wanted
    assert list(settings.files) == ["a.test.", "b.test."]
    assert [file.interval for file in settings.files.values()] == [settings.reload] * 2


def test_properties_hold_for_later_directives(tmp_path: Path) -> None:
    (tmp_path / "db").write_text(SOA)
    settings = parse(Controller.of(f"file {tmp_path}/db a.test {{\n reload 5s\n reload_by_mtime\n}}\nfile {tmp_path}/db b.test\nfile {tmp_path}/db a.test"))
    assert [(name, file.interval, file.by_mtime) for name, file in settings.files.items()] == [("a.test.", 5 * 10**9, True), ("b.test.", 5 * 10**9, True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file", "[Ww]rong argument count"),
        ("file {dir}/db {\n reload\n}", "reload duration value is expected"),
        ("file {dir}/db {\n reload x\n}", "time: invalid duration"),
        ("file {dir}/db {\n upstrem\n}", "unknown property 'upstrem'"),
        ("file {dir}/none {\n reload 0\n}", "plugin/file: open .*/none: no such file or directory"),
        ("file {dir}/zero", "no change in SOA serial for origin example.org. in file .*/zero, with 0 SOA serial"),
        ("file {dir}/start", 'file ".*/start" has no SOA record for origin example.org.'),
        ("file {dir}/bad", 'failed to parse file ".*/bad" for origin example.org. with error .*: dns: bad A A: "1.2.3" at line: 2:18'),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "db").write_text(SOA)
    (tmp_path / "zero").write_text(SOA.replace(" 1 ", " 0 "))
    (tmp_path / "start").write_text("@ 300 IN NS ns\n")
    (tmp_path / "bad").write_text(SOA + "www 300 IN A 1.2.3\n")
    with pytest.raises((CorefileError, ValueError), match=message):
        parse(Controller.of(text.replace("{dir}", str(tmp_path)), ["example.org"]))


# ---- several zones, and the chain ----


def test_the_longest_zone_answers_and_the_rest_goes_on(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "db").write_text(SOA + "www 300 IN A 192.0.2.1\n")
        (folder / "sub").write_text(SOA + "www 300 IN A 192.0.2.2\na.b 300 IN A 192.0.2.3\n")

    corefile = """.:{port} {
        bind 127.0.0.1
        file {dir}/db example.org
        file {dir}/sub sub.example.org {
            fallthrough b.sub.example.org
        }
        whoami
    }"""
    server = serve(corefile, prepare=prepare)
    assert texts(server.query("www.example.org").answer) == ["www.example.org. 300 IN A 192.0.2.1"]
    assert texts(server.query("www.sub.example.org").answer) == ["www.sub.example.org. 300 IN A 192.0.2.2"]
    assert server.query("no.sub.example.org").rcode() == dns.rcode.NXDOMAIN
    assert server.query("b.sub.example.org", "TXT").additional, "an empty non-terminal falls through, to whoami"
    assert server.query("no.test").additional, "no zone: whoami"


def test_a_file_that_is_not_there_yet(serve: Serve) -> None:
    server = serve("example.org:{port} {\n bind 127.0.0.1\n file {dir}/db {\n reload 100ms\n }\n}")
    assert server.query("example.org", "SOA").rcode() == dns.rcode.SERVFAIL
    assert f'[WARNING] plugin/file: Failed to open "open {server.folder}/db: no such file or directory": trying again in 100ms' in server.log()
    (server.folder / "db").write_text(SOA)
    until(lambda: server.query("example.org", "SOA").rcode() == dns.rcode.NOERROR)


def test_an_alias_at_the_origin_beside_other_records(serve: Serve) -> None:
    """As CoreDNS: the alias comes before the type that was asked for."""
    text = "@ 60 IN SOA ns host 1 3600 600 86400 60\n@ 60 IN NS ns\n@ 60 IN CNAME web\n@ 60 IN A 192.0.2.7\n@ 60 IN TXT x\nweb 60 IN A 192.0.2.2\n"
    server = serve("example.org:{port} {\n bind 127.0.0.1\n file {dir}/db\n}", prepare=lambda folder: (folder / "db").write_text(text))
    assert server.answers("example.org.", "A") == ["192.0.2.2", "web.example.org."]
    assert server.answers("example.org.", "TXT") == ["web.example.org."]
    assert server.answers("example.org.", "CNAME") == ["web.example.org."]
