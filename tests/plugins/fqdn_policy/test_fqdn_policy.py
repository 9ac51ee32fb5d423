"""fqdn_policy: replies wait for an agent of the test's, behind a unix socket."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.fqdn_policy import parse
from fastdns.setup import Controller
from fastdns.testing import Upstream
from tests.plugins.cache.scripted import Script
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

TAKE, EXTEND, TAKEN = 1, 2, 3
COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    errors
    fqdn_policy SOCKET ZONES {
        OPTIONS
    }
    cache
    forward . UPSTREAM
}
"""
HINTS = "https.test. 300 IN HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1"


class Told(NamedTuple):
    kind: int
    ident: bytes
    client: str
    name: str
    addresses: list[tuple[str, int]]


def read(message: bytes) -> Told:
    version, kind, count, ident, family, zero, length, other = struct.unpack_from("!BBH8sBBBB", message)
    assert (version, zero, other) == (1, 0, 0)
    client = message[16:32]
    assert family == 6 or not any(client[4:])
    labels, at = [], 32
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode())
        at += 1 + message[at]
    assert at + 1 == 32 + length
    at += 1
    addresses = []
    for _ in range(count):
        ttl, kind_of = struct.unpack_from("!IB", message, at)
        size = 4 if kind_of == 4 else 16
        addresses.append((str(ip_address(message[at + 5 : at + 5 + size])), ttl))
        at += 5 + size
    assert at == len(message)
    return Told(kind, ident, str(ip_address(client[:4] if family == 4 else client)), ".".join(labels) + ".", addresses)


