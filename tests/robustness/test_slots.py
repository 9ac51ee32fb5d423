"""All slots are taken: who is evicted, and who is not."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rrset
import pytest

from fastdns._wire import name_wire
from tests.server import Server
from tests.waiting import LIMIT, until

SLOTS = 4096
KNOWN = """
known.example:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    hosts {
        192.0.2.1 known.example
    }
}
"""
FORWARD = """
%s:{port} {
    bind 127.0.0.1
    forward . %s {
        read_timeout 10s
    }
}
"""
KNOWN_ID = 0xFFFF


class Held:
    """An upstream that answers questions below held.example when it is told to, and others never."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self.sock.settimeout(0.1)
        self.closing = False
        self.asked: dict[bytes, tuple[bytes, tuple[str, int]]] = {}
        self.thread = threading.Thread(target=self.receive)
        self.thread.start()

    def receive(self) -> None:
        while not self.closing:
            try:
                octets, client = self.sock.recvfrom(512)
            except TimeoutError:
                continue
            if b"\4held\7example\0" in octets:
                self.asked[octets[12:]] = octets, client

    def take(self, number: int) -> None:
        """Waits for so many questions."""
        until(lambda: len(self.asked) >= number, f"that {number} questions come")

    def answer(self, first: int = 0, end: int | None = None) -> None:
        for octets, client in list(self.asked.values())[first:end]:
            query = dns.message.from_wire(octets)
            reply = dns.message.make_response(query)
            reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.53"))
            self.sock.sendto(reply.to_wire(), client)

    def close(self) -> None:
        self.closing = True
        self.thread.join()
        self.sock.close()


class Client:
    """Asks and does not wait; 127.0.`network`.`host` is its address."""

    def __init__(self, server: Server, network: int, host: int) -> None:
        self.received: list[int] = []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((f"127.0.{network}.{host}", 0))
        self.sock.connect(("127.0.0.1", server.port))
        self.sock.settimeout(LIMIT)

    def ask(self, zone: str, start: int, number: int) -> None:
        for i in range(start, start + number):
            self.sock.send(struct.pack("!6H", i, 0x0100, 1, 0, 0, 0) + name_wire(f"n{i}.{zone}.") + b"\0\1\0\1")
            if i % 64 == 63:
                self.wait()
        self.wait()

    def wait(self) -> None:
        """Until the server has read what was sent. It reads in order."""
        self.sock.send(struct.pack("!6H", KNOWN_ID, 0x0100, 1, 0, 0, 0) + name_wire("known.example.") + b"\0\1\0\1")
        while (reply := self.sock.recv(512))[:2] != b"\xff\xff":
            self.received.append(reply[3] & 15)
        assert reply[3] & 15 == 0

    def rcodes(self, number: int) -> Counter[int]:
        """Of the first so many replies."""
        while len(self.received) < number:
            self.received.append(self.sock.recv(512)[3] & 15)
        return Counter(self.received[:number])


Clients = Callable[..., Client]
Serve = Callable[..., Server]


@pytest.fixture
def held() -> Iterator[Held]:
    upstream = Held()
    yield upstream
    upstream.close()


@pytest.fixture
def silent(closing: Callable[[socket.socket], socket.socket]) -> str:
    """The address of an upstream that never answers."""
    sock = closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{sock.getsockname()[1]}"


@pytest.fixture
def clients(closing: Callable[[socket.socket], socket.socket]) -> Clients:
    def make(server: Server, network: int = 0, host: int = 1) -> Client:
        client = Client(server, network, host)
        closing(client.sock)
        return client

    return make


def flood_from(networks: list[Client], start: int, number: int) -> None:
    """Random names, as many from each."""
    share = number // len(networks)
    for i, client in enumerate(networks):
        client.ask("silent.example", start + i * share, share)


def evicted(server: Server, name: str = "fastdns_evicted_queries_total") -> float:
    return server.metric(server.ports["port2"], name)


