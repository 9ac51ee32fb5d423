"""R16: the wall clock of a running server jumps by days, there and back; monotonic time goes on (clock.c)."""

from __future__ import annotations

import re
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from fastdns.testing import Upstream
from tests.dnskeys import make_key
from tests.preload import Preload, environment
from tests.programs import program
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

ROOT = Path(__file__).resolve().parent.parent.parent
DAY = 86400
COREFILE = """
.:{port} {
    bind 127.0.0.1
    health 127.0.0.1:{port2}
    timeouts {
        idle 3s
    }
    hosts {dir}/hosts example.org {
        reload 200ms
    }
    cache {
        success 1000 3600 1
    }
    forward . UPSTREAM {
        read_timeout 1s
        max_connect_attempts 1
    }
}
example.net:{port} {
    bind 127.0.0.1
    dnssec {
        key file {dir}/key
    }
    file {dir}/zone
}
"""
ZONE = "example.net. 60 IN SOA ns hostmaster 1 60 60 60 60\nexample.net. 60 IN NS ns\n*.example.net. 60 IN A 192.0.2.2\n"

#: Wall clocks say when a signature begins and ends, when a log line, a message of dnstap or a trace was written, what a SOA's serial or a metric
#: of a moment is; never how long something lives.
WALL_CLOCK = re.compile(r"\btime\(NULL\)|CLOCK_REALTIME|gettimeofday")
MAY_LOOK = {
    "fastdns/engine/http/date.pyx",
    "fastdns/engine/io/aging.pyx",  # the kernel's time of arrival is of this clock alone; an age that a step makes too large is none
    "fastdns/message/typify.pyx",
    "fastdns/expression/times.pyx",
    "fastdns/telemetry/log_line.pyx",
    "plugins/cookies/_cookies.pyx",  # the age of a cookie (RFC 9018 4.3)
    "plugins/dnssec/_dnssec.pyx",
    "plugins/dnstap/_sender.pyx",
    "plugins/etcd/_etcd.pyx",
    "plugins/forward/_taps.pyx",
    "plugins/kubernetes/store/store.pyx",
    "plugins/kubernetes/zone/changes.pyx",  # serials
    "plugins/trace/_trace.pyx",
    "plugins/tsig/_tsig.pyx",
}


def answer(query: dns.message.Message) -> dns.message.Message | None:
    """An address with a TTL of an hour, or two seconds for names that begin with ``short``; nothing for those with ``silent``."""
    name = query.question[0].name
    if name.labels[0].startswith(b"silent"):
        return None
    reply = dns.message.make_response(query)
    reply.answer.append(dns.rrset.from_text(name, 2 if name.labels[0].startswith(b"short") else 3600, "IN", "A", "192.0.2.53"))
    return reply


class Clock(NamedTuple):
    """A server, its upstream, and clock.c: it is told the seconds that the wall clock is wrong by, and counts how often that is read."""

    server: Server
    upstream: Upstream
    preload: Preload

    def jump(self, seconds: int) -> None:
        self.preload.set(seconds)

    def reads(self) -> int:
        return self.preload.count()

    def asked(self, name: str) -> int:
        """How often the upstream was asked for a name."""
        return sum(query.question[0].name.to_text() == name for query in self.upstream.seen)

    def ttl(self, name: str) -> int:
        reply = self.server.query(name)
        assert [rdata.to_text() for rrset in reply.answer for rdata in rrset] == ["192.0.2.53"]
        return reply.answer[0].ttl

    def signed(self, name: str, offset: int) -> None:
        """The signature of a name is of the wall clock's time."""
        for section in self.server.query(name, want_dnssec=True, payload=4096).answer, self.server.query("example.net", "DNSKEY", want_dnssec=True).answer:
            (signature,) = next(rrset for rrset in section if rrset.rdtype == dns.rdatatype.RRSIG)
            now = time.time() + offset
            assert signature.inception <= now <= signature.expiration, f"{name}: {signature.inception - now:+.0f} s to {signature.expiration - now:+.0f} s"


