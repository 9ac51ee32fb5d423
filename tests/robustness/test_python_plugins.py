"""Plugins in Python that err in every way harm their own queries only (R17)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from tests.server import Server

IMPATIENT = """
import asyncio
from fastdns.plugin import Plugin

class Impatient(Plugin):
    zones = ["impatient.example."]
    deadline = 60.0

    async def serve(self, query, next):
        what = query.name.split(".")[0]
        if what == "renamed":
            await next(query, name="other.example.", qtype=16)
            return query.reply("A 192.0.2.7")
        try:
            async with asyncio.timeout(0 if what == "never" else 0.01):
                return await next(query)
        except TimeoutError:
            if what == "raise":
                raise RuntimeError("too slow") from None
            if what == "again":
                return await next(query)
            return query.reply("A 192.0.2.8")

def setup(controller):
    return Impatient()
"""

SLOW = """
import asyncio
from fastdns.plugin import Plugin

class Slow(Plugin):
    deadline = 60.0

    async def serve(self, query, next):
        await asyncio.sleep(300 if query.name.startswith("dead.") else 0.1)
        return query.reply("A 192.0.2.9")

def setup(controller):
    return Slow()
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    plugin {dir}/../impatient.py
    plugin {dir}/../short.py
    plugin {dir}/../slow.py
}
"""


@pytest.fixture
def server(serve: Callable[..., Server], tmp_path: Path) -> Server:
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    (tmp_path / "short.py").write_text(IMPATIENT.replace("impatient.example.", "short.example.").replace("60.0", "0.5"))
    (tmp_path / "slow.py").write_text(SLOW)
    return serve(COREFILE)


def test_R17_a_plugin_that_does_not_wait_for_the_plugins_below(server: Server) -> None:
    """Its answer leaves once they are through: the query is theirs until then."""
    for what in ("never", "soon"):
        assert server.answers(f"{what}.impatient.example.") == ["192.0.2.8"]
    assert server.answers("raise.impatient.example.") == ["SERVFAIL"]
    assert server.answers("again.impatient.example.") == ["SERVFAIL"]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: server.answers(f"{'never' if i % 2 else 'soon'}.{i}.impatient.example."), range(300)))
    assert answers == [["192.0.2.8"]] * 300
    assert server.answers("dead.short.example.") == ["SERVFAIL"], "long before those below have their deadline"
    assert server.answers("a.other.example.") == ["192.0.2.9"]
    server.process.kill()  # which does not wait for them


def test_R17_a_query_is_its_own_again_after_another_was_asked_below(server: Server) -> None:
    reply = server.query("renamed.impatient.example.")
    assert [rrset.to_text() for rrset in reply.answer] == ["renamed.impatient.example. 3600 IN A 192.0.2.7"]


BIG = """
import struct
from fastdns.plugin import Plugin

class Big(Plugin):
    def serve(self, query):
        count = int(query.name.split(".")[0]) if query.name != "." else 60
        owner = b"\\0" if query.name.endswith("root.") or query.name == "." else query.name_wire
        records = b"".join(owner + struct.pack("!HHIHI", 1, 1, 5, 4, i) for i in range(count))
        return struct.pack("!6H", 0, 0x8400, 1, count, 0, 0) + query.name_wire + struct.pack("!HH", query.qtype, 1) + records

def setup(controller):
    return Big()
"""


@pytest.mark.parametrize("name", ["root.", "example.org."])
def test_R17_replies_of_any_number_of_records(serve: Callable[..., Server], tmp_path: Path, name: str) -> None:
    """Tiny records fill the table before the arena: the reply moves into a large buffer while one is being made."""
    (tmp_path / "big.py").write_text(BIG)
    server = serve(".:{port} {\n    bind 127.0.0.1\n    plugin {dir}/../big.py\n}\n")
    for count in (1, 19, 20, 21, 22, 100, 2000, 4000 if name == "root." else 1500):
        reply = server.query(f"{count}.{name}", tcp=True)
        assert sum(len(rrset) for rrset in reply.answer) == count
        reply = server.query(f"{count}.{name}")
        assert len(reply.to_wire()) <= 512
        assert bool(reply.flags & dns.flags.TC) == (sum(len(rrset) for rrset in reply.answer) < count)


BEFORE = """
from fastdns.plugin import Plugin

before = "transfer"

class Before(Plugin):
    deadline = 60.0

    async def serve(self, query, next):
        return await next(query)

def setup(controller):
    return Before()
"""

PROVIDER = """
import struct
from fastdns.index.index import Index
from fastdns._wire import name_wire
from fastdns.plugin import Plugin
from fastdns.plugins.transfer import Transfer

ZONE = Index("example.org.")
SOA = name_wire("ns.example.org.") + name_wire("admin.example.org.") + struct.pack("!5I", 1, 3600, 600, 86400, 60)
ZONE.put("example.org.", [(6, 300, SOA)])

class Zones(Plugin):
    zones = ("nothing.asked.",)

    def transfer(self, zone, serial):
        return Transfer.of_index(ZONE, serial) if zone == name_wire("example.org.") else None

def setup(controller):
    return Zones()
"""


def test_R17_a_transfer_inside_of_another_query(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A plugin above `transfer` that asks below gets a refusal at once, and no query is left behind."""
    (tmp_path / "before.py").write_text(BEFORE)
    (tmp_path / "provider.py").write_text(PROVIDER)
    zone = "transfer example.org {\n to *\n }\n"
    server = serve(".:{port} {\n bind 127.0.0.1\n plugin {dir}/../before.py\n" + zone + " plugin {dir}/../provider.py\n whoami\n}\n")
    for _ in range(20):
        query = dns.message.make_query("example.org.", "AXFR")
        reply = server.send(query, tcp=True)
        assert reply.rcode() == dns.rcode.REFUSED
        assert server.query("a.example.net.").additional
