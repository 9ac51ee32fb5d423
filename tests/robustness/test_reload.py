"""Configurations change and end under load, and no query notices (R9, R10).

FASTDNS_RELOADS=100 FASTDNS_RATE=20000 runs the full size. The rate is what is tried: the window keeps a machine that is too slow for it
from losing queries in full sockets, which would say nothing of reloads.
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
from tests.engine.test_tcp import framed, read_reply
from tests.load import Load
from tests.server import Server
from tests.waiting import LIMIT, until

RELOADS = int(os.environ.get("FASTDNS_RELOADS", "15"))
RATE = int(os.environ.get("FASTDNS_RATE", "4000"))
WINDOW = 256
#: Queries that each configuration answers at least.
EACH = 100

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
            connection.settimeout(LIMIT)
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
        before = server.descriptors(), server.threads()
        waiting = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        waiting.connect(("127.0.0.1", server.port))
        load, stream = Load(server.port, RATE, 200, window=WINDOW), Stream(server.port)
        start = time.monotonic()
        for number in range(3, 3 + RELOADS):
            waiting.send(dns.message.make_query(f"{number}.waits.example.", "A").to_wire())
            # Another address comes and goes as well.
            more = "other.:{port2} {\n bind 127.0.0.1\n whoami\n}\n" if number % 2 else ""
            server.reload(numbered(number, upstream.address, more))
            until(lambda number=number: load.newest == number, "the next configuration")  # type: ignore[misc]
            answered, asked = load.answered, stream.asked
            until(lambda answered=answered: load.answered >= answered + EACH)  # type: ignore[misc]
            until(lambda asked=asked: stream.asked > asked + 1 or not stream.is_alive())  # type: ignore[misc]
            if number % 5 == 0:
                at = len(server.log())
                server.write("nonsense {\n")
                server.signal(signal.SIGUSR1)
                server.wait_log("Restart failed|Error during parsing|Syntax error|failed", start=at)
        took = time.monotonic() - start
        result = load.result()
        stream.going = False
        stream.join(LIMIT)
        print(f"{RELOADS} reloads in {took:.1f} s at {RATE} queries a second: {result}; TCP: {stream.asked} asked")
        assert (result["lost"], result["wrong"], result["newest"]) == (0, 0, 2 + RELOADS), result
        assert stream.wrong == 0
        # Those that waited for a silent upstream are answered too, by the configuration that they came to.
        waiting.settimeout(LIMIT)
        rcodes = [waiting.recv(512)[3] & 15 for _ in range(RELOADS)]
        assert rcodes == [2] * RELOADS
        server.reload(numbered(3 + RELOADS, upstream.address))
        until(lambda: server.descriptors() <= before[0] + 2 and server.threads() <= before[1] + 1, "the end of what reloads replaced")


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

    signalled = threading.Event()

    def slow(query: dns.message.Message) -> dns.message.Message:
        signalled.wait(LIMIT)
        reply = dns.message.make_response(query)
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.53"))
        return reply

    with Upstream(slow) as upstream:
        server = serve(numbered(1, upstream.address))
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            sock = closing(socket.socket(socket.AF_INET, kind))
            sock.settimeout(LIMIT)
            sock.connect(("127.0.0.1", server.port))
            query = dns.message.make_query("slow.example.", "A").to_wire()
            sock.sendall(struct.pack("!H", len(query)) + query if kind == socket.SOCK_STREAM else query)
            if kind == socket.SOCK_DGRAM:
                datagram = sock
        until(lambda: len(upstream.seen) >= 2)
        server.signal(signal.SIGTERM)
        server.wait_log("SIGTERM: Shutting down")
        signalled.set()
        assert dns.message.from_wire(datagram.recv(512)).answer
        reply = read_reply(sock)
        assert reply is not None
        assert reply.answer
        assert server.exit_status() == 0, "which it is not when five seconds were not enough"


def test_an_address_that_is_left_ends_its_connections(serve: Callable[..., Server], tmp_path: Path, closing: Callable[[socket.socket], socket.socket]) -> None:
    """What they asked is answered; a later address is never served through them, though it may have the number of the old one."""
    (tmp_path / "slow.py").write_text(SLOW)
    both = ".:{port} {\n bind 127.0.0.1\n whoami\n}\nold.:{port2} {\n bind 127.0.0.1\n plugin {dir}/../slow.py\n}\n"
    server = serve(both)
    idle, busy, half = (closing(socket.create_connection(("127.0.0.1", server.ports["port2"]))) for _ in range(3))
    for connection in (idle, busy, half):
        connection.settimeout(LIMIT)
    half.sendall(framed("700.old.", 5)[:9])
    busy.sendall(framed("700.old.", 5))
    server.wait_log("asked")
    server.reload(both.split("old.")[0] + "new.:{port3} {\n bind 127.0.0.1\n whoami\n}\n")
    assert idle.recv(1) == b""
    assert half.recv(1) == b""
    reply = read_reply(busy)
    assert reply is not None
    assert reply.answer
    assert busy.recv(1) == b""
    assert server.query("x.new.", port=server.ports["port3"], tcp=True).additional

    def closed() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.ports["port2"])).close()
        except ConnectionRefusedError:
            return True
        return False

    until(closed, "that the address is closed")


CONFIGURED = """
def setup(controller):
    controller.next()
    controller.config.write_timeout = float(controller.remaining_args()[0])
"""


def test_a_connection_keeps_its_time_to_write_though_another_address_gets_its_number(
    serve: Callable[..., Server], tmp_path: Path, closing: Callable[[socket.socket], socket.socket]
) -> None:
    (tmp_path / "timeouts.py").write_text(CONFIGURED)
    stays = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port1}\n whoami\n}\n"
    server = serve(stays + "old.:{port2} {\n bind 127.0.0.1\n plugin {dir}/../timeouts.py 3\n whoami\n}\n")
    connection = closing(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.ports["port2"]))
    connection.setblocking(False)
    asked = framed("x" * 60 + "." + "y" * 60 + ".old.", 1) * 500
    sent = 0

    def blocked() -> bool:
        """Neither side takes any more."""
        nonlocal sent
        before = sent
        try:
            sent += connection.send(asked)
        except BlockingIOError:
            time.sleep(0.1)
        return sent == before and sent > 0

    until(blocked)
    server.reload(stays)

    def closed() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.ports["port2"])).close()
        except ConnectionRefusedError:
            return True
        return False

    until(closed)
    server.reload(stays + "new.:{port3} {\n bind 127.0.0.1\n plugin {dir}/../timeouts.py 600\n whoami\n}\n")
    assert server.query("x.new.", port=server.ports["port3"], tcp=True).additional
    assert server.metric(server.ports["port1"], "fastdns_tcp_connections") <= 2
    until(lambda: server.metric(server.ports["port1"], "fastdns_tcp_connections") == 0, "the end of the old connection")


SLOW = """
import asyncio
from fastdns.plugin import Log, Plugin

log = Log()

class Slow(Plugin):
    async def serve(self, query, next):
        log.info("asked")
        await asyncio.sleep(int(query.name.split(".")[0]) / 1000)
        return query.reply("A 192.0.2.2")

def setup(controller):
    return Slow()
"""
