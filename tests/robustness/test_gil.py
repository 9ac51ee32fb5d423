"""A Python plugin that holds the GIL delays its own queries alone: every transport answers meanwhile, on new and resumed connections."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
import dns.query
from aioquic.tls import SessionTicket
from h2.events import DataReceived

from tests.certificates import client_context, write_certificates
from tests.grpc_client import client as grpc_client
from tests.quic import Client, WebClient
from tests.server import Server
from tests.server.test_doh import Two
from tests.waiting import REPLY, until

#: A call of PyDLL keeps the GIL: nothing else of Python runs in the server until something is written to the pipe.
PLUGIN = """
import ctypes
import os
from pathlib import Path
from fastdns.plugin import Plugin

class Holds(Plugin):
    zones = ["holds.test."]
    deadline = 60.0

    def serve(self, query):
        pipe = os.open("PLACE/pipe", os.O_RDWR)
        Path("PLACE/held").touch()
        ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)
        return query.reply("A 192.0.2.9")

def setup(controller):
    return Holds()
"""

ANSWERS = "tls server.pem server.key\n hosts {\n 192.0.2.1 a.test\n }\n"
COREFILE = """
.:{port} {
    bind 127.0.0.1
    health 127.0.0.1:{port2}
    hosts {
        192.0.2.1 a.test
    }
}
holds.test:{port} {
    bind 127.0.0.1
    plugin {dir}/holds.py
}
tls://.:{port3} {
    bind 127.0.0.1
    ANSWERS
}
https://.:{port4} {
    bind 127.0.0.1
    ANSWERS
}
grpc://.:{port5} {
    bind 127.0.0.1
    ANSWERS
}
quic://.:{port6} {
    bind 127.0.0.1
    ANSWERS
}
https3://.:{port7} {
    bind 127.0.0.1
    ANSWERS
}
""".replace("ANSWERS", ANSWERS)

QUERY = dns.message.make_query("a.test.", "A", id=0).to_wire()
HEAD = f"POST /dns-query HTTP/1.1\r\nHost: a\r\nContent-Type: application/dns-message\r\nContent-Length: {len(QUERY)}\r\n\r\n".encode()

#: How a connection is used: asks once, and says whether that was right.
Ask = Callable[[], bool]


def is_right(octets: bytes) -> bool:
    return [str(record) for rrset in dns.message.from_wire(octets).answer for record in rrset] == ["192.0.2.1"]


class Streams:
    """A client of one of the transports over TLS, which resumes its last session."""

    def __init__(self, server: Server, port: str, *alpn: str) -> None:
        self.server = server
        self.port = port
        self.context = client_context(server.folder, alpn=alpn)
        self.session: ssl.SSLSession | None = None

    def talk(self, connection: ssl.SSLSocket) -> Ask:
        def ask() -> bool:
            connection.sendall(len(QUERY).to_bytes(2, "big") + QUERY)
            return is_right(dns.query.receive_tcp(connection, None)[0].to_wire())

        return ask

    @contextmanager
    def connect(self, resume: bool) -> Iterator[Ask]:
        plain = socket.create_connection(("127.0.0.1", self.server.ports[self.port]), REPLY)
        with plain, self.context.wrap_socket(plain, session=self.session if resume else None) as connection:
            ask = self.talk(connection)

            def first() -> bool:
                right = ask()
                self.session = connection.session
                return right and connection.session_reused == resume

            yield first


class Http1(Streams):
    def talk(self, connection: ssl.SSLSocket) -> Ask:
        def ask() -> bool:
            connection.sendall(HEAD + QUERY)
            octets = b""
            while b"\r\n\r\n" not in octets:
                octets += connection.recv(65536)
            head, _, body = octets.partition(b"\r\n\r\n")
            size = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")))
            while len(body) < size:
                body += connection.recv(65536)
            return head.startswith(b"HTTP/1.1 200") and is_right(body)

        return ask


class Http2(Streams):
    def talk(self, connection: ssl.SSLSocket) -> Ask:
        two = Two(connection)
        streams = iter(range(1, 1000, 2))

        def ask() -> bool:
            two.request(next(streams))
            two.send()
            event = two.read(DataReceived)
            return isinstance(event, DataReceived) and is_right(event.data)

        return ask


class Quic:
    """DNS over QUIC, or over HTTP/3."""

    def __init__(self, server: Server, port: str, web: bool) -> None:
        self.port = server.ports[port]
        self.web = web
        self.ticket: SessionTicket | None = None

    @contextmanager
    def connect(self, resume: bool) -> Iterator[Ask]:
        kind = WebClient if self.web else Client
        with kind(self.port, ticket=self.ticket if resume else None) as client:

            def ask() -> bool:
                right = is_right(client.fetch(body=QUERY).body) if isinstance(client, WebClient) else is_right(client.ask(QUERY).to_wire())
                client.pump(lambda: client.tickets)
                self.ticket = client.tickets[-1]
                return right and client.quic.tls.session_resumed == resume

            yield ask


class Plain:
    """DNS over TCP."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @contextmanager
    def connect(self, resume: bool) -> Iterator[Ask]:
        with socket.create_connection(("127.0.0.1", self.server.port), REPLY) as connection:

            def ask() -> bool:
                connection.sendall(len(QUERY).to_bytes(2, "big") + QUERY)
                return is_right(dns.query.receive_tcp(connection, None)[0].to_wire())

            yield ask


class Grpc:
    def __init__(self, server: Server) -> None:
        self.server = server

    @contextmanager
    def connect(self, resume: bool) -> Iterator[Ask]:
        with grpc_client(self.server.ports["port5"], self.server.folder) as client:
            yield lambda: is_right(client.call(QUERY))


TRANSPORTS: dict[str, Callable[[Server], Streams | Quic | Plain | Grpc]] = {
    "tcp": Plain,
    "dot": lambda server: Streams(server, "port3"),
    "doh, HTTP/1.1": lambda server: Http1(server, "port4", "http/1.1"),
    "doh, HTTP/2": lambda server: Http2(server, "port4", "h2"),
    "grpc": Grpc,
    "doq": lambda server: Quic(server, "port6", False),
    "doh3": lambda server: Quic(server, "port7", True),
}


def test_every_transport_answers_without_the_gil(serve: Callable[..., Server]) -> None:
    def prepare(folder: Path) -> None:
        write_certificates(folder)
        (folder / "holds.py").write_text(PLUGIN.replace("PLACE", str(folder)))
        os.mkfifo(folder / "pipe")

    server = serve(COREFILE, prepare=prepare)
    clients = {name: make(server) for name, make in TRANSPORTS.items()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waiting:
        waiting.settimeout(REPLY)
        waiting.sendto(dns.message.make_query("holds.test.", "A", id=7).to_wire(), ("127.0.0.1", server.port))
        until((server.folder / "held").exists)
        try:
            for _ in range(3):
                assert server.answers("a.test.") == ["192.0.2.1"]
                assert "OK" in server.get(server.ports["port2"], "/health")
                for name, client in clients.items():
                    with client.connect(False) as ask:
                        assert ask(), f"a new connection: {name}"
                    with client.connect(not isinstance(client, Plain | Grpc)) as ask:
                        assert ask(), f"a resumed connection: {name}"
            assert not select.select([waiting], [], [], 0)[0]  # held all the time
        finally:
            (server.folder / "pipe").write_bytes(b"\n")
        assert dns.message.from_wire(waiting.recv(512)).id == 7
