"""Queries that go down changed and answers that come back, through sockets: plain, cached, negative, parked, failed."""

from __future__ import annotations

import dns.edns
import dns.message
import dns.name
import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.plugins.cache.scripted import Script, texts
from tests.plugins.geoip.mmdb import database
from tests.server import Server

BLOCK = '{zone}:{{port}} {{\n bind 127.0.0.1\n errors\n log . "{{name}} {{type}} {{rcode}}"\n {rules}\n cache\n forward . {upstream}\n}}\n'

ZONES = {
    "exact.test": "rewrite name exact a.exact.test b.inner.test",
    "suffix.test": "rewrite name suffix .suffix.test .inner.test answer auto",
    "prefix.test": "rewrite name prefix web www answer auto",
    "sub.test": "rewrite name substring one.two three answer auto",
    "re.test": "rewrite stop {\n  name regex (.*)-(eu|us)\\.re\\.test\\. {1}.{2}.inner.test\n"
    "  answer name (.*)\\.(eu|us)\\.inner\\.test {1}-{2}.re.test\n  answer value (.*)\\.inner\\.test\\. {1}.val.test\n }",
    "chain.test": "rewrite continue name a.chain.test b.chain.test\n rewrite continue name b.chain.test c.inner.test\n rewrite type A TXT",
    "onlycontinue.test": "rewrite continue type ANY TXT\n rewrite continue name prefix x y",
    "ttl.test": "rewrite continue ttl regex .* 100-200\n rewrite ttl suffix ttl.test 150-",
    "rcode.test": "rewrite continue rcode regex .* SERVFAIL NXDOMAIN\n rewrite rcode regex .* REFUSED NOERROR",
    "bad.test": "rewrite continue type A TXT\n rewrite name regex ^long\\. " + "a" * 64 + ".test\n rewrite name substring .. .x.",
    "other.test": "rewrite type NULL A",
    "alias.test": "rewrite continue name suffix .alias.test .inner.test answer auto\n rewrite cname suffix .cdn.test. .other.test.",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    script = Script()
    soa = "inner.test. 60 IN SOA ns.inner.test. admin.inner.test. 1 2 3 4 5"
    script.say("b.inner.test.", ["b.inner.test. 300 IN A 192.0.2.1", "x.b.inner.test. 300 IN A 192.0.2.2", "xb.inner.test. 300 IN A 192.0.2.3"])
    script.say("srv.inner.test.", ["srv.inner.test. 300 IN SRV 1 2 3 host.inner.test."], additional=["host.inner.test. 300 IN A 192.0.2.4"])
    script.say("mx.inner.test.", ["mx.inner.test. 300 IN MX 5 mail.inner.test.", 'mx.inner.test. 300 IN NAPTR 1 2 "U" "x" "" re.inner.test.'])
    script.say("none.inner.test.", authority=[soa], rcode="NXDOMAIN")
    script.say("www.prefix.test.", ["www.prefix.test. 300 IN CNAME sub.www.prefix.test.", "sub.www.prefix.test. 300 IN A 192.0.2.5"])
    script.say("x.eu.inner.test.", ["x.eu.inner.test. 300 IN CNAME y.us.inner.test.", "y.us.inner.test. 300 IN A 192.0.2.6"])
    script.say("fail.rcode.test.", rcode="SERVFAIL")
    script.say("refused.rcode.test.", rcode="REFUSED")
    script.say("app.inner.test.", ["app.inner.test. 300 IN CNAME app.cdn.test.", "app.cdn.test. 300 IN A 192.0.2.7"])
    script.say("app.other.test.", ["app.other.test. 300 IN A 192.0.2.8"])
    script.say("two.ttl.test.", ["two.ttl.test. 20 IN A 192.0.2.9", "two.ttl.test. 20 IN A 192.0.2.10"], [soa.replace("60", "900")])
    with Upstream(script) as upstream:
        corefile = "".join(BLOCK.format(zone=zone, rules=rules, upstream=upstream.address) for zone, rules in ZONES.items())
        with Server(tmp_path_factory.mktemp("rewrite"), corefile) as server:
            yield server, script, upstream


A = "IN A 192.0.2."

#: Question, response code, all records.
ANSWERS = [
    ("A.Exact.Test. A", 0, ["a.exact.test. 300 IN A 192.0.2.1", "x.a.exact.test. 300 IN A 192.0.2.2", "xb.inner.test. 300 IN A 192.0.2.3"]),
    ("srv.suffix.test. SRV", 0, ["host.suffix.test. 300 IN A 192.0.2.4", "srv.suffix.test. 300 IN SRV 1 2 3 host.suffix.test."]),
    (
        "mx.suffix.test. MX",
        0,
        ["mx.suffix.test. 300 IN MX 5 mail.suffix.test.", 'mx.suffix.test. 300 IN NAPTR 1 2 "U" "x" "" re.suffix.test.'],
    ),
    ("none.suffix.test. A", 3, ["inner.test. 60 IN SOA ns.suffix.test. admin.inner.test. 1 2 3 4 5"]),
    ("web.prefix.test. A", 0, ["sub.web.prefix.test. 300 IN A 192.0.2.5", "web.prefix.test. 300 IN CNAME sub.web.prefix.test."]),
    ("website.prefix.test. A", 0, ["website.prefix.test. 300 IN A 192.0.2.1"]),
    ("a.one.two.sub.test. A", 0, ["a.one.two.sub.test. 300 IN A 192.0.2.1"]),
    ("X-eu.re.test. A", 0, ["x-eu.re.test. 300 IN CNAME y.us.val.test.", "y-us.re.test. 300 IN A 192.0.2.6"]),
    ("x-asia.re.test. A", 0, ["x-asia.re.test. 300 IN A 192.0.2.1"]),
    ("two.ttl.test. A", 0, ["inner.test. 150 IN SOA ns.inner.test. admin.inner.test. 1 2 3 4 5"] + [f"two.ttl.test. 150 {A}{n}" for n in (10, 9)]),
    ("fail.rcode.test. A", 3, []),
    ("refused.rcode.test. A", 0, []),
    ("app.alias.test. A", 0, ["app.alias.test. 300 IN CNAME app.other.test.", "app.other.test. 300 IN A 192.0.2.8"]),
]


def with_first_ttl(record: str) -> str:
    """A record from the cache with the TTL that it had at first."""
    owner, ttl, rest = record.split(" ", 2)
    return f"{owner} {next(first for first in (60, 150, 300) if int(ttl) <= first)} {rest}"


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize("again", ["first", "cached"])
@pytest.mark.parametrize(("question", "rcode", "records"), ANSWERS, ids=[question for question, _, _ in ANSWERS])
def test_answers(running, question: str, rcode: int, records: list[str], again: str, tcp: bool) -> None:
    name, kind = question.split()
    reply = running[0].query(name, kind, tcp=tcp)
    assert reply.rcode() == rcode
    assert reply.question[0].to_text() == f"{name} IN {kind}"
    found = texts([*reply.answer, *reply.authority, *reply.additional])
    assert sorted(map(with_first_ttl, found)) == sorted(records)


def test_what_is_cached_is_what_was_asked_below(running) -> None:
    """The same name through two blocks: one rewrites, the cache of neither holds the other's names."""
    server = running[0]
    for _ in range(2):
        assert [rrset.name.to_text() for rrset in server.query("a.exact.test.", "A").answer] == ["a.exact.test.", "x.a.exact.test.", "xb.inner.test."]
        assert [rrset.name.to_text() for rrset in server.query("b.suffix.test.", "A").answer] == ["b.suffix.test.", "x.b.suffix.test.", "xb.suffix.test."]


def test_later_rules_see_what_earlier_ones_made(running) -> None:
    server, _, upstream = running
    reply = server.query("a.chain.test.", "A")
    assert reply.question[0].to_text() == "a.chain.test. IN A"
    seen = [query.question[0].to_text() for query in upstream.seen]
    assert "c.inner.test. IN TXT" in seen
    assert [rrset.name.to_text() for rrset in reply.answer] == ["a.chain.test."]


def test_the_question_comes_back_when_only_continue_rules_matched(running) -> None:
    server, _, upstream = running
    reply = server.query("x.onlycontinue.test.", "ANY")
    assert reply.question[0].to_text() == "x.onlycontinue.test. IN ANY"
    assert "y.onlycontinue.test. IN TXT" in [query.question[0].to_text() for query in upstream.seen]


def test_numbers_of_groups_that_there_are_not_stay(serve) -> None:
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n rewrite name regex (.*)\\.a\\.test {2}.b.test answer name (.*)\\.b\\.test {3}.c.test\n"
        ' template IN A . {\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n }\n}\n'
    )
    assert server.query("x.a.test.", "A").answer[0].name.to_text() == "{3}.c.test."


