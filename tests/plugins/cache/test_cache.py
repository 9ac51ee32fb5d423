"""What is kept, for how long, and what comes out again: through the sockets of a server with a scripted upstream."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable

import dns.flags
import dns.message
import dns.name
import dns.opcode
import pytest

from tests.plugins.cache.scripted import SOA, asked, running, texts, ttls
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

KEPT = {
    "answer": ({"answer": ["x.test. 60 IN A 192.0.2.1"]}, 60),
    "ttl of 0 is raised": ({"answer": ["x.test. 0 IN A 192.0.2.1"]}, 5),
    "high ttl is cut": ({"answer": ["x.test. 90000 IN A 192.0.2.1"]}, 3600),
    "smallest ttl of all": ({"answer": ["x.test. 60 IN A 192.0.2.1"], "additional": ["y.test. 40 IN A 192.0.2.2"]}, 40),
    "alias": ({"answer": ["x.test. 60 IN CNAME Y.test.", "y.test. 50 IN A 192.0.2.1"]}, 50),
    "same alias twice": ({"answer": ["x.test. 60 IN CNAME y.test.", "Y.test. 50 IN A 192.0.2.1"]}, 50),
    "empty": ({}, None),
    "only additional": ({"additional": ["x.test. 60 IN A 192.0.2.1"]}, 60),
    "delegation": ({"authority": ["x.test. 60 IN NS ns.x.test."]}, 5),
    "no data": ({"authority": [SOA]}, 60),
    "no data, by the soa's minimum": ({"authority": [SOA.replace(" 9000", " 20")]}, 20),
    "nxdomain, by the soa's minimum": ({"rcode": "NXDOMAIN", "authority": [SOA.replace(" 9000", " 20")]}, 20),
    "minimum below the denial's least": ({"rcode": "NXDOMAIN", "authority": [SOA.replace(" 9000", " 1")]}, 5),
    "answer with soa": ({"answer": ["x.test. 60 IN A 192.0.2.1"], "authority": [SOA.replace(" 9000", " 20")]}, 60),
    "ttl with the high bit": ({"answer": ["x.test. 2147483648 IN A 192.0.2.1"]}, 5),
    "alias without data, with soa": ({"answer": ["x.test. 60 IN CNAME y.test."], "authority": [SOA]}, 60),
    "nxdomain": ({"rcode": "NXDOMAIN", "authority": [SOA]}, 60),
    "nxdomain, high ttl": ({"rcode": "NXDOMAIN", "authority": [SOA.replace(" 60 ", " 5000 ")]}, 1800),
    "servfail": ({"rcode": "SERVFAIL"}, None),
    "notimp": ({"rcode": "NOTIMP"}, None),
    "servfail with soa": ({"rcode": "SERVFAIL", "authority": [SOA]}, 5),
}
NOT_KEPT = {
    "nxdomain without soa": {"rcode": "NXDOMAIN"},
    "nxdomain with answer": {"rcode": "NXDOMAIN", "answer": ["x.test. 60 IN CNAME y.test."], "authority": [SOA]},
    "refused": {"rcode": "REFUSED"},
    "formerr": {"rcode": "FORMERR"},
    "alias without data": {"answer": ["x.test. 60 IN CNAME y.test."]},
    "another name": {"answer": ["y.test. 60 IN A 192.0.2.1"]},
    "another type": {"answer": ["x.test. 60 IN AAAA 2001:db8::1"]},
    "two aliases": {"answer": ["x.test. 60 IN CNAME y.test.", "x.test. 60 IN CNAME z.test.", "y.test. 60 IN A 192.0.2.1"]},
    "aliases in a circle": {"answer": ["x.test. 60 IN CNAME y.test.", "y.test. 60 IN CNAME x.test."]},
}


def test_what_is_kept(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, script):
        for number, (case, (said, ttl)) in enumerate(KEPT.items()):
            name = f"x{number}.test."
            renamed = {key: [text.replace("x.test.", name) for text in value] if isinstance(value, list) else value for key, value in said.items()}
            script.say(name, **renamed)  # type: ignore[arg-type]
            start = time.monotonic()
            first, second = server.query(name), server.query(name)
            least = (ttl or 0) - 1 - int(time.monotonic() - start)
            assert asked(upstream, name) == 1, case
            assert ttls(first) == ({ttl} if ttl else set()), case
            assert all(least <= value <= ttl for value in ttls(second)), case
            assert second.rcode() == first.rcode(), case
            assert second.flags == first.flags | dns.flags.AA, case
            for section in ("answer", "authority", "additional"):
                assert [rrset.to_rdataset() for rrset in getattr(second, section)] == [rrset.to_rdataset() for rrset in getattr(first, section)]


def test_what_is_not_kept(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, script):
        for number, (case, said) in enumerate(NOT_KEPT.items()):
            name = f"x{number}.test."
            renamed = {key: [text.replace("x.test.", name) for text in value] if isinstance(value, list) else value for key, value in said.items()}
            script.say(name, **renamed)  # type: ignore[arg-type]
            first, second = server.query(name), server.query(name)
            assert asked(upstream, name) == 2, case
            assert first.rcode() == second.rcode(), case
            assert ttls(second) <= {60, 5}, case
        script.say("tc.test.", flags="RA TC", answer=["tc.test. 60 IN A 192.0.2.1"])
        for _ in range(2):
            assert server.query("tc.test.").flags & dns.flags.TC
        assert asked(upstream, "tc.test.") >= 2


def test_ttl_of_zero_is_not_kept_without_a_least_ttl(serve: Serve) -> None:
    with running(serve, "cache {\n success 1024 3600 0\n denial 1024 1800 0\n servfail 0\n }") as (server, upstream, script):
        script.say("zero.test.", answer=["zero.test. 0 IN A 192.0.2.1"])
        script.say("none.test.", rcode="NXDOMAIN", authority=[SOA.replace(" 60 ", " 0 ")])
        script.say("fails.test.", rcode="SERVFAIL")
        for name in ("zero.test.", "none.test.", "fails.test."):
            assert ttls(server.query(name)) <= {0}
            server.query(name)
            assert asked(upstream, name) == 2


def test_dnssec_bits_have_entries_of_their_own_and_ad_is_for_who_asks(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, script):
        script.say("sec.test.", flags="RA AD", answer=["sec.test. 60 IN A 192.0.2.1"])
        plain, ad, do = {}, {"flags": dns.flags.RD | dns.flags.AD}, {"want_dnssec": True}
        cd, both = {"flags": dns.flags.RD | dns.flags.CD}, {"flags": dns.flags.RD | dns.flags.CD, "want_dnssec": True}
        for count, (options, secure) in enumerate([(plain, False), (do, True), (cd, False), (both, True)], 1):
            for hit in (False, True):
                reply = server.query("sec.test.", **options)  # type: ignore[arg-type]
                assert bool(reply.flags & dns.flags.AD) is secure
                assert bool(reply.flags & dns.flags.AA) is hit
                assert asked(upstream, "sec.test.") == count
        assert server.query("sec.test.", **ad).flags & dns.flags.AD  # type: ignore[arg-type]
        assert asked(upstream, "sec.test.") == 4
        # The upstream is asked to tell, whatever the client asked.
        assert all(query.flags & dns.flags.AD for query in upstream.seen)
        assert [bool(query.flags & dns.flags.CD) for query in upstream.seen if query.question[0].name.to_text() == "sec.test."] == [False, False, True, True]


def test_classes_types_and_transports(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, script):
        script.say("x.test.", answer=["x.test. 60 IN A 192.0.2.1"])
        for rdclass in ("IN", "CH", "IN", "CH"):
            server.send(dns.message.make_query("x.test.", "A", rdclass))
        assert asked(upstream, "x.test.") == 3  # the answer is of class IN, so that for CH is no answer to keep
        server.query("x.test.", tcp=True)
        server.query("x.test.", use_edns=0, payload=4096)
        assert asked(upstream, "x.test.") == 3
        server.query("x.test.", "AAAA")
        assert asked(upstream, "x.test.") == 4


def test_case_of_the_question_and_no_opt_of_others(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, _):
        server.query("some.test.", use_edns=0, payload=1400)
        reply = server.query("SoMe.TEST.")
        assert reply.question[0].name.to_text() == "SoMe.TEST."
        assert texts(reply.answer) == ["some.test. 300 IN A 192.0.2.1"]
        assert reply.edns == -1
        assert server.query("some.test.", use_edns=0, payload=1300).payload == 1300
        assert asked(upstream, "some.test.") == 1


def test_entries_end(serve: Serve) -> None:
    cache = "cache {\n success 1024 3600 1\n denial 1024 1800 1\n servfail 1s\n keepttl\n }"
    kinds = {
        "short": {"answer": ["{name} 1 IN A 192.0.2.1"]},
        "long": {"answer": ["{name} 100 IN A 192.0.2.1"]},
        "none": {"rcode": "NXDOMAIN", "authority": [SOA.replace(" 60 ", " 1 ")]},
        "fails": {"rcode": "SERVFAIL"},
    }
    with running(serve, cache) as (server, upstream, script):
        numbers = itertools.count()

        def kept(kind: str) -> str:
            """A name that was asked for twice while it lived; "" when this machine took longer over that than entries live."""
            name = f"{kind}{next(numbers)}.test."
            said = {key: [text.replace("{name}", name) for text in value] if isinstance(value, list) else value for key, value in kinds[kind].items()}
            script.say(name, **said)  # type: ignore[arg-type]
            start = time.monotonic()
            for _ in range(2):
                server.query(name)
            if time.monotonic() - start > 0.9:
                return ""
            assert asked(upstream, name) == 1
            return name

        names = [until(lambda kind=kind: kept(kind)) for kind in kinds]  # type: ignore[misc]
        time.sleep(1.1)
        for name in names:
            server.query(name)
        assert [asked(upstream, name) for name in names] == [2, 1, 2, 2]
        assert ttls(server.query(names[1])) == {100}


def test_zones_and_exceptions(serve: Serve) -> None:
    cache = "cache in.test off.in.test {\n disable success off.in.test\n disable denial none.in.test\n }"
    with running(serve, cache) as (server, upstream, script):
        for name in ("a.none.in.test.", "b.off.in.test."):
            script.say(name, rcode="NXDOMAIN", authority=[SOA])
        wanted = {"a.in.test.": 1, "a.out.test.": 2, "a.off.in.test.": 2, "b.off.in.test.": 1, "a.none.in.test.": 2, "x.none.in.test.": 1}
        for name, count in wanted.items():
            server.query(name)
            server.query(name)
            assert asked(upstream, name) == count, name


def test_a_big_reply_comes_out_whole(serve: Serve) -> None:
    with running(serve, "cache") as (server, upstream, script):
        records = [f"big.test. 60 IN TXT {'x' * 200}{number}" for number in range(250)]
        script.say("big.test.", answer=records)
        for _ in range(2):
            assert len(texts(server.query("big.test.", "TXT", tcp=True).answer)) == 250
        cut = server.query("big.test.", "TXT", use_edns=0, payload=1232)
        assert cut.flags & dns.flags.TC
        assert asked(upstream, "big.test.") == 1


TEST = dns.name.from_text("test.")


def burst(server: Server, names: list[str]) -> None:
    """Asks for all of the names at once and waits for the replies."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(REPLY)
        client.connect(("127.0.0.1", server.port))
        for name in names:
            client.send(dns.message.make_query(name, "A").to_wire())
        for _ in names:
            client.recv(4096)


