"""Many workers in one small cache, where entries come and go all the time: no reply is ever another name's, or torn."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import dns.message

from tests.server import Server
from tests.waiting import REPLY

NAMES = 4000


def address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def test_replies_stay_those_of_their_names(serve: Callable[..., Server], tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{address(number)} name{number}.{'long.' * (number % 5)}test\n" for number in range(NAMES)))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{{port2}}\n cache {{\n success 1024\n }}\n hosts {hosts}\n}}\n", "-workers", "4")
    # Several sockets, so that all workers get some.
    clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
    for client in clients:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(REPLY)
    queries = [bytearray(dns.message.make_query(f"name{number}.{'long.' * (number % 5)}test.", "A").to_wire()) for number in range(NAMES)]
    for number, query in enumerate(queries):
        query[:2] = number.to_bytes(2, "big")
    end = time.monotonic() + 2
    walk = checked = 0
    while time.monotonic() < end or checked < 5 * NAMES:
        for client in clients:
            for _ in range(32):
                # Some names come again soon and the others late: hits, misses and evictions.
                walk = (walk + 1237) % NAMES
                client.send(queries[walk if checked % 3 else checked % 97])
                checked += 1
        for client in clients:
            for _ in range(32):
                reply = client.recv(512)
                asked = int.from_bytes(reply[:2], "big")
                assert reply[2] & 0x87 == 0x85  # a reply, AA, RD
                assert reply[12 : len(queries[asked])] == queries[asked][12:]
                assert reply[-4:] == bytes(map(int, address(asked).split(".")))
    for client in clients:
        client.close()
    labels = f'server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."'
    assert server.metric(server.ports["port2"], f"coredns_cache_hits_total{{{labels}}}") > 100
    assert server.metric(server.ports["port2"], f"coredns_cache_evictions_total{{{labels}}}") > 100