def test_a_name_that_becomes_the_root(serve) -> None:
    """Only the root is called back: no other name ends in a dot and its text."""
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n rewrite name exact a.test .\n"
        ' template IN ANY . {\n  answer "{{ .Name }} 60 IN MX 10 b.test."\n  authority "b.test. 60 IN NS ."\n }\n}\n'
    )
    reply = server.query("a.test.", "MX")
    assert reply.answer[0].to_text() == "a.test. 60 IN MX 10 b.test."
    assert reply.authority[0].to_text() == "b.test. 60 IN NS a.test."


@pytest.mark.parametrize(
    ("rules", "size", "options"),
    [
        ("bufsize 1394", 1394, {}),
        ("rewrite continue edns0 local set 0xffee abcd", 4000, {0xFFEE: b"abcd"}),
        ("rewrite continue edns0 nsid set", 4000, {3: b""}),
    ],
)
def test_the_opt_of_what_cannot_be_asked_is_as_the_rules_made_it(serve, rules: str, size: int, options: dict[int, bytes]) -> None:
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n {rules}\n rewrite name regex ^(.*)$ a..b\n whoami\n}}\n")
    reply = server.query("a.test.", "A", use_edns=0, payload=4000)
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert reply.payload == size
    assert {int(option.otype): option.to_wire() for option in reply.options} == options


