"""The floors answer as the servers that they stand beside would have to."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.query
import pytest

from fastdns.bench.servers import Running, Work
from fastdns.bench.servers.native import Floor, Relay
from fastdns.bench.servers.relay import relay
from tests.waiting import REPLY, until

PROBE = ("example.org.", 1)


@pytest.fixture(params=[False, True], ids=["bound", "wildcard"])
def floor(request: pytest.FixtureRequest) -> Iterator[Running]:
    with Running(Floor(ttl=77), Work("floor", "", PROBE), [], wildcard=request.param) as running:
        yield running


def test_floor_answers_everything_with_one_record(floor: Running) -> None:
    request = dns.message.make_query("some.name.example.org", "A", use_edns=0)
    reply = dns.query.udp(request, "127.0.0.1", REPLY, floor.port)
    assert request.is_response(reply)
    assert reply.flags & dns.flags.AA
    assert [str(rrset) for rrset in reply.answer] == ["some.name.example.org. 77 IN A 10.0.0.1"]
    assert reply.edns == -1


def test_floor_answers_from_the_address_that_was_asked() -> None:
    with Running(Floor(), Work("floor", "", PROBE), [], wildcard=True) as running:
        # dnspython refuses a reply from elsewhere.
        for host in ("127.0.0.2", "::1"):
            reply = dns.query.udp(dns.message.make_query("example.org", "A"), host, REPLY, running.port)
            assert reply.answer, host


@pytest.mark.parametrize(
    "octets", [b"", b"\0" * 12, b"\0" * 16, b"\0\1" + b"\0" * 10 + b"\x3fabc", b"\0\1\x80\0" + b"\0" * 13], ids=["none", "header", "short", "cut", "reply"]
)
def test_floor_keeps_silent_to_what_is_no_query(floor: Running, octets: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", floor.port))
        sock.settimeout(REPLY)
        sock.send(octets)
        query = dns.message.make_query("example.org", "A")
        sock.send(query.to_wire())
        assert query.is_response(dns.message.from_wire(sock.recv(4096)))


def test_relay_gives_each_reply_to_its_asker() -> None:
    with Running(Floor(), Work("upstream", "", PROBE), []) as upstream, Running(Relay(), Work("relay", "", PROBE, upstream=upstream.port), []) as running:
        askers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
        queries = [dns.message.make_query(f"name-{i}.example.org", "A", id=1000 + i % 3) for i in range(len(askers))]
        for sock, query in zip(askers, queries, strict=True):
            sock.connect(("127.0.0.1", running.port))
            sock.settimeout(REPLY)
            sock.send(query.to_wire())
        for sock, query in zip(askers, queries, strict=True):
            assert query.is_response(dns.message.from_wire(sock.recv(4096)))
            sock.close()


@pytest.mark.parametrize("count", [0, 65])
def test_relay_wants_upstreams(count: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 64"):
        relay(0, [0] * count)


def test_floor_ends_when_told_to(floor: Running) -> None:
    floor.process.terminate()
    assert until(lambda: floor.process.poll() is not None)
    assert floor.process.returncode == 0
