"""Names and their records, out of a real etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import pytest

from tests.etcd import Etcd, coded
from tests.server import Server

RECORDS: dict[str, Any] = {
    "test/zone/a": {"host": "10.0.0.1", "port": 8080, "ttl": 100},
    "test/zone/b/1": {"host": "10.0.0.2", "port": 80, "priority": 5, "weight": 10},
    "test/zone/b/2": {"host": "10.0.0.3", "port": 81, "priority": 5, "weight": 20},
    "test/zone/b/6": {"host": "2001:db8::1", "port": 82, "priority": 7},
    "test/zone/c": {"host": "a.zone.test"},
    "test/zone/cc": {"host": "C.zone.test."},
    "test/zone/loop/x": {"host": "y.round.zone.test"},
    "test/zone/round/y": {"host": "loop.zone.test"},
    "test/zone/self": {"host": "self.zone.test"},
    "test/zone/below": {"host": "x.below.zone.test"},
    "test/zone/dangling": {"host": "nosuch.zone.test"},
    "test/zone/out": {"host": "www.other.test", "port": 443},
    "test/zone/lost": {"host": "lost.other.test", "port": 443},
    "test/zone/mixed/1": {"host": "www.other.test", "port": 443, "mail": True},
    "test/zone/mixed/2": {"host": "a.zone.test", "port": 445, "mail": True, "priority": 1},
    "test/zone/mixed/3": {"host": "10.1.1.1", "port": -1, "mail": True, "priority": 1},
    "test/zone/words/1": {"text": "one"},
    "test/zone/words/2": {"text": "two" * 100},
    "test/zone/words/3": {"host": "words2.zone.test"},
    "test/zone/words2": {"text": "other"},
    "test/zone/strip/x": {"host": "10.0.2.1", "targetstrip": 1, "mail": True},
    "test/zone/strip/y": {"host": "10.0.2.2", "targetstrip": 9},
    "test/zone/teams/x": {"host": "10.0.1.1", "group": "g1"},
    "test/zone/teams/y/1": {"host": "10.0.1.2", "group": "g2"},
    "test/zone/teams/y/2": {"host": "10.0.1.3"},
    "test/zone/rivals/x": {"host": "10.0.1.1", "group": "g1"},
    "test/zone/rivals/y": {"host": "10.0.1.2", "group": "g2"},
    "test/zone/leaders/a/1": {"host": "10.0.1.1", "group": "g1"},
    "test/zone/leaders/b": {"host": "10.0.1.2", "group": "g2"},
    "test/zone/broken/1": "not json",
    "test/zone/broken/2": {"host": "10.0.0.9"},
    "test/zone/near": {"host": "10.5.0.1"},
    "test/zone/near-by": {"host": "10.5.0.2"},
    "test/zone/near!": {"host": "10.5.0.3"},
    "test/zone/near/x": {"host": "10.5.0.4"},
    "test/zone/near0": {"host": "10.5.0.5"},
    "test/zone/far-off": {"host": "10.5.1.2"},
    "test/zone/far/x": {"host": "10.5.1.3"},
    "test/zone/alone": {"host": "10.5.2.1"},
    "test/zone/alone-not": {"host": "10.5.2.2"},
    **{f"test/zone/crowd/{number}": {"host": f"10.6.0.{number}"} for number in range(1, 41)},
    "test/zone/crowd": {"host": "10.6.1.1"},
    "test/zone/odd": {"Host": "::ffff:10.6.6.6", "PORT": 7, "unknown": [1]},
    "test/zone/w/web/eu/1": {"host": "10.8.0.1"},
    "test/zone/w/web/us/1": {"host": "10.8.0.2"},
    "test/zone/w/db/us/1": {"host": "10.8.0.3"},
    "test/zone/dns/apex/x1": {"host": "10.0.0.53", "ttl": 60},
    "test/zone/dns/ns/ns1": {"host": "10.0.0.53", "ttl": 60},
    "test/zone/dns/ns/ns2": {"host": "2001:db8::53", "ttl": 60},
    "test/bad/dns/ns/ns1": {"host": "ns.bad.test"},
    "test/bare/x": {"host": "10.7.7.7"},
    "test/strict/x": {"host": "10.7.8.1"},
    "test/exact/dns/apex/x": {"host": "10.7.9.1"},
    "test/exact/y": {"host": "10.7.9.2"},
    "arpa/in-addr/10/0/0/1": {"host": "a.zone.test."},
    "arpa/in-addr/10/0/0/2/x": {"host": "a.zone.test."},
}

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    etcd zone.test bad.test bare.test 10.0.0.0/24 {
        path /names
        endpoint URL
        fallthrough else.zone.test
    }
    hosts {
        192.0.2.1 www.other.test x.else.zone.test
        2001:db8::2 www.other.test
        fallthrough
    }
    whoami
}
strict.test:{port} exact.test:{port} {
    bind 127.0.0.1
    etcd {
        path /names
        endpoint URL
        no_apex_fallback
    }
}
"""


