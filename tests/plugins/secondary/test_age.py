"""How old a zone is: EDNS EXPIRE (RFC 7314), and zones that no primary confirms (`stale`)."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Callable

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.secondary.settings import parse
from fastdns.setup import Controller
from tests.plugins.secondary.primary import Messages, Primary
from tests.plugins.secondary.test_secondary import corefile, lines, zone
from tests.server import STARTED, Server
from tests.waiting import until

Serve = Callable[..., Server]

OPTION_EXPIRE = 9
STALE_ANSWER = 3

FILE = """
example.org:{port} {
    prometheus 127.0.0.1:{port2}
    file {dir}/zone
    transfer {
        to *
    }
}
"""
COPY = """
example.org:{{port}} {{
    prometheus 127.0.0.1:{{port2}}
    secondary {{
        transfer from {primaries}
        {more}
    }}
    transfer {{
        to *
    }}
}}
"""


def expire(server: Server, name: str = "example.org.", kind: str = "SOA") -> int | None:
    """What a server says for EXPIRE."""
    reply = server.query(name, kind, use_edns=0, options=[dns.edns.GenericOption(OPTION_EXPIRE, b"")])
    assert reply.rcode() == dns.rcode.NOERROR
    found = [option.to_wire() for option in reply.options if option.otype == OPTION_EXPIRE]
    return struct.unpack(">I", found[0] or b"")[0] if found else None


def errors(server: Server, name: str = "ns.example.org.", kind: str = "A") -> list[int]:
    reply = server.query(name, kind, use_edns=0)
    assert reply.rcode() == dns.rcode.NOERROR, dns.rcode.to_text(reply.rcode())
    return [int(option.code) for option in reply.options if isinstance(option, dns.edns.EDEOption)]


def age(server: Server) -> float:
    return server.metric(server.ports["port2"], 'fastdns_replica_age_seconds{zone="example.org."}')


def serve_file(serve: Serve, text: str) -> Server:
    return serve(FILE, prepare=lambda folder: (folder / "zone").write_text("$ORIGIN example.org.\n" + text))


# ---- EXPIRE ----


def test_a_primary_tells_the_expire_of_its_soa(serve: Serve) -> None:
    server = serve_file(serve, zone(1, expire=4321))
    assert expire(server) == 4321
    assert expire(server, "ns.example.org.", "A") is None
    assert expire(server, "ns.example.org.", "SOA") is None
    assert not server.query("example.org.", "SOA", use_edns=0).options
    assert server.query("example.org.", "SOA").edns == -1
    kept = server.query("example.org.", "SOA", use_edns=0, payload=512, options=[dns.edns.GenericOption(OPTION_EXPIRE, b"")], want_dnssec=True)
    assert kept.ednsflags & dns.flags.DO


def test_a_secondary_tells_what_is_left(serve: Serve) -> None:
    first = serve_file(serve, zone(1, refresh=3600, expire=4321))
    second = serve(COPY.format(primaries=f"127.0.0.1:{first.port}", more=""))
    second.until("ns.example.org.", "A", ["192.0.2.53"])
    third = serve(COPY.format(primaries=f"127.0.0.1:{second.port}", more="stale serve"))
    third.until("ns.example.org.", "A", ["192.0.2.53"])
    until(lambda: (expire(second) or 0) <= 4318, "an older copy")
    until(lambda: 0 < (expire(third) or 0) <= 4319, "its age in the copy of the copy")
    until(lambda: age(third) >= 2, "the same as a metric")


# ---- stale ----


def test_a_stale_zone_is_served_and_says_so(serve: Serve) -> None:
    first = serve_file(serve, zone(1, refresh=1, retry=1, expire=3))
    server = serve(COPY.format(primaries=f"127.0.0.1:{first.port}", more="stale serve 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    until(lambda: age(server) < 1, "a confirmed zone")
    first.signal(signal.SIGSTOP)
    until(lambda: errors(server) == [STALE_ANSWER], "a stale zone")
    assert errors(server, "ns.example.org.", "TXT") == [STALE_ANSWER]
    server.wait_log(r"\[WARNING\] plugin/secondary: Zone example\.org\. is stale: no primary has confirmed it for \d+s; it is served on")
    until(lambda: age(server) > 4, "more than the SOA's EXPIRE")
    assert errors(server) == [STALE_ANSWER]
    assert server.query("ns.example.org.").edns == -1
    assert expire(server) == 0
    first.signal(signal.SIGCONT)
    until(lambda: errors(server) == [], "a zone that is confirmed again")
    server.wait_log(r"\[INFO\] plugin/secondary: Zone example\.org\. is stale no longer")
    assert age(server) < 2


def test_a_stale_zone_fails(serve: Serve) -> None:
    first = serve_file(serve, zone(1))
    server = serve(COPY.format(primaries=f"127.0.0.1:{first.port}", more="stale fail 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    first.signal(signal.SIGSTOP)
    server.until("ns.example.org.", "A", ["SERVFAIL"])
    server.wait_log(r"Zone example\.org\. is stale: .*; queries get SERVFAIL")
    first.signal(signal.SIGCONT)
    server.until("ns.example.org.", "A", ["192.0.2.53"])


def test_without_stale_a_zone_is_not_asked_for_all_the_time(serve: Serve) -> None:
    first = serve_file(serve, zone(1))
    server = serve(COPY.format(primaries=f"127.0.0.1:{first.port}", more=""))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    before = asked(first)
    time.sleep(1.5)
    assert asked(first) == before
    first.signal(signal.SIGSTOP)
    assert errors(server) == []
    first.signal(signal.SIGCONT)


def asked(server: Server, proto: str = "udp") -> float:
    """How many questions for an SOA came."""
    lines = server.get(server.ports["port2"], "/metrics").splitlines()
    wanted = ("coredns_dns_requests_total{", f'proto="{proto}"', 'type="SOA"')
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in wanted))


def test_heartbeats_go_over_udp(serve: Serve) -> None:
    first = serve_file(serve, zone(1))
    server = serve(COPY.format(primaries=f"127.0.0.1:{first.port}", more="stale serve 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    until(lambda: asked(first) >= 5, "heartbeats")
    assert asked(first, "tcp") == 0


def test_a_changed_zone_is_seen_by_a_heartbeat(serve: Serve, primary: Callable[..., Primary]) -> None:
    """Also of a primary that sends no NOTIFY, and answers over TCP alone."""
    one = primary(zone(1))
    server = serve(corefile(one.address, "stale serve 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    one.add(zone(2, "new 60 IN A 192.0.2.7\n"))
    server.until("new.example.org.", "A", ["192.0.2.7"])


def test_a_restart_goes_on_with_the_age(serve: Serve, primary: Callable[..., Primary]) -> None:
    one = primary(zone(1, expire=1))
    server = serve(corefile(one.address, "stale serve 2s\n        store {dir}"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    until((server.folder / "db.example.org").exists, "a copy on disk")
    one.close()
    server.stop()
    time.sleep(2.5)
    seen = len(server.log())
    server.start()
    server.wait_log(STARTED, start=seen)
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    assert errors(server) == [STALE_ANSWER]


# ---- several primaries ----


def old(seconds: int) -> Callable[[Primary, dns.message.Message], Messages | None]:
    """A primary that has not been confirmed for so long itself."""

    def script(one: Primary, request: dns.message.Message) -> Messages | None:
        if request.question[0].rdtype != 6:
            return None
        reply = one.reply(request, [one.soa()])
        left = max(0, int(one.soa()[0].expire) - seconds)
        reply.use_edns(0, options=[dns.edns.GenericOption(OPTION_EXPIRE, struct.pack(">I", left))])
        return iter([reply])

    return script


def test_a_primary_whose_zone_is_stale_gives_way(serve: Serve, primary: Callable[..., Primary]) -> None:
    first, second = primary(zone(1, "which 60 IN A 192.0.2.1\n")), primary(zone(1, "which 60 IN A 192.0.2.1\n"))
    server = serve(corefile(f"{first.address} {second.address}", "stale serve 2s"))
    server.until("which.example.org.", "A", ["192.0.2.1"])
    assert not second.asked
    first.script = old(60)
    until(lambda: "SOA" in second.asked, "the second primary is asked")
    second.add(zone(2, "which 60 IN A 192.0.2.2\n"))
    server.until("which.example.org.", "A", ["192.0.2.2"])
    assert errors(server) == []
    second.script = old(30)
    until(lambda: errors(server) == [STALE_ANSWER], "both are old")


def test_a_primary_that_is_silent_holds_no_other_back(serve: Serve) -> None:
    first, second = serve_file(serve, zone(1)), serve_file(serve, zone(1))
    server = serve(COPY.format(primaries=f"127.0.0.1:{first.port} 127.0.0.1:{second.port}", more="stale serve 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    first.signal(signal.SIGSTOP)
    until(lambda: asked(second) >= 3, "heartbeats go to the second")
    for _ in range(30):
        assert errors(server) == []
        time.sleep(0.1)
    first.signal(signal.SIGCONT)


def no_edns(one: Primary, request: dns.message.Message) -> Messages | None:
    return iter([one.reply(request, [], dns.rcode.FORMERR)]) if request.edns >= 0 and request.question[0].rdtype == 6 else None


def test_a_primary_that_does_not_know_edns(serve: Serve, primary: Callable[..., Primary]) -> None:
    one = primary(zone(1))
    one.script = no_edns
    server = serve(corefile(one.address, "stale serve 2s"))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    seen = len(one.asked)
    until(lambda: len(one.asked) > seen + 12, "heartbeats for more than two seconds")
    assert errors(server) == []


# ---- the property ----


@pytest.mark.parametrize(("text", "stale"), [("stale serve", (False, 5.0)), ("stale serve 1m", (False, 60.0)), ("stale fail 10s", (True, 10.0)), ("", None)])
def test_the_property(text: str, stale: tuple[bool, float] | None) -> None:
    block = parse(
        Controller.of(lines(f"secondary {{ transfer from 192.0.2.1 ; {text} }}" if text else "secondary { transfer from 192.0.2.1 }"), ["example.org."])
    )
    assert block.settings["example.org."].stale == stale


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stale", "Wrong argument count"),
        ("stale serve 5s 6s", "Wrong argument count"),
        ("stale never", "stale must be serve or fail: 'never'"),
        ("stale serve 1s", "stale must be at least 2s: '1s'"),
        ("stale serve -5s", "stale must be at least 2s: '-5s'"),
        ("stale serve soon", 'time: invalid duration "soon"'),
        ("stale fail", "Wrong argument count"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(lines(f"secondary {{ transfer from 192.0.2.1 ; {text} }}"), ["example.org."]))
    assert message in str(caught.value)
