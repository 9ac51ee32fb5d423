"""Reloads leave nothing of the configurations that were replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import LIMIT, until

#: Counts its objects, and and keeps some memory.
PLUGIN = """

import sys
import weakref
from fastdns.plugin import Plugin

if not hasattr(sys, "counted"):
    sys.counted = weakref.WeakSet()

class Counted(Plugin):
    zones = ["counted.test."]

    def __init__(self):
        self.me = self
        self.names = bytearray(b"x") * MEMORY
        sys.counted.add(self)

    def serve(self, query):
        return query.reply(f"TXT {len(sys.counted)}", ttl=0)

before = "cache"

def setup(controller):
    plugin = Counted()
    for register in (controller.on_startup, controller.on_shutdown, controller.on_restart):
        register(lambda: (plugin, controller))
    return plugin
"""
#: Directives that can stand together, and whose set-up needs nothing outside.
COREFILE = """.:{port} {
    bind 127.0.0.1
    metadata
    cancel 5s
    reload 30s
    nsid one
    bufsize 1232
    prometheus 127.0.0.1:{port2}
    ready 127.0.0.1:{port3}
    health 127.0.0.1:{port4}
    errors
    log
    cookies
    rrl
    shed
    slo 99% 5ms
    latency 1ms
    local
    any
    acl {
        block net 192.0.2.0/24
    }
    rewrite name a.test b.test
    header {
        response set ra
    }
    minimal
    loadbalance
    cache
    blocklist {dir}/blocked.txt
    template IN A t.test {
        answer "t.test. 5 IN A 192.0.2.1"
    }
    hosts {
        192.0.2.2 h.test
    }
    file {dir}/zone.db z.test
    transfer z.test {
        to *
    }
    plugin {dir}/counted.py
    forward . 127.0.0.1:{port}
}
"""
ZONE = "@ 60 IN SOA ns hostmaster 1 60 60 60 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.3\n"


def start(serve: Callable[..., Server], memory: int) -> Server:
    def prepare(folder: Path) -> None:
        (folder / "counted.py").write_text(PLUGIN.replace("MEMORY", str(memory)))
        (folder / "blocked.txt").write_text("".join(f"0.0.0.0 b{number}.test\n" for number in range(20_000)))
        (folder / "zone.db").write_text(ZONE)

    return serve(COREFILE, prepare=prepare)


def count(server: Server) -> int:
    """Live plugin objects of all configurations."""
    return int(server.answers("counted.test.", "TXT", timeout=LIMIT)[0].strip('"'))


def test_reloads_leave_no_plugin(serve: Callable[..., Server]) -> None:
    server = start(serve, 0)
    for _ in range(4):
        server.reload(COREFILE)
    until(lambda: count(server) == 1)
    # A configuration that is refused, too.
    server.write(COREFILE.replace("forward .", "forward . nonsense"))
    before = len(re.findall("SIGUSR1: starting", server.log()))
    server.signal(10)
    until(lambda: len(re.findall("SIGUSR1: starting", server.log())) > before)
    until(lambda: count(server) == 1)


def resident(server: Server) -> int:
    """Octets."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.memory
def test_memory_after_reloads(serve: Callable[..., Server]) -> None:
    """At most 1.1 times what it is after the first, and one copy of the configuration's memory."""
    memory = 20 << 20
    server = start(serve, memory)
    server.reload(COREFILE)
    until(lambda: count(server) == 1)
    first = resident(server)
    for _ in range(12):
        server.reload(COREFILE)
    until(lambda: resident(server) < 1.1 * first + memory)
    assert count(server) == 1