@pytest.fixture
def clock(serve: Callable[..., Server], tmp_path: Path) -> Iterator[Clock]:
    preload = Preload(Path(__file__).with_name("clock.c"), tmp_path)

    def prepare(folder: Path) -> None:
        (folder / "hosts").write_text("192.0.2.1 www.example.org\n")
        (folder / "zone").write_text(ZONE)
        make_key(folder, "example.net.", name="key")

    with Upstream(answer) as upstream:
        yield Clock(serve(COREFILE.replace("UPSTREAM", upstream.address), env=environment(preload), prepare=prepare), upstream, preload)
    preload.close()


@pytest.mark.parametrize("offset", [DAY, -DAY, 30 * DAY, -30 * DAY])
def test_R16_the_wall_clock_jumps(clock: Clock, offset: int) -> None:
    """What is kept lives as long as it would, waits end when they would, and signatures are of the new time; again when the clock jumps back."""
    server = clock.server
    for number, seconds in enumerate((offset, 0)):
        kept, short, before = (f"{name}{number}.example.com." for name in ("kept", "short", "before"))
        assert clock.ttl(kept) == 3600
        assert clock.ttl(short) == 2
        clock.signed(before.replace(".com", ".net"), 0 if number == 0 else offset)
        with socket.create_connection(("127.0.0.1", server.port), REPLY) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waiting:
            exchange(stream, "www.example.org.")
            waiting.connect(("127.0.0.1", server.port))
            begun = time.monotonic()
            waiting.send(dns.message.make_query(f"silent{number}.example.com", "A").to_wire())
            clock.jump(seconds)
            reads = clock.reads()
            assert server.get(server.ports["port2"], "/health") == "OK"
            exchange(stream, "www.example.org.")
            assert 3600 - LIMIT < clock.ttl(kept) <= 3600
            assert clock.asked(kept) == 1, "the entry lives on"
            clock.signed(before.replace(".com", ".net"), seconds)
            clock.signed(f"after{number}.example.net.", seconds)
            assert clock.reads() > reads, "the server has seen the jump"

            # The query that waits gets its SERVFAIL neither at once nor never; so do names that are asked now.
            waiting.settimeout(LIMIT)
            reply = dns.message.from_wire(waiting.recv(512))
            assert reply.rcode() == dns.rcode.SERVFAIL
            assert time.monotonic() - begun > 0.9
            begun = time.monotonic()
            assert server.query(f"silent-later{number}.example.com").rcode() == dns.rcode.SERVFAIL
            assert time.monotonic() - begun > 0.9

            # The connection ends three seconds after its last query.
            stream.settimeout(LIMIT)
            assert stream.recv(1) == b""
        until(lambda short=short: clock.ttl(short) and clock.asked(short) > 1, "the end of an entry")
        # Timers of the control side run.
        (server.folder / "hosts").write_text(f"192.0.2.1 www.example.org new{number}.example.org\n")
        server.until(f"new{number}.example.org", "A", ["192.0.2.1"])
        assert server.get(server.ports["port2"], "/health") == "OK"


def exchange(stream: socket.socket, name: str) -> None:
    """A query and its reply over TCP."""
    message = dns.message.make_query(name, "A").to_wire()
    stream.sendall(struct.pack("!H", len(message)) + message)
    assert select.select([stream], [], [], LIMIT)[0]
    assert dns.message.from_wire(stream.recv(4096)[2:]).answer


def test_R16_lifetimes_are_not_of_the_wall_clock() -> None:
    """TTLs, deadlines and timers of native code count monotonic time."""
    tracked = subprocess.run([program("git"), "ls-files", "*.pyx", "*.pxd", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    lookers = {path for path in tracked if WALL_CLOCK.search((ROOT / path).read_text())}
    assert lookers <= MAY_LOOK
