"""OPT records of queries and replies through sockets (RFC 6891): what is refused, and with what."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import grpc
import httpx
import pytest

from tests import grpc_client, quic
from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.waiting import REPLY

COREFILE = "example.org:{port} {\n bind 127.0.0.1\n hosts {\n  192.0.2.1 www.example.org\n }\n}\n"
COOKIE, SUBNET = dns.edns.OptionType.COOKIE, dns.edns.OptionType.ECS
#: Octets over UDP that the server takes.
SIZE = 1232

#: code, data, whether a query may have it.
OPTIONS = [
    *((COOKIE, bytes(size), size == 8 or 16 <= size <= 40) for size in (0, 1, 7, 8, 9, 15, 16, 17, 24, 32, 40, 41, 48, 400)),
    (SUBNET, b"", False),
    (SUBNET, b"\0\1\x18", False),
    (SUBNET, b"\0\1\0\0", True),
    (SUBNET, b"\0\1\x18\0\xc0\0\2", True),
    (SUBNET, b"\0\1\x20\0\xc0\0\2\1", True),
    (SUBNET, b"\0\1\x21\0\xc0\0\2\1\0", False),  # a prefix of 33 bits
    (SUBNET, b"\0\1\x18\0\xc0\0", False),  # an octet less than the prefix needs
    (SUBNET, b"\0\1\x18\0\xc0\0\2\0", False),  # and one more
    (SUBNET, b"\0\1\x14\0\xc0\0\x10", True),
    (SUBNET, b"\0\1\x14\0\xc0\0\x18", False),  # a bit behind the prefix
    (SUBNET, b"\0\1\x18\x18\xc0\0\2", False),  # a scope
    (SUBNET, b"\0\2\x38\0\x20\1\x0d\xb8\0\0\0", True),
    (SUBNET, b"\0\2\x81\0" + bytes(17), False),
    (SUBNET, b"\0\0\0\0", True),
    (SUBNET, b"\0\0\x08\0\x0a", False),
    (SUBNET, b"\0\3\x08\0\x0a", False),  # no family that is known
    (dns.edns.OptionType.NSID, b"data", True),
    (11, b"\0\1\2", True),
    (12, bytes(50), True),
    (65001, b"", True),
]


def asked(options: bytes = b"", size: int = 4096, version: int = 0, flags: int = 0x0100, name: str = "www.example.org.", do: bool = False) -> bytes:
    query = dns.message.make_query(name, "A").to_wire()
    ttl = version << 16 | (0x8000 if do else 0)
    return query[:2] + struct.pack("!5H", flags, 1, 0, 0, 1) + query[12:] + b"\0" + struct.pack("!HHIH", 41, size, ttl, len(options)) + options


@pytest.fixture
def ask() -> Callable[..., bytes]:
    """``ask(server, octets, tcp)`` gives the octets of the reply."""

    def send(server: Server, octets: bytes, tcp: bool = False) -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
            sock.settimeout(REPLY)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(struct.pack("!H", len(octets)) + octets if tcp else octets)
            return sock.recv(65535)[2 if tcp else 0 :]

    return send


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_malformed_options(serve: Callable[..., Server], ask: Callable[..., bytes], tcp: bool) -> None:
    """RFC 7873 5.2.2, RFC 7871 7.1.2: FORMERR, with the question and an OPT of ours; the next query is answered."""
    server = serve(COREFILE)
    for code, data, good in OPTIONS:
        option = struct.pack("!HH", code, len(data)) + data
        for options in (option, struct.pack("!HH", 65002, 3) + b"abc" + option, option + struct.pack("!HH", 65002, 0)):
            reply = dns.message.from_wire(ask(server, asked(options, do=True), tcp))
            assert reply.rcode() == (dns.rcode.NOERROR if good else dns.rcode.FORMERR), (code, data)
            assert bool(reply.answer) == good
            assert [question.name.to_text() for question in reply.question] == ["www.example.org."]
            assert (reply.edns, reply.ednsflags & dns.flags.DO) == (0, dns.flags.DO)
            if not good:
                assert (reply.payload, reply.options) == (SIZE, ())


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize("options", [b"\0\x0a", b"\0\x0a\0\x09" + bytes(8), b"\xfd\xe9\0\0\0", b"\0\x0c\xff\xff"])
def test_options_that_end_behind_the_record(serve: Callable[..., Server], ask: Callable[..., bytes], options: bytes, tcp: bool) -> None:
    reply = dns.message.from_wire(ask(serve(COREFILE), asked(options), tcp))
    assert (reply.rcode(), len(reply.question), reply.answer) == (dns.rcode.FORMERR, 1, [])


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
@pytest.mark.parametrize("size", [512, 1232])
@pytest.mark.parametrize("over", [0, 1])
def test_options_are_echoed_where_they_fit(serve: Callable[..., Server], ask: Callable[..., bytes], size: int, over: int, tcp: bool) -> None:
    """No reply is larger than its client takes, also where the client's own option makes it so."""
    name = "www.example.org."
    without = 12 + len(name) + 1 + 4 + 11
    data = bytes(size + over - without - 4)
    octets = ask(serve(COREFILE), asked(struct.pack("!HH", 3, len(data)) + data, size, name=name).replace(b"\0\1\0\1", b"\0\x1c\0\1", 1), tcp)
    fits = tcp or not over
    assert len(octets) == (size + over if fits else without)
    reply = dns.message.from_wire(octets)
    assert (reply.rcode(), len(reply.options), bool(reply.flags & dns.flags.TC)) == (dns.rcode.NOERROR, fits, False)


