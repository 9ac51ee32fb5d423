"""What lives in a debug build when a server ends: nothing of queries and connections, and no more after many reloads than after few."""

from __future__ import annotations

import re
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest

from fastdns.system import debug
from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import LIMIT

#: Of these none lives once the last query has its answer and the last client is gone.
PASSING = (
    "fastdns.engine.io.connection.connection_begin()",
    "fastdns.executor.executor.Ticket",
    "fastdns.executor.request.Ticket",
    "fastdns.engine.handshake.Handshake",
    "fastdns.tls.record.TlsStream",
    "plugins.transfer._stream.TransferStream",
    "plugins.dnssec._jobs.Job",
)
#: Of these some live, whatever the number of reloads, so many as the moment wants.
MOMENTARY = re.compile(r"running timers|_cache\._pool\.entries|_pool\.entries|_epoch|_upstream|_datagram|_connection|_metrics|Retired|_log\b")
PLUGIN = """
from fastdns.plugin import NEXT, Plugin

class Passing(Plugin):
    async def serve(self, query, next):
        return await next(query)
"""
COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    log {
        class error
    }
    prometheus 127.0.0.1:{port2}
    cache 30
    rewrite name suffix .old.test. .new.test.
    acl {
        block net 192.0.2.0/24
    }
    template IN TXT text.test {
        answer "{{ .Name }} 60 IN TXT NUMBER"
    }
    hosts {
        192.0.2.1 www.test
        fallthrough
    }
    file {dir}/db zone.test
    loadbalance
    transfer {
        to *
    }
    forward . UPSTREAM
}
"""
ZONE = "@ 300 SOA ns h NUMBER 2 3 4 60\n@ 300 NS ns\nns 300 A 192.0.2.1\n* 300 A 192.0.2.2\n"
LINE = re.compile(r"^fastdns: debug: (\S.*?): (?:(\d+) made, (-?\d+) live|(\d+) objects)$", re.M)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


def over_tcp(port: int, names: list[str]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as stream:
        for name in names:
            query = dns.message.make_query(name, "A").to_wire()
            stream.sendall(struct.pack("!H", len(query)) + query)
            (length,) = struct.unpack("!H", stream.recv(2, socket.MSG_WAITALL))
            assert len(stream.recv(length, socket.MSG_WAITALL)) == length


def numbers(server: Server) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Ends a server: its counters and its objects."""
    server.signal(signal.SIGTERM)
    assert server.exit_status() == 0
    found = LINE.findall(server.log())
    counters = {name: (int(made), int(live)) for name, made, live, _ in found if made}
    return counters, {name: int(objects) for name, _, _, objects in found if objects}


def served(serve: Callable[..., Server], upstream: Upstream, reloads: int) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    def corefile(number: int) -> str:
        return COREFILE.replace("UPSTREAM", upstream.address).replace("NUMBER", str(number))

    def prepare(folder: Path) -> None:
        (folder / "db").write_text(ZONE.replace("NUMBER", "1"))

    server = serve(corefile(0), "-workers", "1", prepare=prepare)
    for number in range(reloads + 1):
        for name in ("www.test.", "a.zone.test.", "x.zone.test.", "other.test.", "a.old.test.", f"n{number}.test."):
            server.query(name)
        server.query("text.test.", "TXT")
        over_tcp(server.port, ["www.test.", "a.zone.test.", f"t{number}.test."])
        if number < reloads:
            (server.folder / "db").write_text(ZONE.replace("NUMBER", str(number + 2)))
            server.reload(corefile(number + 1))
    server.query("www.test.")
    return numbers(server)


def test_nothing_is_left(serve: Callable[..., Server], upstream: Upstream) -> None:
    few, few_objects = served(serve, upstream, 2)
    many, many_objects = served(serve, upstream, 8)
    assert few["fastdns.engine.io.connection.connection_begin()"][0] >= 3, "what is counted at all"
    assert many["fastdns.plugins.cache._pool.entries"][0] > 0
    assert not {name: live for name, (_, live) in many.items() if live < 0}
    assert not {name: many[name] for name in PASSING if many.get(name, (0, 0))[1]}
    grown = {name: (few.get(name, (0, 0))[1], live) for name, (_, live) in many.items() if live > few.get(name, (0, 0))[1]}
    assert not {name: numbers for name, numbers in grown.items() if not MOMENTARY.search(name)}
    assert not {name: (few_objects.get(name, 0), number) for name, number in many_objects.items() if number > few_objects.get(name, 0)}


def test_the_counters_of_this_process() -> None:
    from tests.native.timers import Timers

    counters = debug.counters()
    before = counters.get("fastdns.engine.timer.running timers", (0, 0))
    timers = Timers(2, 0)
    timers.start(0, 1_000_000_000)
    made, live = debug.counters()["fastdns.engine.timer.running timers"]
    assert (made, live) == (before[0] + 1, before[1] + 1)
    timers.stop(0)
    assert debug.counters()["fastdns.engine.timer.running timers"][1] == before[1]
    zones = [name for name in debug.objects() if name.startswith("fastdns.telemetry.metrics.")]
    assert zones, "metrics are objects of an extension type"