@pytest.fixture(scope="module")
def server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    for key, value in RECORDS.items():
        etcd.put(f"/names/{key}", value)
    etcd.put("/others/test/zone/hidden", {"host": "10.9.9.9"})
    etcd.put("/namesake/test/zone/hidden", {"host": "10.9.9.9"})
    folder: Path = tmp_path_factory.mktemp("server")
    made = Server(folder, COREFILE.replace("URL", etcd.url))
    made.wait_started()
    yield made
    made.stop()


def shown(reply: dns.message.Message) -> str:
    """``RCODE`` or ``NODATA``, with the SOA's owner; or records without class and zone: answers, then ``+`` additional ones."""
    assert reply.flags & dns.flags.AA
    lines = []
    for mark, section in (("", reply.answer), ("+", reply.additional)):
        lines += sorted(mark + line.replace(" IN ", " ") for rrset in section for line in rrset.to_text().splitlines())
    if lines:
        return ", ".join(lines).replace(".zone.test.", "")
    (soa,) = reply.authority
    return f"{dns.rcode.to_text(reply.rcode()) if reply.rcode() else 'NODATA'} {soa.name}"


NOTHING, EMPTY, FAILED = "NXDOMAIN zone.test.", "NODATA zone.test.", "SERVFAIL zone.test."
NAMES = [
    ("a", "A", "a 100 A 10.0.0.1"),
    ("A.Zone", "A", "A.Zone.test. 100 A 10.0.0.1"),
    ("a", "AAAA", EMPTY),
    ("a", "HTTPS", EMPTY),
    ("a", "SRV", "a 100 SRV 10 100 8080 a, +a 100 A 10.0.0.1"),
    ("b", "A", "b 300 A 10.0.0.2, b 300 A 10.0.0.3"),
    ("b", "AAAA", "b 300 AAAA 2001:db8::1"),
    ("b", "SRV", "b 300 SRV 5 33 80 1.b, b 300 SRV 5 66 81 2.b, b 300 SRV 7 100 82 6.b, +1.b 300 A 10.0.0.2, +2.b 300 A 10.0.0.3, +6.b 300 AAAA 2001:db8::1"),
    ("1.b", "A", "1.b 300 A 10.0.0.2"),
    ("none", "A", NOTHING),
    ("none", "TXT", NOTHING),
    ("hidden", "A", NOTHING),
    ("x.a", "A", NOTHING),
    # host names
    ("c", "A", "a 100 A 10.0.0.1, c 300 CNAME a"),
    ("c", "AAAA", EMPTY),
    ("c", "CNAME", "c 300 CNAME a"),
    ("c", "SRV", "c 300 SRV 10 100 0 a, +a 100 A 10.0.0.1"),
    ("cc", "A", "C 300 CNAME a, a 100 A 10.0.0.1, cc 300 CNAME C"),
    ("loop", "A", EMPTY),
    ("self", "A", EMPTY),
    ("below", "A", EMPTY),
    ("dangling", "A", EMPTY),
    ("dangling", "CNAME", "dangling 300 CNAME nosuch"),
    ("dangling", "SRV", "dangling 300 SRV 10 100 0 nosuch"),
    ("out", "A", "out 300 CNAME www.other.test., www.other.test. 3600 A 192.0.2.1"),
    ("out", "AAAA", "out 300 CNAME www.other.test., www.other.test. 3600 AAAA 2001:db8::2"),
    ("out", "SRV", "out 300 SRV 10 100 443 www.other.test., +www.other.test. 3600 A 192.0.2.1, +www.other.test. 3600 AAAA 2001:db8::2"),
    ("lost", "SRV", "lost 300 SRV 10 100 443 lost.other.test."),
    (
        "mixed",
        "SRV",
        (
            "mixed 300 SRV 1 50 445 a, mixed 300 SRV 10 100 443 www.other.test., "
            "+a 100 A 10.0.0.1, +www.other.test. 3600 A 192.0.2.1, +www.other.test. 3600 AAAA 2001:db8::2"
        ),
    ),
    (
        "mixed",
        "MX",
        (
            "mixed 300 MX 1 3.mixed, mixed 300 MX 1 a, mixed 300 MX 10 www.other.test., "
            "+3.mixed 300 A 10.1.1.1, +a 100 A 10.0.0.1, +www.other.test. 3600 A 192.0.2.1, +www.other.test. 3600 AAAA 2001:db8::2"
        ),
    ),
    # texts
    ("words", "TXT", f'words 300 CNAME words2, words 300 TXT "one", words 300 TXT "{"two" * 85}" "{"two" * 15}", words2 300 TXT "other"'),
    ("words2", "A", EMPTY),
    # labels that are taken off, groups, wildcards
    ("strip", "SRV", "strip 300 SRV 10 50 0 strip, strip 300 SRV 10 50 0 y.strip, +strip 300 A 10.0.2.1, +y.strip 300 A 10.0.2.2"),
    ("strip", "MX", "strip 300 MX 10 strip, +x.strip 300 A 10.0.2.1"),
    ("teams", "A", "teams 300 A 10.0.1.1, teams 300 A 10.0.1.3"),
    ("y.teams", "A", "y.teams 300 A 10.0.1.2, y.teams 300 A 10.0.1.3"),
    ("rivals", "A", "rivals 300 A 10.0.1.1, rivals 300 A 10.0.1.2"),
    ("leaders", "A", "leaders 300 A 10.0.1.2"),
    ("us.*.w", "A", "us.*.w 300 A 10.8.0.2, us.*.w 300 A 10.8.0.3"),
    ("us.any.w", "A", "us.any.w 300 A 10.8.0.2, us.any.w 300 A 10.8.0.3"),
    ("*.db.w", "A", "*.db.w 300 A 10.8.0.3"),
    ("as.*.w", "A", EMPTY),
    ("*.nosuch", "A", NOTHING),
    # keys that stand between a key and those below it
    ("near", "A", "near 300 A 10.5.0.4"),
    ("near", "CNAME", EMPTY),
    ("near-by", "A", "near-by 300 A 10.5.0.2"),
    ("far", "A", "far 300 A 10.5.1.3"),
    ("alone", "A", "alone 300 A 10.5.2.1"),
    ("alon", "A", NOTHING),
    ("crowd", "A", ", ".join(sorted(f"crowd 300 A 10.6.0.{number}" for number in range(1, 41)))),
    ("7.crowd", "A", "7.crowd 300 A 10.6.0.7"),
    # what cannot be read
    ("broken", "A", FAILED),
    ("broken", "MX", FAILED),
    ("2.broken", "A", "2.broken 300 A 10.0.0.9"),
    ("odd", "SRV", "odd 300 SRV 10 100 7 odd, +odd 300 A 10.6.6.6"),
    # the zone
    ("zone.test.", "A", "zone.test. 60 A 10.0.0.53"),
    ("zone.test.", "AAAA", EMPTY),
    ("zone.test.", "NS", "zone.test. 60 NS ns1.ns.dns, zone.test. 60 NS ns2.ns.dns, +ns1.ns.dns 60 A 10.0.0.53, +ns2.ns.dns 60 AAAA 2001:db8::53"),
    ("bare.test.", "A", "bare.test. 300 A 10.7.7.7"),
    ("strict.test.", "A", "NXDOMAIN strict.test."),
    ("strict.test.", "TYPE65280", "NXDOMAIN strict.test."),
    ("strict.test.", "SRV", "strict.test. 300 SRV 10 100 0 x.strict.test., +x.strict.test. 300 A 10.7.8.1"),
    ("x.strict.test.", "A", "x.strict.test. 300 A 10.7.8.1"),
    ("exact.test.", "A", "exact.test. 300 A 10.7.9.1"),
    ("exact.test.", "AAAA", "NODATA exact.test."),
    ("bare.test.", "NS", "NXDOMAIN bare.test."),
    ("bad.test.", "NS", "SERVFAIL bad.test."),
    # reverse names: only the key itself
    ("1.0.0.10.in-addr.arpa.", "PTR", "1.0.0.10.in-addr.arpa. 300 PTR a"),
    ("2.0.0.10.in-addr.arpa.", "PTR", "NXDOMAIN 0.0.10.in-addr.arpa."),
]


