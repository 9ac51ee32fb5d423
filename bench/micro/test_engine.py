"""What the steps of a query cost: parse, hashes, zone, chain, reply."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

import dns.message
import dns.rrset
import pytest

from fastdns._mux import NativeHandler
from fastdns._wire import name_wire
from fastdns.bench.micro.conftest import Timed
from fastdns.bench.micro.loops import Answering, Finisher, Names, Packets, Passing, Question
from fastdns.bench.replay import query
from fastdns.engine.chains import ServerSpec, ZoneSpec
from fastdns.engine.engine import Engine
from fastdns.engine.listener import Listener

A, SRV = 1, 33
NAMES = 1000


def names() -> list[str]:
    choice = random.Random(1)
    return [f"service-{choice.randrange(10_000)}.team-{i % 40}.svc.cluster.local." for i in range(NAMES)]


@pytest.mark.parametrize("edns", [False, True], ids=["plain", "edns"])
def test_parse(timed: Timed, edns: bool) -> None:
    packets = Packets([query(i, name, A, edns) for i, name in enumerate(names())])
    assert timed(100 * NAMES, packets.accept, 100) == 100 * NAMES


def test_suffix_hashes(timed: Timed) -> None:
    assert timed(100 * NAMES, Names([name_wire(name) for name in names()]).index, 100) == 5 * 100 * NAMES


@pytest.fixture
def engine() -> Engine:
    return Engine(1)


@pytest.fixture
def listener(engine: Engine) -> Iterator[Listener]:
    made = engine.bind("127.0.0.1", 0)
    yield made
    made.close()


def publish(engine: Engine, listener: Listener, zones: Sequence[str], handlers: Sequence[NativeHandler]) -> None:
    engine.publish([ServerSpec("dns://127.0.0.1:0", [listener], [ZoneSpec(zone, handlers) for zone in zones])])


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_match(timed: Timed, engine: Engine, listener: Listener, count: int) -> None:
    """One of so many zones, two labels below the name."""
    publish(engine, listener, [f"team-{i}.example.org." for i in range(count)], [Answering("answers")])
    choice = random.Random(1)
    asked = [f"www.web.team-{choice.randrange(count)}.example.org." for _ in range(NAMES)]
    question = Question(engine, listener, query(1, asked[0], A, False))
    assert timed(100 * NAMES, question.match, Names([name_wire(name) for name in asked]), 100) == 100 * NAMES


@pytest.mark.parametrize("count", [1, 10])
def test_chain(timed: Timed, engine: Engine, listener: Listener, count: int) -> None:
    """From the parsed query to the fitted reply; the first handlers pass down and up."""
    publish(engine, listener, ["."], [*(Passing(f"passes-{i}") for i in range(count - 1)), Answering("answers")])
    question = Question(engine, listener, query(1, names()[0], A, False))
    assert timed(100_000, question.walk, 100_000) == 100_000


def reply(asked: bytes, records: Sequence[str]) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(asked))
    for line in records:
        owner, ttl, klass, rdtype, rdata = line.split(" ", 4)
        message.answer.append(dns.rrset.from_text(owner, int(ttl), klass, rdtype, rdata))
    return message.to_wire(max_size=65535)


def test_finish(timed: Timed) -> None:
    """Fit and write one address."""
    asked = query(1, names()[0], A, False)
    made = reply(asked, [f"{names()[0]} 30 IN A 10.96.0.1"])
    assert timed(100_000, Finisher(asked, made).finish, 100_000)[12:] == made[12:]


def test_compression(timed: Timed) -> None:
    """Fit, compress and write thirty names that share all but their first label."""
    asked = struct.pack("!6H", 1, 0x0100, 1, 0, 0, 1) + name_wire("_http._tcp.web.shop.svc.cluster.local.") + struct.pack("!2H", SRV, 1)
    asked += b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
    made = reply(asked, [f"web.shop.svc.cluster.local. 30 IN CNAME web-{i}.another-service.shop.svc.cluster.local." for i in range(30)])
    written = timed(1000, Finisher(asked, made).finish, 1000)
    read = dns.message.from_wire(written, one_rr_per_rrset=True)
    assert len(read.answer) == 30
    assert len(written) < 30 * 30
