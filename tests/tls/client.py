"""A client of DNS over TLS."""

from __future__ import annotations

import socket
import ssl
import struct

import dns.message
import dns.query

from tests.certificates import client_context
from tests.server import Server
from tests.waiting import REPLY

__all__ = ["ask", "connect", "framed", "is_closed", "read"]


def connect(server: Server, certificate: str = "", port: int = 0, attempts: int = 1) -> ssl.SSLSocket:
    """``attempts``: where the server gives little time, which a busy machine may not keep to at once."""
    for attempts_left in reversed(range(attempts)):
        plain = socket.create_connection(("127.0.0.1", port or server.port), REPLY)
        try:
            return client_context(server.folder, certificate).wrap_socket(plain)
        except OSError:
            plain.close()
            if not attempts_left:
                raise
    raise AssertionError


def framed(*messages: dns.message.Message) -> bytes:
    return b"".join(struct.pack(">H", len(octets)) + octets for octets in (message.to_wire() for message in messages))


def read(connection: socket.socket) -> dns.message.Message:
    return dns.query.receive_tcp(connection, None)[0]


def ask(server: Server, name: str = "a.test.", certificate: str = "", port: int = 0) -> dns.message.Message:
    with connect(server, certificate, port) as connection:
        connection.sendall(framed(dns.message.make_query(name, "A")))
        return read(connection)


def is_closed(connection: socket.socket) -> bool:
    """Waits for the end of the connection."""
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True
