"""secondary: what is asked on which connection, and what becomes of it when a primary closes, or does not answer on it any more."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import dns.edns
import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset
import pytest

from fastdns.plugins.secondary.connection import Connection, Exchange, ExchangeError
from tests.plugins.secondary.primary import Messages, Primary
from tests.plugins.secondary.test_secondary import corefile, zone
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
Make = Callable[..., Primary]

ZONES = [f"z{number}.test." for number in range(20)]


def any_zone(primary: Primary, request: dns.message.Message) -> Messages:
    """A zone of one address, whatever its name."""
    name = request.question[0].name.to_text()
    soa = dns.rrset.from_text(name, 60, "IN", "SOA", "ns. host. 1 3600 600 86400 60")
    yield primary.reply(request, [soa, dns.rrset.from_text(f"www.{name}", 60, "IN", "A", "192.0.2.1"), soa] if is_transfer(request) else [soa])


def is_transfer(request: dns.message.Message) -> bool:
    return request.question[0].rdtype in (dns.rdatatype.AXFR, dns.rdatatype.IXFR)


def many(address: str, more: str = "") -> str:
    return f".:{{port}} {{\n    secondary {' '.join(ZONES)} {{\n        transfer from {address}\n    }}\n    {more}\n}}\n"


def test_one_connection_for_all_zones_of_a_primary(serve: Serve, primary: Make) -> None:
    one = primary(zone(1), origin="z0.test.")
    one.script = any_zone
    metrics = free_port()
    server = serve(many(one.address, f"prometheus 127.0.0.1:{metrics}"))
    for name in ZONES:
        server.until(f"www.{name}", "A", ["192.0.2.1"])
    assert one.asked == ["AXFR"] * len(ZONES)
    assert len(one.connections) == 1
    one.script, one.differences = None, False
    one.add(zone(2, "www 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("www.z0.test.", "A", ["192.0.2.2"])
    assert one.asked[len(ZONES) :] == ["SOA", "IXFR"]
    assert len(one.connections) == 1
    assert server.metric(metrics, f'fastdns_secondary_connections_total{{primary="{one.address}",result="made"}}') == 1
    assert server.metric(metrics, f'fastdns_secondary_requests_total{{connection="kept",primary="{one.address}"}}') == len(one.asked) - 1


class Reversing:
    """A primary that answers what has come on a connection in the reverse order, once it is `wanted` questions."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        try:
            while True:
                self.accepted.append(self.socket.accept()[0])
                threading.Thread(target=self.answer, args=(self.accepted[-1],), daemon=True).start()
        except OSError:
            return

    def answer(self, one: socket.socket) -> None:
        one.settimeout(LIMIT)
        try:
            with one.makefile("rb") as file:
                while True:
                    requests = []
                    while len(requests) < self.wanted:
                        requests.append(dns.message.from_wire(file.read(struct.unpack(">H", file.read(2))[0])))
                    for request in reversed(requests):
                        name = request.question[0].name
                        reply = dns.message.make_response(request)
                        soa = dns.rrset.from_text(name, 60, "IN", "SOA", "ns. host. 1 3600 600 86400 60")
                        reply.answer = [soa, dns.rrset.from_text(f"www.{name}", 60, "IN", "A", "192.0.2.1"), soa]
                        wire = reply.to_wire(max_size=65535)
                        one.sendall(struct.pack(">H", len(wire)) + wire)
        except (OSError, struct.error):
            return

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for one in self.accepted:
            one.close()


@pytest.fixture
def reversing() -> Iterator[Reversing]:
    made = Reversing(4)
    yield made
    made.close()


def test_several_questions_at_a_time(serve: Serve, reversing: Reversing) -> None:
    """Told apart by their IDs: the primary answers none before it has four, the last one first."""
    server = serve(many(reversing.address))
    for name in ZONES:
        server.until(f"www.{name}", "A", ["192.0.2.1"])
    assert len(reversing.accepted) == 1
    assert "Failed" not in server.log()


def test_a_primary_that_closes_after_each_answer(serve: Serve, primary: Make) -> None:
    one = primary(zone(1), origin="z0.test.")

    def closing(primary: Primary, request: dns.message.Message) -> Messages:
        yield from any_zone(primary, request)
        yield None

    one.script = closing
    server = serve(many(one.address))
    for name in ZONES:
        server.until(f"www.{name}", "A", ["192.0.2.1"])
    one.notify(server.port)
    server.wait_log(r"no SOA serial increase seen")
    assert "ailed" not in server.log()


