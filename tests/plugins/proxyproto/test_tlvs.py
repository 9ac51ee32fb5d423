"""The label `proxyproto/tlv`, through sockets: on each transport, with TLVs of all kinds, over reloads, and for all who read labels."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dns.message
import pytest

from fastdns.testing import Upstream
from tests.certificates import client_context, write_certificates
from tests.grpc_client import client as grpc_client
from tests.proxying import BLOCK_MAX, LOCAL, PROXY, TCP4, UDP4, UNIX, UNSPEC, binary, block, text, tlv
from tests.quic import Client, WebClient, query
from tests.server import Server
from tests.tls.client import framed, read
from tests.waiting import LIMIT

Serve = Callable[..., Server]

#: A reply with the label, behind a T: each query tells the TLVs of its client.
TEMPLATE = r"""
    template IN TXT {
        answer "{{ .Name }} 0 IN TXT \"T{{ .Meta \"proxyproto/tlv\" }}\""
    }
"""
COREFILE = """
%s.:{port} {
    bind 127.0.0.1
    metadata
    proxyproto {
        %s
    }
    %s
    log . "TLV {name} {/proxyproto/tlv}"
"""
TLVS = tlv(1, b"dot") + tlv(0xEA, b"\x01vpce-1")
OTHERS = tlv(0xE3, b"\x00\xff" * 20)

QUESTION = dns.message.make_query("a.", "TXT", id=0)


def corefile(options: str = "tlv_metadata", scheme: str = "", tls: bool = False, below: str = TEMPLATE) -> str:
    return COREFILE % (scheme, options, "tls server.pem server.key" if tls else "", *()) + below + "}\n"


def told(reply: dns.message.Message) -> str:
    """The label that the server saw; "" where it was unset."""
    (rrset,) = reply.answer
    found: bytes = rrset[0].strings[0]
    assert found.startswith(b"T")
    return found[1:].decode()


@contextmanager
def datagrams(server: Server) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(LIMIT)
        yield sock


def by_datagram(sock: socket.socket, header: bytes, name: str = "a.") -> str:
    sock.send(header + dns.message.make_query(name, "TXT").to_wire())
    return told(dns.message.from_wire(sock.recv(65536)))


def over_udp(server: Server, header: bytes, count: int = 1) -> list[str]:
    with datagrams(server) as sock:
        return [by_datagram(sock, header) for _ in range(count)]


def connected(server: Server, header: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), LIMIT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(header)
    return connection


def over_tcp(server: Server, header: bytes, count: int = 1) -> list[str]:
    with connected(server, header) as connection:
        connection.sendall(framed(*[QUESTION] * count))
        return [told(read(connection)) for _ in range(count)]


def over_tls(server: Server, header: bytes, count: int = 1) -> list[str]:
    with connected(server, header) as connection, client_context(server.folder).wrap_socket(connection) as tls:
        tls.sendall(framed(*[QUESTION] * count))
        return [told(read(tls)) for _ in range(count)]


def over_https(server: Server, header: bytes, count: int = 1) -> list[str]:
    body = QUESTION.to_wire()
    request = b"POST /dns-query HTTP/1.1\r\nHost: server.test\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    found = []
    with connected(server, header) as connection, client_context(server.folder).wrap_socket(connection) as tls:
        for _ in range(count):
            tls.sendall(request)
            octets = b""
            while b"\r\n\r\n" not in octets:
                octets += received(tls)
            head, _, rest = octets.partition(b"\r\n\r\n")
            length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")).split(b":")[1])
            while len(rest) < length:
                rest += received(tls)
            found.append(told(dns.message.from_wire(rest)))
    return found


def received(stream: socket.socket) -> bytes:
    part = stream.recv(65536)
    assert part
    return part


def over_grpc(server: Server, header: bytes, count: int = 1) -> list[str]:
    with relay(server, header) as port, grpc_client(port) as caller:
        return [told(caller.query("a.", "TXT")) for _ in range(count)]


def over_quic(server: Server, header: bytes, count: int = 1) -> list[str]:
    with Client(server.port, header=header) as client:
        return [told(client.ask(query("a.", "TXT"))) for _ in range(count)]


def over_https3(server: Server, header: bytes, count: int = 1) -> list[str]:
    with WebClient(server.port, header=header) as client:
        return [told(dns.message.from_wire(client.fetch(body=query("a.", "TXT")).body)) for _ in range(count)]


@contextmanager
def relay(server: Server, header: bytes) -> Iterator[int]:
    """The port of a proxy that sends the header before what a client sends, for clients that cannot."""
    ends: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while octets := source.recv(65536):
                target.sendall(octets)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = connected(server, header)
                far.settimeout(None)
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threads.append(threading.Thread(target=pump, args=pair))
                    threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for end in ends:
                end.close()


TRANSPORTS = pytest.mark.parametrize(
    ("scheme", "ask", "udp"),
    [
        pytest.param("", over_udp, True, id="udp"),
        pytest.param("", over_tcp, False, id="tcp"),
        pytest.param("tls://", over_tls, False, id="tls"),
        pytest.param("https://", over_https, False, id="https"),
        pytest.param("grpc://", over_grpc, False, id="grpc"),
        pytest.param("quic://", over_quic, True, id="quic"),
        pytest.param("https3://", over_https3, True, id="https3"),
    ],
)

Ask = Callable[..., list[str]]


def started(serve: Serve, scheme: str, options: str = "tlv_metadata", below: str = TEMPLATE) -> Server:
    return serve(corefile(options, scheme, scheme not in ("", "grpc://"), below), prepare=write_certificates)


@TRANSPORTS
def test_each_transport(serve: Serve, scheme: str, ask: Ask, udp: bool) -> None:
    """All queries of a connection have the TLVs of its header; without TLVs, or without a header, there is no label."""
    server = started(serve, scheme)
    assert ask(server, binary("192.0.2.7", udp=udp, tlvs=TLVS), 3) == [TLVS.hex()] * 3
    assert ask(server, binary("2001:db8::7", udp=udp, tlvs=OTHERS)) == [OTHERS.hex()]
    assert ask(server, binary("192.0.2.7", udp=udp), 2) == [""] * 2
    assert ask(server, b"") == [""]
    assert ask(server, block(LOCAL, UNSPEC, TLVS)) == [""]
    assert ask(server, block(LOCAL, UDP4 if udp else TCP4, bytes(12) + TLVS)) == [""]


@TRANSPORTS
def test_only_headers_that_count(serve: Serve, scheme: str, ask: Ask, udp: bool) -> None:
    header = binary("192.0.2.7", udp=udp, tlvs=TLVS)
    server = started(serve, scheme, "tlv_metadata\n allow 127.0.0.1/32")
    assert ask(server, header) == [TLVS.hex()]
    server.reload(corefile("tlv_metadata\n allow 192.0.2.1/32", scheme, scheme not in ("", "grpc://")))
    assert ask(server, header) == [""]


@TRANSPORTS
def test_a_reload_turns_it_on_and_off(serve: Serve, scheme: str, ask: Ask, udp: bool) -> None:
    header = binary("192.0.2.7", udp=udp, tlvs=TLVS)
    tls = scheme not in ("", "grpc://")
    server = started(serve, scheme, "")
    for options, label in (("", ""), ("tlv_metadata", TLVS.hex()), ("default use", ""), ("tlv_metadata", TLVS.hex())):
        server.reload(corefile(options, scheme, tls))
        assert ask(server, header) == [label]
    server.reload(corefile("tlv_metadata", scheme, tls).replace("metadata\n    proxyproto", "proxyproto"))
    assert ask(server, header) == [""]


#: TLVs of a header, and what is published of them.
VECTORS = [
    (tlv(5, b""), tlv(5, b"")),
    (tlv(0, b"") + tlv(255, b"\0") + tlv(0x77, b"?"), tlv(0, b"") + tlv(255, b"\0") + tlv(0x77, b"?")),
    # A no-op is padding: CoreDNS drops its value.
    (tlv(4, bytes(50)), tlv(4, b"")),
    (tlv(4, b"x") + tlv(1, b"h2") + tlv(4, b"") + tlv(4, bytes(20)), tlv(4, b"") + tlv(1, b"h2") + tlv(4, b"") * 2),
    (tlv(0x20, b"\1\0\0\0\0" + tlv(0x21, b"TLSv1.3")), tlv(0x20, b"\1\0\0\0\0" + tlv(0x21, b"TLSv1.3"))),
    (tlv(0xE0, b"a") * 30, tlv(0xE0, b"a") * 30),
    # Malformed: nothing is published, and the header counts.
    (b"\1", b""),
    (b"\1\0", b""),
    (b"\1\0\1", b""),
    (b"\1\xff\xff", b""),
    (tlv(1, b"dot") + b"\2\0\5host", b""),
    (tlv(4, b"")[:2], b""),
    (tlv(1, b"dot") + b"\0", b""),
]


@pytest.mark.parametrize(("tlvs", "kept"), VECTORS)
def test_vectors(serve: Serve, tlvs: bytes, kept: bytes) -> None:
    server = started(serve, "")
    assert over_udp(server, binary("192.0.2.7", udp=True, tlvs=tlvs)) == [kept.hex()]
    assert over_tcp(server, binary("192.0.2.7", tlvs=tlvs), 2) == [kept.hex()] * 2


def test_headers_of_unix_sockets(serve: Serve) -> None:
    server = started(serve, "")
    assert over_tcp(server, block(PROXY, UNIX, bytes(216) + TLVS)) == [TLVS.hex()]
    assert over_tcp(server, text("192.0.2.7")) == [""]


def test_a_header_in_pieces(serve: Serve) -> None:
    server = started(serve, "")
    header = binary("192.0.2.7", tlvs=TLVS)
    with connected(server, b"") as connection:
        for octet in header:
            connection.sendall(bytes((octet,)))
        connection.sendall(framed(QUESTION))
        assert told(read(connection)) == TLVS.hex()


def test_sessions(serve: Serve) -> None:
    """What comes later without a header has the TLVs of the session's, until another header comes."""
    server = started(serve, "", "tlv_metadata\n udp_session_tracking 1h")
    with datagrams(server) as sock:
        assert by_datagram(sock, b"") == ""
        sock.send(binary("192.0.2.7", udp=True, tlvs=TLVS))
        assert [by_datagram(sock, b"") for _ in range(3)] == [TLVS.hex()] * 3
        assert by_datagram(sock, binary("192.0.2.7", udp=True, tlvs=OTHERS)) == OTHERS.hex()
        assert by_datagram(sock, b"") == OTHERS.hex()
        server.reload(corefile("tlv_metadata\n udp_session_tracking 2h"))
        assert by_datagram(sock, b"") == OTHERS.hex()
        server.reload(corefile("udp_session_tracking 2h"))
        assert by_datagram(sock, b"") == ""
        assert by_datagram(sock, binary("192.0.2.7", udp=True, tlvs=TLVS)) == ""
        server.reload(corefile("tlv_metadata\n udp_session_tracking 2h"))
        assert by_datagram(sock, b"") == ""
        assert by_datagram(sock, binary("192.0.2.7", udp=True, tlvs=TLVS)) == TLVS.hex()
        sock.send(binary("192.0.2.7", udp=True))
        assert by_datagram(sock, b"") == ""
    with datagrams(server) as other:
        assert by_datagram(other, b"") == ""


def test_zones_of_metadata(serve: Serve) -> None:
    """As with other plugins' labels, names outside of them have none."""
    server = started(serve, "", below=TEMPLATE)
    server.reload(corefile().replace("metadata\n    proxyproto", "metadata here.\n    proxyproto"))
    header = binary("192.0.2.7", udp=True, tlvs=TLVS)
    with datagrams(server) as sock:
        assert by_datagram(sock, header, "a.here.") == TLVS.hex()
        assert by_datagram(sock, header, "a.there.") == ""


VIEWS = """
.:{port} {
    bind 127.0.0.1
    metadata
    proxyproto {
        tlv_metadata
    }
    view seen {
        expr metadata('proxyproto/tlv') == '%s'
    }
    template IN TXT {
        answer "{{ .Name }} 0 IN TXT Tseen"
    }
}
.:{port} {
    bind 127.0.0.1
    template IN TXT {
        answer "{{ .Name }} 0 IN TXT Tother"
    }
}
"""


@pytest.mark.parametrize(("ask", "udp"), [(over_udp, True), (over_tcp, False)])
def test_views(serve: Serve, ask: Ask, udp: bool) -> None:
    """The label is there before a block is chosen."""
    server = serve(VIEWS % TLVS.hex())
    assert ask(server, binary("192.0.2.7", udp=udp, tlvs=TLVS)) == ["seen"]
    assert ask(server, binary("192.0.2.7", udp=udp, tlvs=OTHERS)) == ["other"]
    assert ask(server, b"") == ["other"]


@pytest.mark.parametrize("udp", [True, False])
def test_the_log_of_queries_that_waited(serve: Serve, udp: bool) -> None:
    """The TLVs last as long as the query, whatever came since."""
    with Upstream() as upstream:
        server = started(serve, "", below=f"forward . {upstream.address}\n")
        headers = {f"n{number}.": tlv(0xE0, f"client {number}".encode() * number) for number in range(1, 40)}
        if udp:
            with datagrams(server) as sock:
                for name, tlvs in headers.items():
                    sock.send(binary("192.0.2.7", udp=True, tlvs=tlvs) + dns.message.make_query(name, "A").to_wire())
        else:
            for name, tlvs in headers.items():
                with connected(server, binary("192.0.2.7", tlvs=tlvs)) as connection:
                    connection.sendall(framed(dns.message.make_query(name, "A")))
        for name, tlvs in headers.items():
            server.wait_log(rf"TLV {name.replace('.', chr(92) + '.')} {tlvs.hex()}$")


def test_long_values_in_the_log(serve: Serve) -> None:
    """A line is cut where it ends, in the middle of the value."""
    server = started(serve, "")
    tlvs = tlv(0xE0, bytes(range(256)) * 15)
    assert len(tlvs) < BLOCK_MAX - 12
    with datagrams(server) as sock:
        sock.send(binary("192.0.2.7", udp=True, tlvs=tlvs) + dns.message.make_query("long.", "A").to_wire())
    found = server.wait_log(r"TLV long\. ([0-9a-f]+)")[1]
    assert 1900 < len(found) < 2048
    assert tlvs.hex().startswith(found)


PLUGIN = """
from fastdns.plugin import Plugin

class Shows(Plugin):
    zones = ["."]

    def serve(self, query):
        found = query.metadata.get("proxyproto/tlv", "unset")
        return query.reply(f"TXT T{len(found)}/{found[-100:]}", ttl=0)

def setup(controller):
    return Shows()
"""


@TRANSPORTS
def test_python_plugins(serve: Serve, tmp_path: Path, scheme: str, ask: Ask, udp: bool) -> None:
    """The longest value that there can be, whole."""
    (tmp_path / "shows.py").write_text(PLUGIN)
    server = started(serve, scheme, below=f"plugin {tmp_path}/shows.py\n")
    # Of QUIC a datagram has no place for so much.
    most = 200 if scheme in ("quic://", "https3://") else 3900 if scheme == "" and udp else 4084
    tlvs = tlv(0xE9, bytes(most - 3 - 100) + bytes(range(100)))
    hexadecimal = tlvs.hex()
    assert ask(server, binary("192.0.2.7", udp=udp, tlvs=tlvs), 2) == [f"{len(hexadecimal)}/{hexadecimal[-100:]}"] * 2
    assert ask(server, binary("192.0.2.7", udp=udp)) == ["5/unset"]


CHILDREN = r"""
    dns64
    template IN A {
        answer "{{ .Name }} 0 IN A 192.0.2.{{ if eq (.Meta \"proxyproto/tlv\") \"e00000\" }}1{{ else }}2{{ end }}"
    }
    template IN AAAA {
        rcode NOERROR
    }
"""


@pytest.mark.parametrize("udp", [True, False])
def test_questions_of_plugins(serve: Serve, udp: bool) -> None:
    """What a plugin asks for the client has the client's TLVs."""
    server = started(serve, "", below=CHILDREN)
    message = dns.message.make_query("a.", "AAAA", id=0)
    for tlvs, address in ((tlv(0xE0, b""), "64:ff9b::c000:201"), (b"", "64:ff9b::c000:202")):
        header = binary("2001:db8::7", udp=udp, tlvs=tlvs)
        if udp:
            with datagrams(server) as sock:
                sock.send(header + message.to_wire())
                reply = dns.message.from_wire(sock.recv(65536))
        else:
            with connected(server, header) as connection:
                connection.sendall(framed(message))
                reply = read(connection)
        assert [record.address for rrset in reply.answer for record in rrset] == [address]


@pytest.mark.memory
@pytest.mark.parametrize("scheme", ["tls://", "https://"])
def test_handshakes_that_fail(serve: Serve, scheme: str) -> None:
    """Clients that leave before, in and after their handshake: the server holds no more memory afterwards. Others are served."""
    server = started(serve, scheme)
    header = binary("192.0.2.7", tlvs=tlv(0xE0, bytes(4000)))

    def leave(count: int) -> None:
        for number in range(count):
            with connected(server, header) as connection:
                if number % 3 == 1:
                    connection.sendall(b"\x16\x03\x01\0\x05hello")
                elif number % 3 == 2:
                    connection.sendall(b"no handshake")
                with suppress(ConnectionError, ssl.SSLError):
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(100)

    leave(300)
    before = server.memory()
    leave(1500)
    # 1,500 headers are 6 MB.
    assert server.memory() - before < 3 * 1024 * 1024
    assert (over_tls if scheme == "tls://" else over_https)(server, binary("192.0.2.7", tlvs=TLVS)) == [TLVS.hex()]


@pytest.mark.parametrize("scheme", ["quic://", "https3://"])
def test_a_session_over_quic(serve: Serve, scheme: str) -> None:
    """Those of the header that the session has when the connection begins."""
    server = started(serve, scheme, "tlv_metadata\n udp_session_tracking 1h")
    for tlvs in (TLVS, b"", OTHERS):
        client = Client(server.port, wait=False) if scheme == "quic://" else WebClient(server.port, wait=False)
        client.socket.send(binary("192.0.2.7", udp=True, tlvs=tlvs))
        client.push()
        client.pump(lambda: client.handshake is not None)  # noqa: B023
        with client:
            for _ in range(2):
                if isinstance(client, WebClient):
                    assert told(dns.message.from_wire(client.fetch(body=query("a.", "TXT")).body)) == tlvs.hex()
                else:
                    assert told(client.ask(query("a.", "TXT"))) == tlvs.hex()