def test_a_name_that_is_none(running) -> None:
    server = running[0]
    reply = server.query("long.bad.test.", "A")
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert reply.question[0].to_text() == "long.bad.test. IN A"
    server.wait_log(r"plugin/errors: 2 long\.bad\.test\. A: invalid name after rewrite: " + "a" * 64)


def test_log_tells_the_clients_name_and_the_rewritten_type(running) -> None:
    server = running[0]
    server.query("a.chain.test.", "A")
    server.wait_log(r"a\.chain\.test\. TXT NOERROR")


def test_labels_of_metadata_in_names(serve) -> None:
    """A value is a literal, in lower case. Without one the rule does not match; a name that is none is an error."""
    values = ["Oxford", "{1}", "two..dots", "a" * 64, ""]
    networks = {f"192.0.2.{number}/32": {"city": {"names": {"en": value}}} for number, value in enumerate(values)}
    server = serve(
        ".:{port} {\n bind 127.0.0.1\n errors\n metadata\n geoip {dir}/db {\n  edns-subnet\n }\n"
        " rewrite name regex ^([^.]+)\\.example\\.$ {1}.{geoip/City/name}.none metadata\n"
        " rewrite name regex ^([^.]+)\\.example\\.$ {1}.{geoip/city/name}.TEST metadata answer auto\n"
        " rewrite name regex ^([^.]+)\\.example\\.$ {1}.otherwise.{city/name}\n"
        ' template IN MX . {\n  answer "{{ .Name }} 60 IN MX 1 child.{{ .Name }}"\n  answer "child.{{ .Name }} 60 IN TXT {{ .Name }}"\n }\n}\n',
        prepare=lambda folder: (folder / "db").write_bytes(database(networks)),
    )

    def asked(number: int, name: str = "Web.example.") -> dns.message.Message:
        subnet = dns.edns.ECSOption(f"192.0.2.{number}", 32)
        return server.send(dns.message.make_query(name, "MX", use_edns=0, options=[subnet]))

    reply = asked(0)
    assert [rrset.to_text() for rrset in reply.answer] == [
        "web.example. 60 IN MX 1 child.web.example.",
        'child.web.example. 60 IN TXT "web.oxford.test."',
    ]
    assert reply.question[0].to_text() == "Web.example. IN MX"
    assert asked(1).answer[1].to_text().endswith('TXT "web.{1}.test."')
    for number in (2, 3):
        assert asked(number).rcode() == dns.rcode.SERVFAIL
        server.wait_log(rf"plugin/errors: 2 .*MX: invalid name after rewrite: web\.{values[number]}")
    for number in (4, 5):
        assert asked(number).answer[0].to_text() == "web.otherwise.{city/name}. 60 IN MX 1 child.web.otherwise.{city/name}."
    assert asked(0, "other.test.").answer[0].name.to_text() == "other.test."


def test_odd_octets_keep_their_value(running) -> None:
    server, _, upstream = running
    name = dns.name.from_text(r"a\.b\032\200.suffix.test.")
    answer = server.send(dns.message.make_query(name, "A"))
    assert answer.question[0].name == name
    assert dns.name.from_text(r"a\.b\032\200.inner.test.") in [query.question[0].name for query in upstream.seen]


