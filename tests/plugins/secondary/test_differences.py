"""A secondary that follows its primary by differences has what one has that transfers each version whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rrset
import dns.versioned
import dns.zone
import pytest

from fastdns.index.zone import Zone
from fastdns.plugins.secondary.exchange import Limits, transfer
from fastdns.plugins.secondary.primary import primary_of
from fastdns.plugins.transfer.journal import publish
from tests.plugins.secondary.primary import Primary
from tests.plugins.secondary.zones import LABELS, Record, master_file, random_record
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

COREFILE = """
example.org:{{port}} {{
    secondary {{
        transfer from {by_differences}
    }}
    transfer {{
        to *
    }}
}}
example.org:{{port2}} {{
    secondary {{
        transfer from {whole}
    }}
    transfer {{
        to *
    }}
}}
"""


@pytest.fixture
def primaries() -> Iterator[Callable[[str], tuple[Primary, Primary]]]:
    made: list[Primary] = []

    def make(text: str) -> tuple[Primary, Primary]:
        made.extend([Primary(text), Primary(text)])
        made[-1].differences = False
        return made[-2], made[-1]

    yield make
    for one in made:
        one.close()


def lines(rrsets: list[dns.rrset.RRset]) -> list[str]:
    return sorted(line for rrset in rrsets for line in rrset.to_text().splitlines())


def answer(server: Server, port: str, name: str, kind: str) -> tuple[object, ...]:
    reply = server.query(name, kind, port=server.ports[port], tcp=True, want_dnssec=True)
    return reply.rcode(), dns.flags.to_text(reply.flags), lines(reply.answer), lines(reply.authority), lines(reply.additional)


def whole(server: Server, port: str) -> list[str]:
    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.org.", port=server.ports[port], relativize=False, lifetime=REPLY), relativize=False)
    return sorted(found.to_text(relativize=False).splitlines())


def serial(server: Server, port: str) -> int:
    return int(server.query("example.org.", "SOA", port=server.ports[port]).answer[0][0].serial)


def questions(choice: random.Random, records: set[Record], count: int) -> list[tuple[str, str]]:
    names = sorted({name for name, _, _ in records})
    found = [("example.org.", "A"), ("nothing.example.org.", "A")]
    for _ in range(count):
        name = (
            choice.choice(names)
            if names and choice.random() < 0.5
            else "".join(choice.choice(LABELS) + "." for _ in range(choice.randint(1, 4))) + "example.org."
        )
        if choice.random() < 0.3:
            name = choice.choice(["q.", "0.", "zz."]) + name
        found.append((name, choice.choice(["A", "TXT", "MX", "NS", "DS", "CNAME", "SRV"])))
    return found


@pytest.mark.parametrize("denial", ["", "NSEC", "NSEC3"])
def test_differences_and_whole_zones(serve: Serve, primaries: Callable[[str], tuple[Primary, Primary]], denial: str) -> None:
    choice = random.Random(f"differences {denial}")
    records = {random_record(choice) for _ in range(60)}
    one, other = primaries(master_file(records, 1, denial))
    server = serve(COREFILE.format(by_differences=one.address, whole=other.address))
    server.until("ns.example.org.", "A", ["192.0.2.53"], port=server.ports["port"])
    server.until("ns.example.org.", "A", ["192.0.2.53"], port=server.ports["port2"])
    assert whole(server, "port") == whole(server, "port2")
    follower = dns.versioned.Zone("example.org.", relativize=False)
    dns.query.inbound_xfr("127.0.0.1", follower, port=server.ports["port"], lifetime=REPLY)
    for version in range(2, 12):
        gone = set(choice.sample(sorted(records), min(len(records), choice.choice([0, 1, 2, 10, 60]))))
        records = (records - gone) | {random_record(choice) for _ in range(choice.choice([0, 1, 2, 10, 60]))}
        text = master_file(records, version, denial)
        for primary, port in ((one, "port"), (other, "port2")):
            primary.add(text)
            primary.notify(server.ports[port])
            until(lambda port=port, version=version: serial(server, port) == version, f"version {version}")  # type: ignore[misc]
        for name, kind in questions(choice, records | gone, 60):
            assert answer(server, "port", name, kind) == answer(server, "port2", name, kind), f"{version} {name} {kind}"
        assert whole(server, "port") == whole(server, "port2")
        # And the differences that *transfer* passes on lead to the same zone.
        dns.query.inbound_xfr("127.0.0.1", follower, port=server.ports["port"], lifetime=REPLY)
        assert sorted(follower.to_text(relativize=False).splitlines()) == whole(server, "port2")
    assert one.asked.count("AXFR") == 1
    assert one.asked.count("IXFR") == 10
    assert other.asked.count("IXFR") == 10


def test_a_difference_costs_by_its_size() -> None:
    """Slots looked at and records copied for one record that differs, in zones of 300 and of 10,000 names."""
    work = []
    for size in (300, 10_000):
        many = "".join(f"h{number} 60 IN A 192.0.2.{number % 250}\n" for number in range(size))
        text = "@ 60 IN SOA ns host {} 3600 600 86400 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.53\n" + many
        primary = Primary(text.format(1))
        try:
            zone = Zone("example.org.")
            publish(zone, transfer(zone, primary_of(primary.address), None, Limits(), None).receiver.finish())
            primary.script = one_record
            before = zone.index.statistics["work"]
            publish(zone, transfer(zone, primary_of(primary.address), None, Limits(), 1).receiver.finish())
            work.append(zone.index.statistics["work"] - before)
            assert zone.index.get("h7.example.org.") == [(1, 60, bytes([192, 0, 2, 77]))]
        finally:
            primary.close()
    assert max(work) < 1000  # a long run of slots in a row is rare, and no zone


def one_record(primary: Primary, request: dns.message.Message) -> Iterator[dns.message.Message]:
    def record(number: int) -> dns.rrset.RRset:
        return dns.rrset.from_text("h7.example.org.", 60, "IN", "A", f"192.0.2.{number}")

    old = primary.soa()
    new = dns.rrset.from_text("example.org.", 60, "IN", "SOA", "ns.example.org. host.example.org. 2 3600 600 86400 60")
    return iter([primary.reply(request, [new, old, record(7), new, record(77), new])])