TRANSPORTS = {"dns": "port", "tls": "port2", "https": "port3", "grpc": "port4", "quic": "port5", "https3": "port6"}


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on every transport."""
    folder = write_certificates(tmp_path_factory.mktemp("edns"), "example.org")
    block = "{}://example.org:{{{}}} {{\n bind 127.0.0.1\n tls server.pem server.key\n hosts {{\n  192.0.2.1 www.example.org\n }}\n}}\n"
    with Server(folder, "".join(block.format(scheme, port) for scheme, port in TRANSPORTS.items())) as running:
        running.wait_started()
        yield running


def over(server: Server, scheme: str, octets: bytes) -> bytes | None:
    """The reply to a query over a transport; ``tcp`` and ``udp`` stand for those of ``dns``. None: the transport refuses the message."""
    port = server.ports[TRANSPORTS.get(scheme, "port")]
    framed = struct.pack("!H", len(octets)) + octets
    match scheme:
        case "udp":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(REPLY)
                sock.sendto(octets, ("127.0.0.1", port))
                return sock.recv(65535)
        case "tcp" | "tls":
            with ExitStack() as stack:
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), REPLY))
                if scheme == "tls":
                    sock = stack.enter_context(client_context(server.folder).wrap_socket(sock))
                sock.sendall(framed)
                stream = stack.enter_context(sock.makefile("rb"))
                return stream.read(struct.unpack("!H", stream.read(2))[0])
        case "https":
            fields = {"content-type": "application/dns-message"}
            got = httpx.post(f"https://127.0.0.1:{port}/dns-query", content=octets, headers=fields, verify=client_context(server.folder))
            return got.content if got.status_code == 200 else None
        case "grpc":
            with grpc_client.client(port, server.folder, "server.example.org") as channel:
                with suppress(grpc.RpcError):
                    return channel.call(octets)
                return None
        case "quic":
            with quic.Client(port) as connection, suppress(quic.Closed):
                return connection.ask(octets).to_wire()
            return None
        case _:
            with quic.WebClient(port) as web:
                response = web.fetch(body=octets)
                return bytes(response.body) if response.status == 200 else None


@pytest.mark.parametrize("scheme", ["udp", "tcp", *list(TRANSPORTS)[1:]])
def test_two_opt_records(everywhere: Server, scheme: str) -> None:
    """RFC 6891 6.1.1: FORMERR, or what the transport has for malformed messages; one is answered."""
    one = b"\0\0" + asked()[2:]
    two = one[:10] + b"\0\2" + one[12:] + one[-11:]
    for octets, rcode in ((one, dns.rcode.NOERROR), (two, dns.rcode.FORMERR), (one, dns.rcode.NOERROR)):
        got = over(everywhere, scheme, octets)
        if got is None:
            assert (rcode, scheme in ("udp", "tcp", "tls")) == (dns.rcode.FORMERR, False)
            continue
        reply = dns.message.from_wire(got)
        assert (reply.rcode(), len(reply.question), len(reply.answer)) == (rcode, 1, 1 - bool(rcode))
        assert reply.edns == 0
        assert rcode == dns.rcode.NOERROR or scheme in ("udp", "tcp", "tls")


@pytest.mark.parametrize("name", ["www.example.org.", "www.example.net."])
@pytest.mark.parametrize("version", [1, 255])
def test_another_version_is_told_our_size(serve: Callable[..., Server], ask: Callable[..., bytes], version: int, name: str) -> None:
    """RFC 6891 6.1.3. Options of a version that is not known may have any form."""
    server = serve(COREFILE)
    for options in (b"", struct.pack("!HH", COOKIE, 1) + b"x"):
        reply = dns.message.from_wire(ask(server, asked(options, version=version, name=name)))
        assert (reply.rcode(), reply.edns, reply.payload, reply.options) == (dns.rcode.BADVERS, 0, SIZE, ())


@pytest.mark.parametrize("opcode", [1, 2, 3, 5, 6, 15])
def test_flags_of_what_is_refused(serve: Callable[..., Server], ask: Callable[..., bytes], opcode: int) -> None:
    """Opcode, RD and CD are copied (RFC 1035 4.1.1, RFC 4035 3.1.6), nothing else."""
    server = serve(COREFILE)
    for flags, copied in ((0x07F0, 0x0110), (0x06E0, 0), (0x0100, 0x0100)):
        for tcp in (False, True):
            reply = ask(server, asked(flags=flags | opcode << 11), tcp)
            assert struct.unpack("!H", reply[2:4])[0] == 0x8000 | opcode << 11 | copied | dns.rcode.NOTIMP
            assert (len(reply), reply[4:12]) == (12, bytes(8))
    for opcode in (dns.opcode.QUERY, dns.opcode.NOTIFY):
        reply = ask(server, asked(struct.pack("!HH", COOKIE, 1) + b"x", flags=0x07F0 | opcode << 11))
        assert struct.unpack("!H", reply[2:4])[0] == 0x8110 | opcode << 11 | dns.rcode.FORMERR
