"""Configurations change and end under load, and no query notices (R9, R10).

FASTDNS_RELOADS=100 FASTDNS_RATE=20000 runs the full size.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dns.message
import dns.rrset
import pytest

from fastdns.testing import Upstream
from tests.load import Load
from tests.server import Server
from tests.test_tcp import framed, read_reply

RELOADS = int(os.environ.get("FASTDNS_RELOADS", "15"))
RATE = int(os.environ.get("FASTDNS_RATE", "4000"))

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    loadbalance
    cache 30
    hosts {
        NUMBER www.example.org
        ttl 1
        fallthrough
    }
    forward . UPSTREAM {
        read_timeout 3s
    }
}
"""


def numbered(number: int, upstream: str, more: str = "") -> str:
    address = "10." + ".".join(map(str, number.to_bytes(3, "big")))
    return COREFILE.replace("NUMBER", address).replace("UPSTREAM", upstream) + more


def resources(server: Server) -> tuple[int, int]:
    """Descriptors and threads of the server."""
    process = Path(f"/proc/{server.process.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def silent(query: dns.message.Message) -> None:
    """An upstream that keeps queries waiting over several reloads."""


class Stream(threading.Thread):
    """Asks over one TCP connection, one question after the other; `wrong` counts what is not an answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.going = True
        self.asked = self.wrong = 0
        self.start()

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.settimeout(5)
            while self.going:
                self.asked += 1
                connection.sendall(framed("www.example.org.", self.asked & 0xFFFF))
                reply = read_reply(connection)
                if reply is None or reply.id != self.asked & 0xFFFF or not reply.answer:
                    self.wrong += 1
                    return
                time.sleep(0.002)


@pytest.mark.timeout(300)
def test_R9_reload_storm(serve: Callable[..., Server], closing: Callable[[socket.socket], socket.socket]) -> None:
    """Not a query is lost or answered from a configuration that is gone, over UDP and TCP; nothing is left behind."""
    with Upstream(silent) as upstream:
        server = serve(numbered(1, upstream.address))
        server.reload(numbered(2, upstream.address))
        before = resources(server)
        waiting = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        waiting.connect(("127.0.0.1", server.port))
        load, stream = Load(server.port, RATE, 200), Stream(server.port)
        time.sleep(0.5)
        start = time.monotonic()
        for number in range(3, 3 + RELOADS):
            waiting.send(dns.message.make_query(f"{number}.waits.example.", "A").to_wire())
            # Another address comes and goes as well.
            more = "other.:{port2} {\n bind 127.0.0.1\n whoami\n}\n" if number % 2 else ""
            server.reload(numbered(number, upstream.address, more))
            time.sleep(0.05)
            if number % 5 == 0:
                at = len(server.log())
                server.write("nonsense {\n")
                server.signal(signal.SIGUSR1)
                server.wait_log("Restart failed|Error during parsing|Syntax error|failed", start=at)
        took = time.monotonic() - start
        result = load.result()
        stream.going = False
        stream.join(10)
        print(f"{RELOADS} reloads in {took:.1f} s at {RATE} queries a second: {result}; TCP: {stream.asked} asked")
        # What the kernel dropped because nobody was let read is the machine's loss.
        assert (max(0, result["lost"] - result["drops"]), result["wrong"]) == (0, 0), result
        assert result["newest"] == 2 + RELOADS
        assert result["sent"] >= 0.9 * RATE * took
        assert (stream.wrong, stream.asked > 50) == (0, True)
        # Those that waited for a silent upstream are answered too, by the configuration that they came to.
        waiting.settimeout(12)
        rcodes = [waiting.recv(512)[3] & 15 for _ in range(RELOADS)]
        assert rcodes == [2] * RELOADS
        server.reload(numbered(3 + RELOADS, upstream.address))
        end = time.monotonic() + 10
        while (after := resources(server)) > before and time.monotonic() < end:
            time.sleep(0.1)
        assert after[0] <= before[0] + 2
        assert after[1] <= before[1] + 1


def test_R9_a_bad_corefile_keeps_the_old_one(serve: Callable[..., Server]) -> None:
    server = serve(numbered(7, "127.0.0.1:1"))
    for text in (".:{port} {\n hosts\n", ".:{port} {\n nonsense\n}\n", ".:{port} {\n forward\n}\n"):
        at = len(server.log())
        server.write(text)
        server.signal(signal.SIGUSR1)
        server.wait_log(r"SIGUSR1: .+\n(.*\n)*.*(rror|failed)", start=at)
        assert server.answers("www.example.org.") == ["10.0.0.7"]


def test_R10_SIGTERM_answers_what_is_under_way(serve: Callable[..., Server], closing: Callable[[socket.socket], socket.socket]) -> None:
    """A query that waits for its upstream has its answer, and the process ends well within five seconds."""

    def slow(query: dns.message.Message) -> dns.message.Message:
        time.sleep(0.7)
        reply = dns.message.make_response(query)
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.53"))
        return reply

    with Upstream(slow) as upstream:
        server = serve(numbered(1, upstream.address))
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            sock = closing(socket.socket(socket.AF_INET, kind))
            sock.settimeout(5)
            sock.connect(("127.0.0.1", server.port))
            query = dns.message.make_query("slow.example.", "A").to_wire()
            sock.sendall(struct.pack("!H", len(query)) + query if kind == socket.SOCK_STREAM else query)
            if kind == socket.SOCK_DGRAM:
                datagram = sock
        time.sleep(0.2)
        start = time.monotonic()
        server.signal(signal.SIGTERM)
        assert dns.message.from_wire(datagram.recv(512)).answer
        reply = read_reply(sock)
        assert reply is not None
        assert reply.answer
        assert server.exit_status() == 0
        assert time.monotonic() - start < 5


def test_an_address_that_is_left_ends_its_connections(serve: Callable[..., Server], tmp_path: Path, closing: Callable[[socket.socket], socket.socket]) -> None:
    """What they asked is answered; a later address is never served through them, though it may have the number of the old one."""
    (tmp_path / "slow.py").write_text(SLOW)
    both = ".:{port} {\n bind 127.0.0.1\n whoami\n}\nold.:{port2} {\n bind 127.0.0.1\n plugin {dir}/../slow.py\n}\n"
    server = serve(both)
    idle, busy, half = (closing(socket.create_connection(("127.0.0.1", server.ports["port2"]))) for _ in range(3))
    for connection in (idle, busy, half):
        connection.settimeout(5)
    busy.sendall(framed("700.old.", 5))
    half.sendall(framed("700.old.", 5)[:9])
    time.sleep(0.2)
    server.reload(both.split("old.")[0] + "new.:{port3} {\n bind 127.0.0.1\n whoami\n}\n")
    assert idle.recv(1) == b""
    assert half.recv(1) == b""
    reply = read_reply(busy)
    assert reply is not None
    assert reply.answer
    assert busy.recv(1) == b""
    assert server.query("x.new.", port=server.ports["port3"], tcp=True).additional
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", server.ports["port2"])).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise AssertionError("the address is still open")


SLOW = """
import asyncio
from fastdns.plugin import Plugin

class Slow(Plugin):
    async def serve(self, query, next):
        await asyncio.sleep(int(query.name.split(".")[0]) / 1000)
        return query.reply("A 192.0.2.2")

def setup(controller):
    return Slow()
"""