def test_a_flood_of_names_evicts_but_what_is_popular_stays(serve: Serve) -> None:
    with running(serve, "cache {\n success 1024\n }\n prometheus 127.0.0.1:{port2}", "-workers", "1") as (server, upstream, _):
        popular = [f"popular{number}.test." for number in range(20)]
        for start in range(0, 2000, 25):
            burst(server, [f"flood{number}.test." for number in range(start, start + 25)])
            burst(server, popular)
        assert all(asked(upstream, name) <= 2 for name in popular)
        labels = f'server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."'
        entries = server.metric(server.ports["port2"], f"coredns_cache_entries{{{labels}}}")
        evicted = server.metric(server.ports["port2"], f"coredns_cache_evictions_total{{{labels}}}")
        assert entries == 1024
        assert entries + evicted == len({(query.id, query.question[0].name) for query in upstream.seen if query.question[0].name.is_subdomain(TEST)})


def test_nothing_is_evicted_while_there_is_room(serve: Serve) -> None:
    with running(serve, "cache {\n success 1024\n }\n prometheus 127.0.0.1:{port2}", "-workers", "1") as (server, _, _):
        names = [f"name{number}.test." for number in range(1000)]
        for _ in range(2):
            for start in range(0, len(names), 25):
                burst(server, names[start : start + 25])
        labels = f'server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."'
        assert server.metric(server.ports["port2"], f"coredns_cache_entries{{{labels}}}") == len(names)
        assert server.metric(server.ports["port2"], f"coredns_cache_hits_total{{{labels}}}") == len(names)