def test_an_answer_that_came_before_the_primary_closed() -> None:
    """The next question cannot be sent any more; the answer is there all the same."""

    def wire(ident: int) -> bytes:
        return dns.message.make_query("z0.test.", "SOA", id=ident).to_wire()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection(f"127.0.0.1:{listener.getsockname()[1]}", None, "", LIMIT, LIMIT, lambda one: None)
        primary, _ = listener.accept()
        first = connection.ask(wire, time.monotonic() + LIMIT, opened=True)
        assert first is not None
        with primary, primary.makefile("rb") as file:
            octets = file.read(2)
            octets += file.read(int.from_bytes(octets, "big"))
            primary.sendall(octets)
    # The first one is answered by a reset, the second one fails.
    late: list[Exchange] = []
    while connection.usable:
        late += filter(None, [connection.ask(wire, time.monotonic() + LIMIT, opened=False)])
        time.sleep(0.05)
    assert connection.ask(wire, time.monotonic() + LIMIT, opened=False) is None
    with pytest.raises(ExchangeError, match=r"^write tcp 127\.0\.0\.1:\d+->127\.0\.0\.1:\d+: write: broken pipe$"):
        late[-1].receive()
    assert first.receive() == octets[2:]
    first.end(complete=True)
    for one in late:
        with pytest.raises(ExchangeError):
            one.receive()
        one.end(complete=False)
    assert connection.ended_by_primary
    connection.close()


def test_a_connection_that_was_closed_while_idle(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.disconnect()
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert one.asked == ["AXFR", "SOA", "IXFR"]
    assert len(one.connections) == 2
    assert "ailed" not in server.log()


def test_a_primary_that_is_restarted(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.close()
    again = primary(zone(2, "a 60 IN A 192.0.2.2\n"), port=one.port)
    again.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert "ailed" not in server.log()


def test_a_question_without_an_answer_is_asked_once_more(serve: Serve, primary: Make) -> None:
    """On a new connection, when the one that is kept ends; a new one that ends, too, is a failure."""
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.script = lambda primary, request: iter([None]) if len(primary.connections) == 1 else None
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert one.asked == ["AXFR", "SOA", "SOA", "IXFR"]
    assert len(one.connections) == 2
    assert "ailed" not in server.log()
    one.script = lambda primary, request: iter([None])
    one.notify(server.port)
    server.wait_log(r"\[WARNING\] plugin/file: Notify from 127\.0\.0\.1 for example\.org\.: failed primary check: EOF")
    assert one.asked[4:] == ["SOA", "SOA"]
    assert len(one.connections) == 3


def test_a_connection_that_nobody_answers_on(serve: Serve, primary: Make) -> None:
    """As after a power cut, or where a firewall has forgotten it: no reset comes."""
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    silent = threading.Event()

    def script(primary: Primary, request: dns.message.Message) -> Messages | None:
        return silence() if len(primary.connections) == 1 and len(primary.asked) > 1 else None

    def silence() -> Messages:
        silent.wait(LIMIT)
        yield None

    one.script = script
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    silent.set()
    assert one.asked[:3] == ["AXFR", "SOA", "SOA"]
    assert "ailed" not in server.log()


@pytest.mark.parametrize(("value", "kept"), [(0, False), (5, False), (600, True)])
def test_a_primary_says_how_long_a_connection_may_be_idle(serve: Serve, primary: Make, value: int, kept: bool) -> None:
    """In 100 ms (RFC 7828)."""
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))

    def script(primary: Primary, request: dns.message.Message) -> Messages | None:
        if request.question[0].rdtype != dns.rdatatype.SOA:
            return None
        assert [option.otype for option in request.options] == [11]
        reply = primary.reply(request, [primary.soa()])
        reply.use_edns(0, 0, 1232, options=[dns.edns.GenericOption(11, struct.pack(">H", value))])
        return iter([reply])

    one.script = script
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.notify(server.port)
    server.wait_log("no SOA serial increase seen")
    if kept:
        assert not one.ended.wait(3)
    else:
        assert one.ended.wait(3)


def test_a_primary_without_edns(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    with_edns: list[bool] = []

    def script(primary: Primary, request: dns.message.Message) -> Messages | None:
        with_edns.append(request.edns >= 0)
        reply = dns.message.Message(request.id)
        reply.flags = dns.flags.QR
        reply.set_rcode(dns.rcode.FORMERR)
        return iter([reply.to_wire()]) if request.edns >= 0 else None

    one.script = script
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    for count in (1, 2):
        one.notify(server.port)
        until(lambda count=count: server.log().count("no SOA serial increase seen") == count, "the answer")  # type: ignore[misc]
    assert with_edns == [False, True, False, False]
    assert len(one.connections) == 1


def test_a_large_transfer_does_not_hold_others_back(serve: Serve, primary: Make) -> None:
    """A primary that answers one question after the other stalls in the midst of a zone: the other ones come on another connection."""
    one = primary(zone(1), origin="z0.test.")
    go = threading.Event()

    def script(primary: Primary, request: dns.message.Message) -> Messages:
        name = request.question[0].name.to_text()
        if name == "z0.test." and is_transfer(request):
            soa = dns.rrset.from_text(name, 60, "IN", "SOA", "ns. host. 1 3600 600 86400 60")
            yield primary.reply(request, [soa])
            go.wait(LIMIT)
            yield primary.reply(request, [dns.rrset.from_text(f"www.{name}", 60, "IN", "A", "192.0.2.1"), soa])
        else:
            yield from any_zone(primary, request)

    one.script = script
    server = serve(many(one.address))
    for name in ZONES[1:]:
        server.until(f"www.{name}", "A", ["192.0.2.1"])
    assert server.answers("www.z0.test.") == ["SERVFAIL"]
    go.set()
    server.until("www.z0.test.", "A", ["192.0.2.1"])
    assert "ailed" not in server.log()
