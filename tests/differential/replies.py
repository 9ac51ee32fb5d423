"""Replies of several servers to the same messages, in a form that compares: sections as sets, names in lower case, no compression."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import defaultdict
from contextlib import ExitStack

import dns.rcode
import dns.rdatatype

from tests.waiting import LIMIT, REPLY

#: An owner in lower case and a type -> TTL and rdata without compression of each record.
Section = dict[tuple[bytes, int], frozenset[tuple[int, bytes]]]

AUXILIARY = (dns.rdatatype.RRSIG, dns.rdatatype.NSEC, dns.rdatatype.NSEC3)

#: Octets before the names in rdata, and their number, of the types that are compressed or whose case varies.
NAMES: dict[int, tuple[int, int]] = {
    dns.rdatatype.NS: (0, 1),
    dns.rdatatype.CNAME: (0, 1),
    dns.rdatatype.DNAME: (0, 1),
    dns.rdatatype.PTR: (0, 1),
    dns.rdatatype.SOA: (0, 2),
    dns.rdatatype.MX: (2, 1),
    dns.rdatatype.SRV: (6, 1),
    dns.rdatatype.RRSIG: (18, 1),
}

AA = 0x0400
TC = 0x0200
RA = 0x0080
AD = 0x0020
CD = 0x0010


def read_name(wire: bytes, at: int) -> tuple[bytes, int]:
    """A name without compression, in lower case, and where what follows it begins."""
    out = b""
    end = 0
    while length := wire[at]:
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | wire[at + 1]
        else:
            out += wire[at : at + length + 1]
            at += length + 1
    return out.lower() + b"\0", end or at + 1


def read_rdata(wire: bytes, at: int, kind: int, length: int) -> bytes:
    fixed, count = NAMES.get(kind, (0, 0))
    if not count:
        return wire[at : at + length]
    end = at + length
    out = wire[at : at + fixed]
    at += fixed
    for _ in range(count):
        name, at = read_name(wire, at)
        out += name
    return out + wire[at:end]


class Reply:
    """A reply, in the parts that are compared."""

    def __init__(self, wire: bytes) -> None:
        self.flags, _, *counts = struct.unpack_from("!5H", wire, 2)
        self.rcode = dns.rcode.to_text(dns.rcode.Rcode.make(self.flags & 15))
        self.authoritative = bool(self.flags & AA)
        #: Octets of the message that came over UDP; set for replies over TCP too, which followed a truncated one.
        self.datagram = len(wire)
        self.truncated = bool(self.flags & TC)
        #: Records that are there twice.
        self.repeated = 0
        at = read_name(wire, 12)[1] + 4
        self.answer, at = self._section(wire, at, counts[0])
        self.authority, at = self._section(wire, at, counts[1])
        self.additional, at = self._section(wire, at, counts[2])

    def _section(self, wire: bytes, at: int, count: int) -> tuple[Section, int]:
        found: defaultdict[tuple[bytes, int], list[tuple[int, bytes]]] = defaultdict(list)
        for _ in range(count):
            owner, at = read_name(wire, at)
            kind, _, ttl, length = struct.unpack_from("!2HIH", wire, at)
            if kind != dns.rdatatype.OPT:
                found[owner, kind].append((ttl, read_rdata(wire, at + 10, kind, length)))
            at += 10 + length
        section = {key: frozenset(records) for key, records in found.items()}
        self.repeated += sum(len(found[key]) - len(records) for key, records in section.items())
        return section, at

    def __str__(self) -> str:
        sections = " | ".join(show(section) for section in (self.answer, self.authority, self.additional))
        return f"{self.rcode} {'aa' if self.authoritative else '--'} {sections}"


def show(section: Section) -> str:
    """The records in short: owners without dots of the wire format, TTLs, targets."""
    out = []
    for (owner, kind), records in sorted(section.items()):
        rdata = sorted(f"{ttl}:{readable(data)}" for ttl, data in records) if kind not in AUXILIARY else sorted(str(ttl) for ttl, _ in records)
        out.append(f"{readable(owner)} {dns.rdatatype.to_text(dns.rdatatype.RdataType.make(kind))} {','.join(rdata)}")
    return "; ".join(out) or "-"


def readable(octets: bytes) -> str:
    if octets[-1:] == b"\0" and octets.find(b"\0") == len(octets) - 1 and all(octet < 64 or chr(octet).isalnum() or octet in b"*_-" for octet in octets):
        at, labels = 0, []
        while at < len(octets) and octets[at]:
            labels.append(octets[at + 1 : at + 1 + octets[at]].decode("latin-1"))
            at += 1 + octets[at]
        return ".".join(labels) + "."
    return octets.hex()


def query(name: bytes, kind: int, do: bool) -> bytes:
    """A message with id 0 and an OPT record."""
    return struct.pack("!6H", 0, 0x100, 1, 0, 0, 1) + name + struct.pack("!2H", kind, 1) + struct.pack("!B2HIH", 0, 41, 4096, do << 15, 0)


def ask(ports: list[int], messages: list[bytes]) -> list[list[Reply]]:
    """What every server says to each message. A truncated reply is replaced by the one over TCP."""
    with ExitStack() as stack:
        sockets = []
        for port in ports:
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.connect(("127.0.0.1", port))
            sockets.append(sock)
        found: list[dict[int, Reply]] = [{} for _ in ports]
        end = time.monotonic() + LIMIT
        while any(len(replies) < len(messages) for replies in found):
            assert time.monotonic() < end, f"no reply from {[port for port, replies in zip(ports, found, strict=True) if len(replies) < len(messages)]}"
            for sock, replies in zip(sockets, found, strict=True):
                for number, message in enumerate(messages):
                    if number not in replies:
                        sock.send(number.to_bytes(2, "big") + message[2:])
            receive(sockets, ports, messages, found)
    return [[replies[number] for number in range(len(messages))] for replies in found]


def receive(sockets: list[socket.socket], ports: list[int], messages: list[bytes], found: list[dict[int, Reply]]) -> None:
    again = time.monotonic() + REPLY / 5
    while any(len(replies) < len(messages) for replies in found):
        ready = select.select(sockets, [], [], max(0.0, again - time.monotonic()))[0]
        if not ready:
            return
        for sock in ready:
            at = sockets.index(sock)
            wire = sock.recv(65535)
            number = int.from_bytes(wire[:2], "big")
            found[at][number] = read_reply(wire, ports[at], messages[number])


def read_reply(wire: bytes, port: int, message: bytes) -> Reply:
    if not wire[2] & TC >> 8:
        return Reply(wire)
    reply = Reply(over_tcp(port, message))
    reply.datagram, reply.truncated = len(wire), True
    return reply


def over_tcp(port: int, message: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=REPLY) as sock, sock.makefile("rb") as file:
        sock.sendall(len(message).to_bytes(2, "big") + message)
        wire = file.read(int.from_bytes(file.read(2), "big"))
    assert wire, "no reply over TCP"
    return wire