@pytest.mark.parametrize("opcode", [1, 4])
def test_other_messages_than_queries_pass(serve: Serve, opcode: int) -> None:
    with running(serve, "cache") as (server, upstream, _):
        server.query("x.test.")
        request = dns.message.make_query("x.test.", "A")
        request.set_opcode(dns.opcode.Opcode(opcode))
        server.send(request)
        assert asked(upstream, "x.test.") == (2 if opcode == 4 else 1)


def test_a_reload_begins_with_an_empty_cache(serve: Serve) -> None:
    with running(serve, "cache\n prometheus 127.0.0.1:{port2}") as (server, upstream, _):
        sample = f'coredns_cache_entries{{server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."}}'
        for number in range(10):
            server.query(f"x{number}.test.")
        assert server.metric(server.ports["port2"], sample) == 10
        for count in (2, 3):
            server.reload(server.corefile.read_text() + "#")
            until(lambda: server.metric(server.ports["port2"], sample) == 0)
            server.query("x1.test.")
            assert asked(upstream, "x1.test.") == count
            assert server.metric(server.ports["port2"], sample) == 1
        server.reload(server.corefile.read_text().replace(" cache\n", "\n"))
        server.query("x1.test.")
        until(lambda: "coredns_cache_entries{" not in server.get(server.ports["port2"], "/metrics"))