def test_a_silent_upstream_takes_no_slots_of_another(serve: Serve, held: Held, silent: str, clients: Clients) -> None:
    """Random names for one upstream fill the slots. Who waits for another one has come before all of them, and stays, whoever asks."""
    server = serve(KNOWN + FORWARD % ("silent.example", silent) + FORWARD % ("held.example", held.address), "-workers", "1")
    waits, floods = clients(server), clients(server, 1)
    waits.ask("held.example", 0, 10)
    floods.ask("held.example", 10, 10)
    held.take(20)
    floods.ask("silent.example", 100, SLOTS + 500)
    held.answer()
    assert waits.rcodes(10) == {0: 10}
    until(lambda: floods.rcodes(len(floods.received) + 1)[0] == 10)
    assert evicted(server, f'fastdns_proxy_evicted_total{{proxy_name="forward",to="{silent}"}}') == evicted(server) > 500
    server.process.kill()  # which waits for no query


def test_only_what_is_above_a_share_is_evicted(serve: Serve, held: Held, silent: str, clients: Clients) -> None:
    """Of two upstreams the one with more queries loses some, also where those of the other are older and many."""
    server = serve(KNOWN + FORWARD % ("silent.example", silent) + FORWARD % ("held.example", held.address), "-workers", "1")
    waits, floods = clients(server), clients(server, 1)
    for start in range(0, 1500, 100):
        waits.ask("held.example", start, 100)
        held.take(start + 100)
    floods.ask("silent.example", 1500, SLOTS)
    for answered in range(0, 1500, 100):
        held.answer(answered, answered + 100)
        assert waits.rcodes(answered + 100) == {0: answered + 100}
    server.process.kill()


def test_many_networks_take_no_slots_of_another_upstream(serve: Serve, held: Held, silent: str, clients: Clients) -> None:
    """From however many networks a flood comes, or says that it comes: what it waits for is looked at first."""
    server = serve(KNOWN + FORWARD % ("silent.example", silent) + FORWARD % ("held.example", held.address), "-workers", "1")
    waits = clients(server)
    waits.ask("held.example", 0, 50)
    held.take(50)
    flood_from([clients(server, network) for network in range(1, 201)], 100, SLOTS + 504)
    held.answer()
    assert waits.rcodes(50) == {0: 50}
    server.process.kill()


@pytest.mark.parametrize("network", [0, 1])
def test_who_floods_takes_no_slots_of_others_of_the_upstream(serve: Serve, held: Held, clients: Clients, network: int) -> None:
    """Of an upstream's queries those of the network that holds most are evicted, and of a network's those of the address that does."""
    server = serve(KNOWN + FORWARD % ("example", held.address), "-workers", "1")
    waits, floods = clients(server), clients(server, network, 2)
    waits.ask("held.example", 0, 20)
    held.take(20)
    floods.ask("silent.example", 100, SLOTS + 500)
    held.answer()
    assert waits.rcodes(20) == {0: 20}
    server.process.kill()


def test_many_networks_do_not_make_an_honest_one_the_largest(serve: Serve, held: Held, clients: Clients) -> None:
    """Forged addresses: each network has a few queries, one client has more than any, and no large part of the slots. The oldest are evicted, whose ever."""
    server = serve(KNOWN + FORWARD % ("example", held.address), "-workers", "1")
    waits = clients(server)
    networks = [clients(server, network) for network in range(1, 201)]
    flood_from(networks, 100, 1000)
    waits.ask("held.example", 0, 100)
    held.take(100)
    flood_from(networks, 2000, SLOTS - 696)
    assert 600 <= evicted(server) < 700
    held.answer()
    assert waits.rcodes(100) == {0: 100}
    server.process.kill()


def test_zones_of_one_upstream(serve: Serve, held: Held, clients: Clients) -> None:
    """Of an upstream's queries those of the zone that holds most are evicted, also where one client asks for all."""
    server = serve(KNOWN + FORWARD % ("silent.example:{port} held.example", held.address), "-workers", "1")
    client = clients(server)
    client.ask("held.example", 0, 20)
    held.take(20)
    client.ask("silent.example", 100, SLOTS + 500)
    held.answer()
    until(lambda: client.rcodes(len(client.received) + 1)[0] == 20)
    server.process.kill()