class Agent:
    """Takes what it is told, while `taking`; `told` has all of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[Told] = []
        self.taking = threading.Event()
        self.taking.set()
        self.connections: list[socket.socket] = []
        self.answer = lambda told: struct.pack("!BBH8s", 1, TAKEN, 0, told.ident)

    def __enter__(self) -> Agent:
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.taking.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.leave()

    def leave(self) -> None:
        for connection in self.connections:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while message := connection.recv(1 << 17):
                told = read(message)
                self.told.append(told)
                self.taking.wait()
                if told.kind == TAKE:
                    try:
                        connection.send(self.answer(told))
                    except OSError:
                        return


@contextmanager
def running(serve: Serve, tmp_path: Path, options: str = "", zones: str = "", *args: str) -> Iterator[tuple[Server, Agent, Script]]:
    script = Script()
    with Agent(tmp_path / "agent") as agent, Upstream(script) as upstream:
        text = COREFILE.replace("SOCKET", str(agent.path)).replace("ZONES", zones).replace("OPTIONS", options).replace("UPSTREAM", upstream.address)
        yield serve(text, *(args or ("-workers", "1"))), agent, script


def results(server: Server) -> dict[str, int]:
    text = server.get(server.ports["port2"], "/metrics")
    found = re.findall(r'fastdns_fqdn_policy_replies_total\{result="(\w+)",server="[^"]*"\} (\d+)', text)
    return {name: int(count) for name, count in found if int(count)}


def test_the_agent_has_the_addresses_before_the_client(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, agent, script):
        script.say("www.test.", ["www.test. 60 IN CNAME a.other.", "a.other. 300 IN A 192.0.2.7", "a.other. 300 IN A 192.0.2.8"])
        order: list[str] = []
        agent.answer = lambda told: (order.append("agent"), struct.pack("!BBH8s", 1, TAKEN, 0, told.ident))[1]
        assert server.answers("wWw.test.") == ["192.0.2.7", "192.0.2.8", "a.other."]
        order.append("client")
        assert order == ["agent", "client"]
        assert [told[2:4] for told in agent.told] == [("127.0.0.1", "www.test.")]
        assert sorted(agent.told[0].addresses) == [("192.0.2.7", 60), ("192.0.2.8", 60)]
        assert results(server) == {"taken": 1}
        assert server.metric(server.ports["port2"], f'fastdns_fqdn_policy_wait_seconds_count{{server="dns://127.0.0.1:{server.port}"}}') == 1
        assert server.metric(server.ports["port2"], f'fastdns_fqdn_policy_connections{{socket="{agent.path}"}}') == 1


def test_a_reply_waits_and_others_do_not(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path, "timeout 50ms\n fail closed") as (server, agent, script):
        script.say("text.test.", ["text.test. 300 IN TXT x"])
        script.say("none.test.", authority=["test. 60 IN SOA ns.test. admin.test. 1 2 3 4 9000"], rcode="NXDOMAIN")
        agent.taking.clear()
        began = time.monotonic()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(server.query, "a.test.")
            until(lambda: agent.told, "a message")
            assert server.query("none.test.").rcode() == dns.rcode.NXDOMAIN
            assert server.query("text.test.", "TXT").rcode() == dns.rcode.NOERROR
            assert waiting.result().rcode() == dns.rcode.SERVFAIL
        assert time.monotonic() - began >= 0.05
        agent.taking.set()
        server.wait_log("the policy agent was late")
        assert results(server) == {"late": 1}
        assert server.answers("a.test.") == ["192.0.2.1"]  # from the cache, and it waits again
        assert results(server) == {"late": 1, "taken": 1}


def test_what_is_known_does_not_wait(serve: Serve, tmp_path: Path) -> None:
    """For this client, name and address."""
    with running(serve, tmp_path) as (server, agent, script):
        for _ in range(3):
            server.query("a.test.")
        assert len(agent.told) == 1
        server.query("a.test.", source="127.0.0.2")
        server.query("b.test.")
        assert [told[2:4] for told in agent.told] == [("127.0.0.1", "a.test."), ("127.0.0.2", "a.test."), ("127.0.0.1", "b.test.")]
        script.say("c.test.", ["c.test. 5 IN A 192.0.2.1"])
        server.query("c.test.")
        script.say("c.test.", ["c.test. 5 IN A 192.0.2.1", "c.test. 5 IN A 192.0.2.9"])
        time.sleep(5.2)
        server.query("c.test.")
        assert len(agent.told) == 5
        assert [told.kind for told in agent.told] == [TAKE] * 5


def test_a_longer_life_is_told_without_waiting(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, agent, script):
        script.say("a.test.", ["a.test. 5 IN A 192.0.2.1"])
        server.query("a.test.")
        time.sleep(2.1)
        agent.taking.clear()
        # Another type of the same name, with the address as a hint: not from the cache.
        script.say("a.test.", ["a.test. 300 IN HTTPS 1 . ipv4hint=192.0.2.1"])
        assert server.query("a.test.", "HTTPS").answer
        until(lambda: len(agent.told) == 2, "the second message")
        assert agent.told[1][0] == EXTEND
        assert agent.told[1].addresses == [("192.0.2.1", 300)]
        assert results(server) == {"taken": 1, "known": 1}


def test_addresses_of_all_kinds(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, agent, script):
        script.say("https.test.", [HINTS], additional=["https.test. 300 IN A 192.0.2.3"])
        script.say("v6.test.", ["v6.test. 300 IN AAAA 2001:db8::7"], authority=["test. 300 IN NS ns.test."], additional=["ns.test. 300 IN A 192.0.2.4"])
        server.query("https.test.", "HTTPS")
        server.query("v6.test.", "AAAA", tcp=True)
        wanted = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.3", "2001:db8::7", "192.0.2.4"]
        assert [address for told in agent.told for address, _ in told.addresses] == wanted


def test_many_addresses(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, agent, script):
        script.say("many.test.", [f"many.test. 300 IN A 10.0.{index // 256}.{index % 256}" for index in range(3000)])
        assert len(server.answers("many.test.", tcp=True)) == 3000
        assert len({address for address, _ in agent.told[0].addresses}) == 3000


def test_zones(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path, zones="example.org") as (server, agent, _):
        for name in ("a.test.", "a.example.org.", "example.org."):
            server.query(name)
        assert [told.name for told in agent.told] == ["a.example.org.", "example.org."]


# ---- without an agent ----


@pytest.mark.timing
@pytest.mark.parametrize(("mode", "rcode"), [("open", dns.rcode.NOERROR), ("closed", dns.rcode.SERVFAIL)])
def test_no_agent_and_then_one(serve: Serve, tmp_path: Path, mode: str, rcode: int) -> None:
    with running(serve, tmp_path, f"fail {mode}") as (server, agent, script):
        script.say("text.test.", ["text.test. 300 IN TXT x"])
        server.query("a.test.")
        agent.__exit__()
        lost = f'fastdns_fqdn_policy_lost_connections_total{{socket="{agent.path}"}}'
        until(lambda: server.metric(server.ports["port2"], lost) == 1, "the loss")
        assert server.query("a.test.").rcode() == rcode  # what was known is forgotten
        assert server.query("text.test.", "TXT").rcode() == dns.rcode.NOERROR
        assert results(server)["unavailable"] == 1
        with Agent(agent.path) as other:
            time.sleep(0.11)
            assert server.answers("a.test.") == ["192.0.2.1"]
            assert [told.name for told in other.told] == ["a.test."]


@pytest.mark.parametrize(("mode", "rcode"), [("open", dns.rcode.NOERROR), ("closed", dns.rcode.SERVFAIL)])
def test_an_agent_that_leaves_while_replies_wait(serve: Serve, tmp_path: Path, mode: str, rcode: int) -> None:
    with running(serve, tmp_path, f"fail {mode}\n timeout 50ms") as (server, agent, _), ThreadPoolExecutor() as pool:
        agent.answer = lambda told: (agent.leave(), b"")[1]
        assert pool.submit(server.query, "a.test.").result().rcode() == rcode
        until(lambda: results(server) == {"unavailable": 1}, "the reply")


@pytest.mark.timing
@pytest.mark.parametrize("answer", [b"\2\3\0\0" + bytes(8), b"\1\1\0\0" + bytes(8), b"\1\3", b"x" * 1000])
def test_what_is_no_acknowledgement_ends_the_connection(serve: Serve, tmp_path: Path, answer: bytes) -> None:
    with running(serve, tmp_path) as (server, agent, _):
        agent.answer = lambda _: answer
        assert server.answers("a.test.") == ["192.0.2.1"]
        assert results(server) == {"unavailable": 1}
        assert server.metric(server.ports["port2"], f'fastdns_fqdn_policy_lost_connections_total{{socket="{agent.path}"}}') == 1


def test_ids_that_nobody_waits_for(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path, "fail closed") as (server, agent, _):
        others = b"".join(struct.pack("!BBHII", 1, TAKEN, 0, uses, place) for uses in (0, 2, 7, 2**32 - 1) for place in (0, 1, 1023, 1024, 2**32 - 1))
        agent.answer = lambda told: others + struct.pack("!BBH8s", 1, TAKEN, 0, told.ident) * 2
        assert server.answers("a.test.") == ["192.0.2.1"]
        assert results(server) == {"taken": 1}


def test_a_client_that_floods_keeps_nobody_out(serve: Serve, tmp_path: Path) -> None:
    """Two replies may wait, and one network has both: its older one goes for that of another network. On a busy machine all may be late; then once more."""
    with running(serve, tmp_path, "fail closed\n waiting 2") as (server, agent, _):
        for attempt in range(20):
            questions = [(f"{name}{attempt}.test.", source) for name, source in (("one", "127.0.0.8"), ("two", "127.0.0.9"), ("other", "127.0.1.1"))]
            for name, _source in questions:
                server.query(name, source="127.0.2.2")  # the cache has it
            late = results(server).get("late", 0)
            agent.taking.clear()
            sockets = []
            for name, source in questions:
                sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sockets[-1].bind((source, 0))
                sockets[-1].settimeout(REPLY)
                sockets[-1].sendto(dns.message.make_query(name, "A").to_wire(), ("127.0.0.1", server.port))
            time.sleep(0.015)  # until the server has all three
            agent.taking.set()
            codes = [dns.message.from_wire(one.recv(65535)).rcode() for one in sockets]
            for one in sockets:
                one.close()
            if results(server).get("late", 0) == late and dns.rcode.SERVFAIL in codes:
                assert codes == [dns.rcode.SERVFAIL, dns.rcode.NOERROR, dns.rcode.NOERROR]
                break
        else:
            pytest.fail("no reply had to go for another one")
        until(lambda: server.metric(server.ports["port2"], f'fastdns_fqdn_policy_waiting{{socket="{agent.path}"}}') == 0, "none that waits")


def test_a_flood_of_new_names_does_not_stand_before_others(serve: Serve, tmp_path: Path) -> None:
    """The agent needs 400 ms for what one client asks at once; the reply of another client is in time, at least once on a busy machine."""
    with running(serve, tmp_path, "fail closed") as (server, agent, _):
        names = [f"n{number}.test." for number in range(200)]
        for name in (*names, "other.test."):
            server.query(name, source="127.0.2.2")  # the cache has it
        agent.answer = lambda told: (time.sleep(0.002), struct.pack("!BBH8s", 1, TAKEN, 0, told.ident))[1]
        for attempt in range(10):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
                flood.bind((f"127.3.0.{attempt + 1}", 0))
                for name in names:
                    flood.sendto(dns.message.make_query(name, "A").to_wire(), ("127.0.0.1", server.port))
                if server.query("other.test.", source=f"127.4.{attempt}.1").rcode() == dns.rcode.NOERROR:
                    break
        else:
            pytest.fail("the other client's replies were late")
        waiting = f'fastdns_fqdn_policy_waiting{{socket="{agent.path}"}}'
        until(lambda: server.metric(server.ports["port2"], waiting) == 0, "none that waits")


def test_an_agent_that_acknowledges_nothing_for_a_while(serve: Serve, tmp_path: Path) -> None:
    """What it has leaves the window after a second, and what comes too late has no effect."""
    with running(serve, tmp_path, "fail closed\n timeout 50ms") as (server, agent, _):
        agent.taking.clear()
        for number in range(20):
            assert server.query(f"a{number}.test.").rcode() == dns.rcode.SERVFAIL
        agent.taking.set()
        until(lambda: server.query("b.test.").rcode() == dns.rcode.NOERROR, "an answer in time")


def test_many_queries_and_a_reload(serve: Serve, tmp_path: Path) -> None:
    """No reply is lost, whichever worker it is of."""
    with running(serve, tmp_path, "fail closed", "", "-workers", "2") as (server, agent, _), ThreadPoolExecutor(16) as pool:
        found = [pool.submit(server.answers, f"a{index}.test.") for index in range(400)]
        server.reload(server.corefile.read_text().replace("fail closed", "fail closed\n waiting 2048"))
        found += [pool.submit(server.answers, f"b{index}.test.") for index in range(400)]
        assert [one.result() for one in found].count(["192.0.2.1"]) >= 790  # a busy machine may be late for some
        until(lambda: server.metric(server.ports["port2"], f'fastdns_fqdn_policy_waiting{{socket="{agent.path}"}}') == 0, "none that waits")
        until(lambda: server.metric(server.ports["port2"], f'fastdns_fqdn_policy_connections{{socket="{agent.path}"}}') <= 2, "the former connections' end")


def test_the_agent_of_the_readme(serve: Serve, tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "plugins" / "fqdn_policy" / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", readme, re.S)
    assert program is not None
    path = tmp_path / "socket"
    (tmp_path / "agent.py").write_text(program[1])
    with Upstream() as upstream, subprocess.Popen([sys.executable, str(tmp_path / "agent.py"), str(path)], stdout=subprocess.PIPE, text=True) as agent:
        try:
            until(path.exists, "the agent")
            text = COREFILE.replace("SOCKET", str(path)).replace("ZONES", "").replace("OPTIONS", "fail closed").replace("UPSTREAM", upstream.address)
            server = serve(text, "-workers", "1")
            until(lambda: server.answers("a.test.") == ["192.0.2.53"], "an answer")
            assert agent.stdout is not None
            words = agent.stdout.readline().split()
            assert words[:3] == ["127.0.0.1", "a.test.", "192.0.2.53"]
        finally:
            agent.terminate()


# ---- the directive ----


def test_the_directive() -> None:
    settings = parse(Controller.of("fqdn_policy /run/agent.sock example.org {\n timeout 20ms\n fail closed\n waiting 7\n}"))
    assert (settings.path, settings.zones, settings.timeout, settings.closed, settings.waiting) == ("/run/agent.sock", ["example.org."], 20_000_000, True, 7)
    settings = parse(Controller.of("fqdn_policy /run/agent.sock"))
    assert (settings.zones, settings.timeout, settings.closed, settings.waiting) == (["."], 50_000_000, False, 1024)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fqdn_policy", "Wrong argument count"),
        (f"fqdn_policy /{'x' * 107}", "the path of a unix socket has at most 107 octets"),
        ("fqdn_policy /a {\n timeout 51ms\n}", "timeout must be between 1ms and 50ms: 51ms"),
        ("fqdn_policy /a {\n timeout 0s\n}", "timeout must be between 1ms and 50ms: 0s"),
        ("fqdn_policy /a {\n fail ajar\n}", "fail must be open or closed: ajar"),
        ("fqdn_policy /a {\n waiting 0\n}", "waiting must be between 1 and 4096: 0"),
        ("fqdn_policy /a {\n other\n}", "unknown property 'other'"),
        ("fqdn_policy /a\nfqdn_policy /b", "can only be used once"),
    ],
)
def test_errors_of_the_directive(text: str, error: str) -> None:
    with pytest.raises(CorefileError, match=error):
        parse(Controller.of(text))
