"""OPT records of queries and replies through sockets (RFC 6891): what is refused, and with what."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

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
