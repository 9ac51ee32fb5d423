"""loadbalance: reorders the addresses of successful answers, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.loadbalance import Settings, parse, parse_network
from fastdns.plugins.loadbalance.weights import parse as parse_weights
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY

SECOND = 10**9

# ---- set-up ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("loadbalance", Settings()),
        ("loadbalance round_robin", Settings()),
        ("loadbalance {\n prefer 10.0.0.0/8\n}", Settings(networks=((bytes([10, 0, 0, 0]), 8),))),
        ("loadbalance round_robin {\n prefer\n prefer 10.0.0.0/8 ::/0\n}", Settings(networks=((bytes([10, 0, 0, 0]), 8), (bytes(16), 0)))),
        (
            "loadbalance {\n prefer 10.0.0.0/8\n}\nloadbalance {\n prefer 11.0.0.0/8\n}",
            Settings(networks=((bytes([10, 0, 0, 0]), 8), (bytes([11, 0, 0, 0]), 8))),
        ),
        ("loadbalance {\n prefer 10.0.0.0/8\n}\nloadbalance weighted /w", Settings("/w")),
        ("loadbalance weighted /w\nloadbalance", Settings()),
        ("loadbalance weighted /w {\n reload 10s\n}", Settings("/w", 10 * SECOND)),
        ("loadbalance weighted /w {\n reload 0s\n}", Settings("/w", 0)),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loadbalance fleeb", "^unknown policy: fleeb$"),
        ("loadbalance round_robin a", "Testfile:1 - Error during parsing: unknown property for round_robin$"),
        ("loadbalance weighted", "missing weight file argument"),
        ("loadbalance weighted a b", r"unexpected argument\(s\)"),
        ("loadbalance weighted a {\n reload\n}", "reload duration value is missing"),
        ("loadbalance weighted a {\n reload 1s 2s\n}", "unexpected argument$"),
        ("loadbalance weighted a {\n reload x\n}", "invalid reload duration 'x'"),
        ("loadbalance weighted a {\n reload -1s\n}", "invalid reload duration '-1s'"),
        ("loadbalance weighted a {\n prefer 10.0.0.0/8\n}", "Testfile:2 - Error during parsing: unknown property 'prefer'"),
        ("loadbalance {\n reload 1s\n}", "unknown property 'reload'"),
        ("loadbalance {\n prefer 10.0.0.0\n}", 'invalid CIDR "10.0.0.0": invalid CIDR address: 10.0.0.0'),
        ("loadbalance {\n prefer 10.0.0.0/33\n}", "invalid CIDR"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=message):
        parse(Controller.of(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("192.0.2.0/24", (bytes([192, 0, 2, 0]), 24)),
        ("2001:db8::/32", (bytes.fromhex("20010db8") + bytes(12), 32)),
        ("::ffff:192.0.2.0/120", (bytes([192, 0, 2, 0]), 24)),
        ("::/129", None),
        ("10.0.0.0/-1", None),
        ("10.0.0.0/x", None),
        ("fe80::%eth0/64", None),
        ("10/8", None),
    ],
)
def test_networks(text: str, wanted: tuple[bytes, int] | None) -> None:
    assert parse_network(text) == wanted


WEIGHTS = """
# five addresses in two domains
w1,example.org
  192.168.1.15  10
192.168.1.14 20
www.Example.org.
10.0.0.1 255

2001:db8::1 1
w1,example.org.
192.168.1.15 77
"""


def test_weight_file() -> None:
    found = parse_weights(WEIGHTS, "w")
    assert found == {
        b"\x0aw1,example\3org\0": [(bytes([192, 168, 1, 15]), 10), (bytes([192, 168, 1, 14]), 20), (bytes([192, 168, 1, 15]), 77)],
        b"\3www\7Example\3org\0": [(bytes([10, 0, 0, 1]), 255), (bytes.fromhex("20010db8") + bytes(11) + b"\1", 1)],
    }
    assert parse_weights("", "w") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.1", r'wrong domain name:"10.0.0.1" in weight file w. \(Maybe a missing weight value\?\)'),
        ("a.org\nx 1", 'wrong IP address:"x" in weight file w'),
        ("a.org\n10.0.0.1 0", 'wrong weight value:"0" in weight file w'),
        ("a.org\n10.0.0.1 256", 'wrong weight value:"256" in weight file w'),
        ("a.org\n10.0.0.1 -1", 'wrong weight value:"-1" in weight file w'),
        ("10.0.0.1 1", "missing domain name in weight file w"),
        ("a.org\n10.0.0.1 1 2", 'could not parse weight line:"10.0.0.1 1 2" in weight file w'),
    ],
)
def test_weight_file_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_weights(text, "w")


# ---- answers ----

#: A plugin that answers with what the query name says: see RECORDS.
BACKEND = """
from fastdns.plugin import Plugin, Record, Reply