@pytest.mark.parametrize(("name", "rdtype", "wanted"), NAMES, ids=[f"{name} {rdtype}" for name, rdtype, _ in NAMES])
def test_names(server: Server, name: str, rdtype: str, wanted: str) -> None:
    whole = name if name.endswith(".") else f"{name}.test." if name.lower().endswith(".zone") else f"{name}.zone.test."
    assert shown(server.query(whole, rdtype, tcp=True)) == wanted


@pytest.mark.parametrize("name", ["zone.test.", "a.zone.test.", "nosuch.x.zone.test."])
def test_every_name_has_the_soa_of_the_zone(server: Server, name: str) -> None:
    (soa,) = server.query(name, "SOA").answer
    assert (soa.name.to_text(), soa.ttl) == ("zone.test.", 30)
    assert soa[0].to_text().split()[:2] + soa[0].to_text().split()[3:] == ["ns.dns.zone.test.", "hostmaster.zone.test.", "7200", "1800", "86400", "30"]
    assert soa[0].serial > 1_700_000_000


def test_what_falls_through(server: Server) -> None:
    assert server.answers("x.else.zone.test") == ["192.0.2.1"]
    assert server.answers("y.zone.test") == ["NXDOMAIN"]


def test_what_cannot_be_read_is_told(server: Server) -> None:
    assert server.answers("broken.zone.test") == ["SERVFAIL"]
    server.wait_log(r"\[ERROR\] plugin/errors: 2 broken\.zone\.test\. A: /names/test/zone/broken/1: ")


