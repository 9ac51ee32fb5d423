"""TLS handshakes beside the workers: slow ones, idle ones, too many of them; protocols of ALPN."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import pytest

from fastdns.engine.chains import ServerSpec, ZoneSpec
from fastdns.engine.engine import Engine
from fastdns.engine.service import Service
from fastdns.plugins.whoami._whoami import Whoami
from fastdns.tls.context import ServerContext
from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.tls.client import ask, framed, is_closed
from tests.waiting import REPLY, until

#: Of the server, fastdns/engine/handshake.pxd.
HANDSHAKES_MAX = 1000
COREFILE = "tls://.:{port} {\n tls server.pem server.key\n timeouts {\n read 1h\n }\n whoami\n}"


def open_from(server: Server, host: str, port: int = 0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port or server.port), REPLY, (host, 0))


class Slow:
    """A handshake whose octets are sent when the test wants."""

    def __init__(self, server: Server, host: str = "127.0.0.1") -> None:
        self.plain = open_from(server, host)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context(server.folder).wrap_bio(self.incoming, self.outgoing)
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        #: Octets that are to be sent.
        self.owed = self.outgoing.read()

    def send(self, count: int) -> None:
        self.plain.sendall(self.owed[:count])
        self.owed = self.owed[count:]

    def finish(self) -> dns.message.Message:
        """The rest at once, and a query."""
        while True:
            self.send(len(self.owed))
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.owed += self.outgoing.read()
                self.send(len(self.owed))
                part = self.plain.recv(65536)
                assert part, "the server has ended it"
                self.incoming.write(part)
        self.tls.write(framed(dns.message.make_query("a.test.", "A")))
        self.plain.sendall(self.outgoing.read())
        octets = b""
        while len(octets) < 2 or len(octets) < 2 + int.from_bytes(octets[:2], "big"):
            try:
                octets += self.tls.read(65536)
            except ssl.SSLWantReadError:
                part = self.plain.recv(65536)
                assert part, "the server has ended it"
                self.incoming.write(part)
        self.plain.close()
        return dns.message.from_wire(octets[2:])


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve(COREFILE, prepare=write_certificates)


def test_octet_by_octet(server: Server) -> None:
    slow = Slow(server)
    while slow.owed:
        slow.send(1)
    assert slow.finish().rcode() == dns.rcode.NOERROR


def test_the_query_comes_with_the_end_of_the_handshake(server: Server) -> None:
    """In one segment with the client's Finished, as TLS 1.3 lets a client."""
    slow = Slow(server)
    assert slow.finish().rcode() == dns.rcode.NOERROR


def test_who_holds_most_makes_room(server: Server) -> None:
    """The oldest of all belongs to somebody else, and stays."""
    slow = Slow(server)
    slow.send(100)
    silent = [open_from(server, "127.0.0.2") for _ in range(HANDSHAKES_MAX + 50)]
    until(lambda: sum(not stands(connection) for connection in silent) >= 51, "room for others")
    assert slow.finish().rcode() == dns.rcode.NOERROR
    assert ask(server).rcode() == dns.rcode.NOERROR
    assert not stands(silent[0])
    assert stands(silent[-1])
    for connection in silent:
        connection.close()


def stands(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_halves_of_handshakes_keep_nobody_out(server: Server) -> None:
    """Each has sent half of its first message."""
    halves = [Slow(server) for _ in range(300)]
    for half in halves:
        half.send(len(half.owed) // 2)
    assert ask(server).rcode() == dns.rcode.NOERROR
    assert halves[7].finish().rcode() == dns.rcode.NOERROR
    before = server.descriptors()
    for half in halves:
        half.plain.close()
    until(lambda: server.descriptors() <= before - 299, "the end of the others")


def test_an_address_that_is_no_longer_served(serve: Callable[..., Server]) -> None:
    """Who has not finished by then is not waited for."""
    server = serve(COREFILE + "\n.:{port2} {\n whoami\n}", prepare=write_certificates)
    silent, slow = open_from(server, "127.0.0.1"), Slow(server)
    slow.send(100)
    assert ask(server).rcode() == dns.rcode.NOERROR
    server.reload(".:{port2} {\n whoami\n}")
    for connection in (silent, slow.plain):
        assert is_closed(connection)
        connection.close()


# ---- protocols ----


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[[ServerContext], int]]:
    """Serves with a context; the port."""
    write_certificates(tmp_path)
    started: list[Engine] = []

    def start(context: ServerContext) -> int:
        engine = Engine(1)
        listener = engine.bind("127.0.0.1", 0, service=Service("tls", context))
        engine.publish([ServerSpec("tls://127.0.0.1", [listener], [ZoneSpec(".", [Whoami("whoami")])])])
        engine.start()
        started.append(engine)
        return int(listener.port)

    yield start
    for engine in started:
        engine.drain(1)
        engine.stop()


@pytest.mark.parametrize(
    ("strict", "offered", "agreed"),
    [
        (True, (), None),
        (True, ("dot",), "dot"),
        (True, ("other", "dot"), "dot"),
        (True, ("other",), "alert"),
        (False, ("other",), None),
        (False, ("other", "dot"), "dot"),
    ],
)
def test_protocols(engine: Callable[[ServerContext], int], tmp_path: Path, strict: bool, offered: tuple[str, ...], agreed: str | None) -> None:
    write_certificates(tmp_path)
    port = engine(ServerContext(str(tmp_path / "server.pem"), str(tmp_path / "server.key"), alpn=("dot",), strict=strict))
    with socket.create_connection(("127.0.0.1", port), REPLY) as plain:
        if agreed == "alert":
            with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
                client_context(tmp_path, alpn=offered).wrap_socket(plain)
            return
        with client_context(tmp_path, alpn=offered).wrap_socket(plain) as tls:
            assert tls.selected_alpn_protocol() == agreed
            tls.sendall(framed(dns.message.make_query("a.test.", "A")))
            assert dns.query.receive_tcp(tls, None)[0].rcode() == dns.rcode.NOERROR


def test_without_a_protocol_any_is_taken(server: Server) -> None:
    """As with CoreDNS's `tls://`."""
    with open_from(server, "127.0.0.1") as plain, client_context(server.folder, alpn=("other",)).wrap_socket(plain) as tls:
        assert tls.selected_alpn_protocol() is None
        tls.sendall(framed(dns.message.make_query("a.test.", "A")))
        assert dns.query.receive_tcp(tls, None)[0].rcode() == dns.rcode.NOERROR


# ---- beside Python's own ----

BOTH = """
import sys
{imports}
folder = sys.argv[1]
ours = ServerContext(folder + "/server.pem", folder + "/server.key", folder + "/ca.pem", "require_and_verify", ("h2",))
theirs = ssl.create_default_context(cafile=folder + "/ca.pem")
ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
accepting.load_cert_chain(folder + "/server.pem", folder + "/server.key")
(a, b), _ = ends
client, server = theirs.wrap_bio(a, b, server_hostname="server.test"), accepting.wrap_bio(b, a, server_side=True)
for _ in range(3):
    for side in (client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
ours.renew()
print(client.version(), library_version().split()[0])
"""


@pytest.mark.parametrize("order", [("import ssl", "from fastdns.tls.context import *"), ("from fastdns.tls.context import *", "import ssl")])
def test_python_s_own_library_may_be_there(tmp_path: Path, order: tuple[str, str]) -> None:
    """Before it or after it."""
    write_certificates(tmp_path)
    text = BOTH.replace("{imports}", "\n".join(order)).replace("import *", "import ServerContext, library_version")
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("TLSv1.3 OpenSSL\n", "")