# ---- EDNS ----

OPTIONS = {
    "set.test": "rewrite edns0 local set 0xffee 0x6162",
    "append.test": "rewrite edns0 local append 0xffee 0x6162",
    "replace.test": "rewrite edns0 local replace 0xffee 0x6162",
    "unset.test": "rewrite edns0 local unset 0xffee",
    "subnet.test": "rewrite edns0 subnet set 20 56",
    "vars.test": "rewrite continue edns0 local set 0xffe1 {qname}\n rewrite continue edns0 local set 0xffe2 {client_ip}\n"
    " rewrite continue edns0 local set 0xffe3 {protocol}\n rewrite edns0 local set 0xffe4 {qtype}",
    "revert.test": "rewrite edns0 local set 0xffee 0x6162 revert",
    "label.test": "rewrite edns0 local set 0xffee {none/none}\n rewrite name prefix x y",
}


@pytest.fixture(scope="module")
def optioned(tmp_path_factory: pytest.TempPathFactory):
    def without_options(query: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(query)
        reply.use_edns(-1)
        return reply

    with Upstream(without_options) as upstream:
        block = "{zone}:{{port}} {{\n bind 127.0.0.1\n {rules}\n forward . {upstream}\n}}\n"
        corefile = "".join(block.format(zone=zone, rules=rules, upstream=upstream.address) for zone, rules in OPTIONS.items())
        with Server(tmp_path_factory.mktemp("options"), corefile) as server:
            yield server, upstream


CASES = [
    # zone, the client's options (None: no OPT), what the upstream sees, what the client gets
    ("set", None, {0xFFEE: [b"ab"]}, {}),
    ("set", {}, {0xFFEE: [b"ab"]}, {0xFFEE: [b"ab"]}),
    ("set", {0xFFEE: b"z", 0xFFEF: b"y"}, {0xFFEE: [b"ab"], 0xFFEF: [b"y"]}, {0xFFEE: [b"ab"]}),
    ("append", {0xFFEE: b"z"}, {0xFFEE: [b"z", b"ab"]}, {0xFFEE: [b"z", b"ab"]}),
    ("replace", {0xFFEF: b"z"}, {0xFFEF: [b"z"]}, {}),
    ("replace", {0xFFEE: b"z"}, {0xFFEE: [b"ab"]}, {0xFFEE: [b"ab"]}),
    ("replace", None, {}, {}),
    ("unset", {0xFFEE: b"z", 0xFFEF: b"y"}, {0xFFEF: [b"y"]}, {}),
    ("subnet", None, {8: [bytes([0, 1, 20, 0, 127, 0, 0])]}, {}),
    ("vars", None, {0xFFE1: [b"X.vars.test."], 0xFFE2: [bytes([127, 0, 0, 1])], 0xFFE3: [b"udp"], 0xFFE4: [b"\0\1"]}, None),
    ("revert", None, {0xFFEE: [b"ab"]}, {}),
    ("revert", {0xFFEE: b"old"}, {0xFFEE: [b"ab"]}, {0xFFEE: [b"old"]}),
]


def options(message: dns.message.Message) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for option in message.options:
        found.setdefault(int(option.otype), []).append(option.to_wire())
    return found


@pytest.mark.parametrize(("zone", "sent", "seen", "got"), CASES)
def test_options(optioned, zone: str, sent: dict[int, bytes] | None, seen: dict[int, list[bytes]], got: dict[int, list[bytes]] | None) -> None:
    server, upstream = optioned
    given = {} if sent is None else {"use_edns": 0, "options": [dns.edns.GenericOption(code, data) for code, data in sent.items()]}
    reply = server.query(f"X.{zone}.test.", "A", **given)
    query = upstream.seen[-1]
    assert query.edns == 0
    if sent is None:
        assert query.payload == 1232
    assert options(query) == seen
    assert reply.edns == (-1 if sent is None else 0), "an OPT is for clients that sent one"
    if got is not None:
        assert {code: data for code, data in options(reply).items() if code != 8} == got


def test_a_rule_whose_variable_has_no_value_does_not_match(optioned) -> None:
    server, upstream = optioned
    reply = server.query("x.label.test.", "A")
    assert upstream.seen[-1].question[0].name.to_text() == "y.label.test."
    assert upstream.seen[-1].edns == -1
    assert reply.edns == -1