def test_labels_that_are_no_parts_of_a_key(server: Server) -> None:
    """A slash in a label leads nowhere, up or down."""
    for label in ("b/1", "..", "../zone", "1\\047b"):
        request = dns.message.make_query(dns.name.Name([label.encode(), b"zone", b"test", b""]), "A")
        assert server.send(request).rcode() == dns.rcode.NXDOMAIN


def test_many_records(serve: Callable[..., Server], etcd: Etcd) -> None:
    """More than one page of a list, and more than a message holds."""
    for first in range(0, 6000, 100):
        puts = [
            {"requestPut": {"key": coded(f"/many/test/zone/n{number}"), "value": coded(f'{{"host": "10.{number >> 8}.{number & 255}.1"}}')}}
            for number in range(first, first + 100)
        ]
        etcd.call("kv/txn", success=puts)
    server = serve(f"zone.test:{{port}} {{\n bind 127.0.0.1\n etcd {{\n path many\n endpoint {etcd.url}\n }}\n}}")
    for number in (0, 99, 4999, 5000, 5999):
        assert server.answers(f"n{number}.zone.test") == [f"10.{number >> 8}.{number & 255}.1"]
    reply = server.query("zone.test", tcp=True)
    assert reply.flags & dns.flags.TC
    assert len(reply.answer[0]) > 3000
