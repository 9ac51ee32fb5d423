"""NOTIFY out: when, to whom, how often."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from tests.server import Server
from tests.waiting import until

ZONE = "$TTL 60\n@ IN SOA ns host {serial} 3600 600 86400 60\n@ IN NS ns\nns IN A 192.0.2.1\n"

COREFILE = """example.org:{{port}} {{
    transfer {{
        to {to}
    }}
    file {{path}} {{
        reload 1s
    }}
}}
"""


class Peer:
    """Takes NOTIFYs, and answers them (or not) with the rcodes of a list, the last one from then on."""

    def __init__(self, *rcodes: int | None) -> None:
        self.rcodes = list(rcodes)
        self.messages: list[dns.message.Message] = []
        self.ports: set[int] = set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                packet, sender = self.socket.recvfrom(65535)
            except OSError:
                return
            message = dns.message.from_wire(packet)
            rcode = self.rcodes.pop(0) if len(self.rcodes) > 1 else self.rcodes[0]
            self.messages.append(message)
            self.ports.add(sender[1])
            if rcode is not None:
                reply = dns.message.make_response(message)
                reply.set_rcode(dns.rcode.Rcode.make(rcode))
                try:
                    self.socket.sendto(reply.to_wire(), sender)
                except OSError:
                    return


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(*rcodes: int | None) -> Peer:
        peers.append(Peer(*rcodes))
        return peers[-1]

    yield make
    for one in peers:
        one.socket.close()


def begin(serve: Callable[..., Server], to: str) -> Server:
    return serve(COREFILE.format(to=to).replace("{path}", "db"), prepare=lambda folder: (folder / "db").write_text(ZONE.format(serial=1)))


def test_peers_are_told_at_the_start_and_of_changes(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    first, second = peer(0), peer(0)
    server = begin(serve, f"{first.address} * {second.address}")
    until(lambda: first.messages and second.messages)
    message = first.messages[0]
    assert message.opcode() == dns.opcode.NOTIFY
    assert message.flags & dns.flags.AA
    assert [(q.name.to_text(), q.rdtype) for q in message.question] == [("example.org.", 6)]
    (server.folder / "db").write_text(ZONE.format(serial=2))
    until(lambda: len(first.messages) == 2 and len(second.messages) == 2)
    assert len(first.ports) == 2


def test_who_refuses_is_asked_three_times(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    refusing, slow = peer(5), peer(2, 0)
    server = begin(serve, f"{refusing.address} {slow.address}")
    text = f'notify for zone "example.org." was not accepted by "{refusing.address}": rcode was "REFUSED"'
    server.wait_log(re.escape(f"[WARNING] plugin/file: Failed sending notifies: {text}"))
    assert len(refusing.messages) == 3
    assert len(slow.messages) == 2


def test_who_is_silent_is_asked_again(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    silent = peer(None, 0)
    server = begin(serve, silent.address)
    until(lambda: len(silent.messages) == 2)
    assert "Failed" not in server.log()
