"""The group of a key exchange: the hybrid of ML-KEM and X25519 between two of us, where libssl has it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable

from fastdns.tls.context import library_version
from tests.certificates import write_certificates
from tests.server import Server
from tests.waiting import REPLY

X25519, X25519MLKEM768 = 0x001D, 0x11EC
#: RFC 8446 4.1.3: the random of a ServerHello that asks for another ClientHello.
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

COREFILE = """tls://.:{{port}} {{
    tls server.pem server.key
    whoami
}}
.:{{port2}} {{
    forward . tls://127.0.0.1:{relay} {{
        tls ca.pem
        tls_servername server.test
    }}
}}"""


class Relay:
    """A connection of TCP carried to a port, and the first octets of each side."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.target = 0
        self.seen: list[tuple[bytearray, bytearray]] = []
        self.open = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.open += [client, server]
            sides = bytearray(), bytearray()
            self.seen.append(sides)
            for source, target, copy in ((client, server, sides[0]), (server, client, sides[1])):
                threading.Thread(target=self.carry, args=(source, target, copy), daemon=True).start()

    @staticmethod
    def carry(source: socket.socket, target: socket.socket, copy: bytearray) -> None:
        try:
            while octets := source.recv(65536):
                copy += octets
                target.sendall(octets)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        for opened in reversed(self.open):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()


def hello(octets: bytes) -> tuple[bytes, dict[int, bytes]]:
    """Random and extensions of a ClientHello or ServerHello (RFC 8446 4.1) in the first record."""
    assert octets[0] == 22
    kind, body = octets[5], octets[9 : 9 + int.from_bytes(octets[6:9], "big")]
    at = 35 + body[34]
    at += 3 if kind == 2 else 2 + int.from_bytes(body[at : at + 2], "big")
    at += 0 if kind == 2 else 1 + body[at]
    at += 2
    extensions = {}
    while at < len(body):
        size = int.from_bytes(body[at + 2 : at + 4], "big")
        extensions[int.from_bytes(body[at : at + 2], "big")] = body[at + 4 : at + 4 + size]
        at += 4 + size
    return body[2:34], extensions


def test_the_hybrid_group_where_libssl_has_it(serve: Callable[..., Server]) -> None:
    version = re.match(r"OpenSSL (\d+)\.(\d+)", library_version())
    assert version
    wanted = X25519MLKEM768 if (int(version[1]), int(version[2])) >= (3, 5) else X25519
    relay = Relay()
    try:
        server = serve(COREFILE.format(relay=relay.port), prepare=write_certificates)
        relay.target = server.port
        reply = server.query("a.test.", port=int(server.ports["port2"]), timeout=REPLY)
        assert reply.additional
    finally:
        relay.close()
    client, answer = (hello(bytes(side)) for side in relay.seen[-1])
    assert int.from_bytes(client[1][10][2:4], "big") == wanted, "the first that the client offers"
    assert answer[0] != RETRY
    assert int.from_bytes(answer[1][51][:2], "big") == wanted
