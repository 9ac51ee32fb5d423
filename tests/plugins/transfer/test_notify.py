"""NOTIFY out: when, to whom, how often."""

from __future__ import annotations

import errno
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from fastdns.plugins.transfer._notifies import PATIENCE, TRIES, Notifies
from tests.server import Server
from tests.waiting import LIMIT, until

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
    assert len(first.ports) == 2  # one each time


def test_who_refuses_is_asked_three_times(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    refusing, slow = peer(5), peer(2, 0)
    server = begin(serve, f"{refusing.address} {slow.address}")
    text = f'notify for zone "example.org." was not accepted by "{refusing.address}": rcode was "REFUSED"'
    server.wait_log(re.escape(f"[WARNING] plugin/file: Failed sending notifies: {text}"))
    assert len(refusing.messages) == 3
    until(lambda: len(slow.messages) == 2)


def test_who_is_silent_is_asked_again(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    silent = peer(None, 0)
    server = begin(serve, silent.address)
    until(lambda: len(silent.messages) == 2)
    assert "Failed" not in server.log()


def test_a_port_that_is_closed_is_told(serve: Callable[..., Server], peer: Callable[..., Peer]) -> None:
    """By ICMP, at once. The others are told meanwhile."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    accepting = peer(0)
    server = begin(serve, f"{address} {accepting.address}")
    server.wait_log(rf'not accepted by \\?"{address}\\?".*->{address}: connection refused')
    until(lambda: accepting.messages)


def test_thousands_of_addresses_are_told(serve: Callable[..., Server]) -> None:
    """Each once, by one socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        one.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
        one.bind(("0.0.0.0", 0))
        one.settimeout(LIMIT)
        port = one.getsockname()[1]
        addresses = [f"127.7.{number // 250}.{number % 250 + 1}" for number in range(3000)]
        begin(serve, " ".join(f"{address}:{port}" for address in addresses))
        told: list[str] = []
        senders = set()
        while len(told) < len(addresses):
            packet, control, _, sender = one.recvmsg(512, 128)
            senders.add(sender)
            told.append(socket.inet_ntoa(control[0][2][8:12]))
            reply = dns.message.make_response(dns.message.from_wire(packet))
            info = b"\0\0\0\0" + control[0][2][8:12] + b"\0\0\0\0"
            one.sendmsg([reply.to_wire()], [(socket.IPPROTO_IP, 8, info)], 0, sender)
        assert sorted(told) == sorted(addresses)
        assert len(senders) == 1


def test_a_change_before_the_answer_is_told_after_it() -> None:
    """One NOTIFY is under way at a time; what changes meanwhile, however often, is one more."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(LIMIT)
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        notifies = Notifies(sock.fileno(), b"\x07example\x03org\x00", [(b"\x7f\0\0\1", peer.getsockname()[1], 0)])
        assert notifies.step() is None
        notifies.begin()
        wait = notifies.step()
        assert wait is not None
        assert 1.5 < wait <= PATIENCE
        first, sender = peer.recvfrom(512)
        for _ in range(5):
            notifies.begin()
            notifies.step()
        assert not readable(peer)
        peer.sendto(first[:2] + b"\xa0\0" + bytes(8), ("127.0.0.1", 9))  # not to the server
        other = bytes([first[0] ^ 1]) + first[1:2]
        peer.sendto(other + b"\xa0\0" + bytes(8), sender)  # another id
        peer.sendto(first[:2] + b"\xa0\0" + bytes(8), sender)
        until(lambda: readable(sock))
        assert notifies.step() is not None
        second, _ = peer.recvfrom(512)
        assert second[12:] == first[12:]
        peer.sendto(second[:2] + b"\xa0\0" + bytes(8), sender)
        until(lambda: notifies.step() is None)
        assert notifies.failures() == []
        notifies.begin()
        notifies.step()
        for _ in range(TRIES):
            third, _ = peer.recvfrom(512)
            peer.sendto(third[:2] + b"\xa0\x05" + bytes(8), sender)
            until(lambda: readable(sock))
            notifies.step()
        assert notifies.failures() == [(0, 0, 5)]
        assert notifies.step() is None


def test_ipv6() -> None:
    """An answer belongs to the address and port that it comes from."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        peer.bind(("::1", 0))
        peer.settimeout(LIMIT)
        sock.setblocking(False)
        octets, port = bytes(15) + b"\1", peer.getsockname()[1]
        notifies = Notifies(sock.fileno(), b"\0", [(octets, port, 0), (octets, 9, 0)])
        notifies.begin()
        notifies.step()
        packet, sender = peer.recvfrom(512)
        assert packet[2:] == b"\x24\0\0\1\0\0\0\0\0\0\0\0\6\0\1"
        peer.sendto(packet[:2] + b"\xa4\0" + packet[4:], sender)
        until(lambda: notifies.step() is None)  # nobody listens on the other port, which ICMP tells
        assert notifies.failures() == [(1, errno.ECONNREFUSED, 0)]


def readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])