def test_who_is_asked_again_elsewhere_waits_there(serve: Serve, held: Held, silent: str, clients: Clients) -> None:
    """Once another upstream is asked a query competes with those that wait for that one, also while slots are fought for."""
    both = (FORWARD % ("held.example", f"{silent} {held.address}")).replace("10s", "4s\n        policy sequential\n        max_fails 0")
    server = serve(KNOWN + FORWARD % ("silent.example", silent) + both, "-workers", "1")
    waits, floods = clients(server), clients(server, 1)
    floods.ask("silent.example", 100, SLOTS + 200)
    assert evicted(server) >= 100
    waits.ask("held.example", 0, 20)
    held.take(20)  # after four seconds
    floods.ask("held.example", 5000, SLOTS + 500)
    held.answer()
    assert waits.rcodes(20)[0] == 20
    server.process.kill()


SLOW = """
import asyncio
from fastdns.plugin import Plugin

class Slow(Plugin):
    deadline = 60.0

    async def serve(self, query, next):
        if ".python" in query.name:
            await asyncio.sleep(300)
        return await next(query)

def setup(controller):
    return Slow()
"""


@pytest.mark.timing
@pytest.mark.parametrize("waiting", ["held.example", "plain.held.example"])
def test_a_python_plugin_takes_no_slots_of_others(serve: Serve, held: Held, silent: str, clients: Clients, tmp_path: Path, waiting: str) -> None:
    """Three plugins that do not answer fill the slots; the executor of one has fewer places."""
    blocks = KNOWN + FORWARD % ("plain.held.example", held.address)
    for i, (zone, upstream) in enumerate({"python0": silent, "python1": silent, "python2": silent, "held": held.address}.items()):
        (tmp_path / f"slow{i}.py").write_text(SLOW)
        blocks += (FORWARD % (f"{zone}.example", upstream)).replace("    forward", f"    plugin {{dir}}/../slow{i}.py\n    forward")
    server = serve(blocks, "-workers", "1")
    client = clients(server)
    client.ask(waiting, 0, 20)
    held.take(20)
    for i in range(3):
        for j in range(3):
            client.ask(f"python{j}.example", 100 + 5000 * j + 500 * i, 500)
    held.answer()
    until(lambda: client.rcodes(len(client.received) + 1)[0] == 20)
    assert evicted(server, 'fastdns_plugin_evicted_total{plugin="slow0"}') > 50
    server.process.kill()


@pytest.mark.timing
def test_who_waits_behind_a_plugin_competes_with_those_that_wait_for_the_same(serve: Serve, held: Held, silent: str, clients: Clients, tmp_path: Path) -> None:
    """All of them wait in one plugin for what the upstreams below answer: it is the upstream that counts, and a query of the plugin stands for two slots."""
    (tmp_path / "slow.py").write_text(SLOW)
    blocks = KNOWN + (FORWARD % ("example", held.address)).replace("forward .", "plugin {dir}/../slow.py\n    forward held.example")
    server = serve(
        blocks.replace("    forward held", f"    forward silent.example {silent} {{\n        read_timeout 10s\n    }}\n    forward held"), "-workers", "1"
    )
    client = clients(server)
    client.ask("held.example", 0, 20)
    held.take(20)
    for start in range(100, 2100, 500):
        client.ask("silent.example", start, 500)

    def is_full() -> bool:
        client.wait()  # each query that is read evicts one, once the plugin has asked for all
        return evicted(server) > 50

    until(is_full)
    held.answer()
    until(lambda: client.rcodes(len(client.received) + 1)[0] == 20)
    assert evicted(server, f'fastdns_proxy_evicted_total{{proxy_name="forward",to="{silent}"}}') == evicted(server)
    server.process.kill()