SECTIONS = {sections!r}

class Backend(Plugin):
    def serve(self, query):
        name = query.name.split(".")[0]
        if name not in SECTIONS:
            return query.fail("SERVFAIL")
        rcode, *sections = SECTIONS[name]
        answer, authority, additional = ([Record.parse(text) for text in section] for section in sections)
        return Reply(answer, rcode, authority, additional)

def setup(controller):
    controller.remaining_args()
    return Backend()
"""

MIXED = [
    "x.test. 60 MX 10 m1.test.",
    "x.test. 60 A 192.0.2.1",
    "x.test. 60 TXT one",
    "c2.test. 60 CNAME x.test.",
    "x.test. 60 AAAA 2001:db8::1",
    "x.test. 60 MX 20 m2.test.",
    "x.test. 60 TXT two",
    "c1.test. 60 CNAME c2.test.",
    "x.test. 60 A 192.0.2.2",
]
SECTIONS = {
    "four": (0, [f"four.test. 60 A 192.0.2.{i}" for i in range(1, 5)], [], []),
    "two": (0, ["two.test. 60 A 192.0.2.1", "two.test. 60 A 192.0.2.2"], [], []),
    "six": (0, [f"six.test. 60 AAAA 2001:db8:{i}::1" for i in range(1, 4)], [], []),
    "mixed": (0, MIXED, MIXED, MIXED),
    "text": (0, ["text.test. 60 TXT one", "text.test. 60 TXT two", "text.test. 60 TXT three"], [], []),
    "no": (3, ["no.test. 60 A 192.0.2.1", "no.test. 60 A 192.0.2.2"], [], []),
    "many": (0, [f"many.test. 60 A 10.0.{i // 250}.{i % 250}" for i in range(1000)], [], []),
    "Weigh": (0, [f"Weigh.test. 60 A 192.0.2.{i}" for i in range(1, 5)] + ["weigh.test. 60 CNAME Weigh.test."], [], []),
    "weigh": (0, ["weigh.test. 60 CNAME Weigh.test."] + [f"Weigh.test. 60 A 192.0.2.{i}" for i in range(1, 5)], [], []),
}

COREFILE = """
.:{port} {
    bind 127.0.0.1
    loadbalance
    plugin {dir}/backend.py
}
.:{port2} {
    bind 127.0.0.1
    loadbalance round_robin {
        prefer 192.0.2.4/32 192.0.2.2/31
        prefer 2001:db8:3::/48 2001:db8::/32
    }
    plugin {dir}/backend.py
}
.:{port3} {
    bind 127.0.0.1
    loadbalance weighted weights
    plugin {dir}/backend.py
}
"""


def backend(folder: Path) -> None:
    (folder / "backend.py").write_text(BACKEND.replace("{sections!r}", repr(SECTIONS)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("loadbalance")
    backend(folder)
    (folder / "weights").write_text("weigh.test\n192.0.2.1 200\nWeigh.test\n192.0.2.1 10\n192.0.2.3 20\n192.0.2.4 69\n")
    with Server(folder, COREFILE) as started:
        yield started


def ask(server: Server, name: str, rdtype: str = "A", port: str = "port", tcp: bool = False) -> dns.message.Message:
    """The reply with its records in the order of the octets."""
    request = dns.message.make_query(name, rdtype)
    query = dns.query.tcp if tcp else dns.query.udp
    return query(request, "127.0.0.1", REPLY, server.ports[port], one_rr_per_rrset=True, ignore_trailing=False)


def texts(section: list[dns.rrset.RRset]) -> list[str]:
    return [rrset.to_text().replace(" IN ", " ") for rrset in section]


def test_addresses_come_in_every_order(server: Server) -> None:
    wanted = SECTIONS["four"][1]
    orders = Counter(tuple(texts(ask(server, "four.test.").answer)) for _ in range(480))
    assert all(sorted(order) == wanted for order in orders)
    assert len(orders) == 24
    assert max(orders.values()) < 50  # 20 expected
    assert {rdata for order in orders for rdata in order} == set(wanted)


def test_two_change_places_in_half_of_all_cases(server: Server) -> None:
    firsts = Counter(texts(ask(server, "two.test.").answer)[0] for _ in range(300))
    assert 100 < firsts[SECTIONS["two"][1][0]] < 200


def test_sections_are_put_in_order(server: Server) -> None:
    """CNAMEs, the rest, addresses shuffled, MX shuffled; every section by itself; TTLs and flags stay."""
    addresses, exchanges = set(), set()
    for _ in range(60):
        reply = ask(server, "mixed.test.", "SRV")
        for section in (reply.answer, reply.authority, reply.additional):
            found = texts(section)
            assert found[:4] == [MIXED[3], MIXED[7], MIXED[2].replace("one", '"one"'), MIXED[6].replace("two", '"two"')]
            assert sorted(found[4:7]) == sorted([MIXED[1], MIXED[4], MIXED[8]])
            assert sorted(found[7:]) == sorted([MIXED[0], MIXED[5]])
            addresses.add(tuple(found[4:7]))
            exchanges.add(tuple(found[7:]))
    assert len(addresses) == 6
    assert len(exchanges) == 2


@pytest.mark.parametrize(("name", "rdtype", "tcp"), [("text.test.", "TXT", False), ("no.test.", "A", False), ("four.test.", "AXFR", True)])
def test_left_alone(server: Server, name: str, rdtype: str, tcp: bool) -> None:
    """No addresses, another rcode than NOERROR, transfers."""
    orders = {tuple(texts(ask(server, name, rdtype, tcp=tcp).answer)) for _ in range(30)}
    assert len(orders) == 1


def test_a_failure_passes(server: Server) -> None:
    assert ask(server, "fail.test.").rcode() == dns.rcode.SERVFAIL


def test_a_thousand_addresses(server: Server) -> None:
    first, second = (texts(ask(server, "many.test.", tcp=True).answer) for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(SECTIONS["many"][1])
    assert first != second


# ---- prefer ----


def test_preferred_networks_come_first(server: Server) -> None:
    """In the order of the networks; each address counts for the first that holds it."""
    wanted = SECTIONS["four"][1]
    orders = {tuple(texts(ask(server, "four.test.", port="port2").answer)) for _ in range(40)}
    assert orders == {(wanted[3], wanted[1], wanted[2], wanted[0]), (wanted[3], wanted[2], wanted[1], wanted[0])}
    assert {texts(ask(server, "six.test.", "AAAA", port="port2").answer)[0] for _ in range(20)} == {SECTIONS["six"][1][2]}


def test_prefer_puts_the_rest_last_and_leaves_the_authority(server: Server) -> None:
    reply = ask(server, "mixed.test.", port="port2")
    for section in (reply.answer, reply.additional):
        found = texts(section)
        assert found[:3] == [MIXED[3], MIXED[7], MIXED[8]]  # 192.0.2.2 is preferred, and so is 2001:db8::1, but later
        assert found[3:5] == [MIXED[4], MIXED[1]]
        assert sorted(found[5:7]) == sorted([MIXED[0], MIXED[5]])
        assert [text.split()[2] for text in found[7:]] == ["TXT", "TXT"]
    assert [text.split()[2] for text in texts(reply.authority)[:4]] == ["CNAME", "CNAME", "TXT", "TXT"]


# ---- weighted ----


def test_one_address_is_drawn_by_its_weight(server: Server) -> None:
    """Weights 10, 1 (not in the file), 20 and 69; the drawn one changes places with the first, nothing else moves."""
    records = SECTIONS["Weigh"][1][:4]
    firsts: Counter[str] = Counter()
    for _ in range(600):
        reply = ask(server, "Weigh.test.", port="port3")
        found = texts(reply.answer)
        assert found[0].split()[2] == "CNAME"
        place = records.index(found[1])
        expected = records[:]
        expected[0], expected[place] = expected[place], expected[0]
        assert found[1:] == expected
        firsts[found[1]] += 1
    assert 360 < firsts[records[3]] < 470  # 414
    assert 80 < firsts[records[2]] < 165  # 120
    assert 30 < firsts[records[0]] < 95  # 60
    assert firsts[records[1]] < 25  # 6


def test_weighted_acts_on_addresses_and_srv_only(server: Server) -> None:
    assert {tuple(texts(ask(server, "four.test.", "TXT", port="port3").answer)) for _ in range(20)} == {tuple(SECTIONS["four"][1])}
    assert len({texts(ask(server, "mixed.test.", "SRV", port="port3").additional)[4] for _ in range(60)}) == 3
    assert {tuple(texts(ask(server, "text.test.", port="port3").answer)) for _ in range(20)} == {
        tuple(text.replace("TXT ", 'TXT "') + '"' for text in SECTIONS["text"][1])
    }


WEIGHTED = ".:{port} {\n bind 127.0.0.1\n loadbalance weighted {dir}/weights {\n reload %s\n }\n plugin {dir}/backend.py\n}\n"


def test_the_weight_file_is_read_again(tmp_path: Path) -> None:
    backend(tmp_path)
    weights = tmp_path / "weights"

    def write(text: str) -> None:
        """At once: a look in between would find an empty file, which is a legal one."""
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(weights)

    def firsts(n: int = 30) -> Counter[str]:
        return Counter(texts(ask(server, "four.test.").answer)[0].split()[-1] for _ in range(n))

    server = Server(tmp_path, WEIGHTED % "20ms")
    try:
        server.wait_started()
        server.wait_log(
            r"^\[WARNING\] plugin/loadbalance: Failed to open weight file:weight file open error. Will try again in 20ms$",
        )
        assert len(firsts(60)) == 4  # without weights all are alike
        write("four.test\n192.0.2.3 255\n")
        server.wait_log(rf"^\[INFO\] plugin/loadbalance: Successfully reloaded weight file {weights}$")
        assert firsts()["192.0.2.3"] > 24
        write("four.test\n192.0.2.3 2555\n")
        server.wait_log(r'^\[ERROR\] plugin/loadbalance: wrong weight value:"2555" in weight file')
        assert firsts()["192.0.2.3"] > 24
        write("four.test\n192.0.2.1 255\n")
        server.wait_log("Successfully reloaded", start=server.log().index("ERROR"))
        assert firsts()["192.0.2.1"] > 24
        assert server.log().count("ERROR") == 1
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("reload", "text", "message"),
    [
        ("0s", None, "plugin/loadbalance: weight file open error"),
        ("30s", "four.test\n1.2.3.4\n", "plugin/loadbalance: wrong domain name"),
        ("0s", "1.2.3.4 1", "plugin/loadbalance: missing domain name in weight file"),
    ],
)
def test_a_bad_weight_file_refuses_the_start(tmp_path: Path, reload: str, text: str | None, message: str) -> None:
    backend(tmp_path)
    if text is not None:
        (tmp_path / "weights").write_text(text)
    server = Server(tmp_path, WEIGHTED % reload)
    try:
        assert server.exit_status() == 1
        assert message in server.log()
    finally:
        server.stop()


def test_cached_answers_are_shuffled_each_time_and_stay_as_they_are(tmp_path: Path) -> None:
    """The cache lends its records to the reply: their order there must not change, nor what another block reads."""
    backend(tmp_path)
    block = " bind 127.0.0.1\n{loadbalance} cache 300\n plugin {{dir}}/backend.py\n}}\n"
    text = (".:{{port}} {{\n" + block).format(loadbalance=" loadbalance\n") + (".:{{port2}} {{\n" + block).format(loadbalance="")
    with Server(tmp_path, text) as server:
        wanted = SECTIONS["four"][1]

        def orders(port: str) -> set[tuple[str, ...]]:
            replies = [ask(server, "four.test.", port=port) for _ in range(40)]
            return {tuple(text.split()[-1] for text in texts(reply.answer)) for reply in replies}

        plain = tuple(text.split()[-1] for text in wanted)
        assert orders("port2") == {plain}
        shuffled = orders("port")
        assert len(shuffled) > 10
        assert {tuple(sorted(order)) for order in shuffled} == {plain}
        assert orders("port2") == {plain}
