"""What file says beside what Knot and NSD say, of the same zones: rcode, AA, answer, and denials with their proofs.

Where fastdns goes with CoreDNS and not with them, `explained` knows; docs/differences.md tells operators.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import dns.exception
import dns.name
import dns.rcode
import dns.rdatatype
import pytest

from tests.plugins.file.zones import make_zones, questions, run_knot, run_nsd
from tests.server import Server
from tests.waiting import LIMIT, REPLY

#: Owner in lower case, type, records as TTL and rdata without compression.
SETS = frozenset[tuple[bytes, int, frozenset[tuple[int, bytes]]]]
AUXILIARY = (dns.rdatatype.RRSIG, dns.rdatatype.NSEC, dns.rdatatype.NSEC3)

#: Queries that are sent to every server before any of their replies is waited for.
BATCH = 100

# ---- messages ----

#: Octets before the names in rdata, and their number, of the types that are compressed or whose case varies.
NAMES = {
    dns.rdatatype.NS: (0, 1),
    dns.rdatatype.CNAME: (0, 1),
    dns.rdatatype.DNAME: (0, 1),
    dns.rdatatype.SOA: (0, 2),
    dns.rdatatype.MX: (2, 1),
    dns.rdatatype.SRV: (6, 1),
    dns.rdatatype.RRSIG: (18, 1),
}


def query(name: bytes, kind: int, do: bool) -> bytes:
    """A message with id 0 and an OPT record."""
    return struct.pack("!6H", 0, 0x100, 1, 0, 0, 1) + name + struct.pack("!2H", kind, 1) + struct.pack("!B2HIH", 0, 41, 4096, do << 15, 0)


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
    fixed, names = NAMES.get(kind, (0, 0))
    if not names:
        return wire[at : at + length]
    end = at + length
    out = wire[at : at + fixed]
    at += fixed
    for _ in range(names):
        name, at = read_name(wire, at)
        out += name
    return out + wire[at:end]


class Said:
    """A reply, in the parts that are compared."""

    def __init__(self, wire: bytes) -> None:
        flags, _, *counts = struct.unpack_from("!5H", wire, 2)
        self.rcode = dns.rcode.to_text(dns.rcode.Rcode.make(flags & 15))
        self.authoritative = bool(flags & 0x400)
        at = read_name(wire, 12)[1] + 4
        self.answer, at = self._section(wire, at, counts[0])
        self.authority, at = self._section(wire, at, counts[1])

    @staticmethod
    def _section(wire: bytes, at: int, count: int) -> tuple[SETS, int]:
        found: defaultdict[tuple[bytes, int], set[tuple[int, bytes]]] = defaultdict(set)
        for _ in range(count):
            owner, at = read_name(wire, at)
            kind, _, ttl, length = struct.unpack_from("!2HIH", wire, at)
            found[owner, kind].add((ttl, read_rdata(wire, at + 10, kind, length)))
            at += 10 + length
        return frozenset((owner, kind, frozenset(records)) for (owner, kind), records in found.items()), at

    def kinds(self) -> set[int]:
        return {kind for _, kind, _ in self.authority}

    def __str__(self) -> str:
        return f"{self.rcode} {self.authoritative} {sorted(map(str, self.answer))} {sorted(map(str, self.authority))}"


def ask(ports: list[int], messages: list[bytes]) -> list[list[Said]]:
    """What every server says to all messages, which may be few thousand."""
    sockets = []
    with ExitStack() as stack:
        for port in ports:
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.connect(("127.0.0.1", port))
            sockets.append(sock)
        found: list[dict[int, Said]] = [{} for _ in ports]
        end = time.monotonic() + LIMIT
        while any(len(replies) < len(messages) for replies in found):
            assert time.monotonic() < end, "no reply"
            for sock, replies in zip(sockets, found, strict=True):
                for number, message in enumerate(messages):
                    if number not in replies:
                        sock.send(number.to_bytes(2, "big") + message[2:])
            again = time.monotonic() + REPLY / 5
            while any(len(replies) < len(messages) for replies in found) and select.select(sockets, [], [], max(0.0, again - time.monotonic()))[0]:
                for port, sock, replies in zip(ports, sockets, found, strict=True):
                    while len(replies) < len(messages) and select.select([sock], [], [], 0)[0]:
                        wire = sock.recv(65535)
                        number = int.from_bytes(wire[:2], "big")
                        replies[number] = Said(wire if not wire[2] & 2 else over_tcp(port, messages[number]))
    return [[replies[number] for number in range(len(messages))] for replies in found]


def over_tcp(port: int, message: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=REPLY) as sock, sock.makefile("rb") as file:
        sock.sendall(len(message).to_bytes(2, "big") + message)
        wire = file.read(int.from_bytes(file.read(2), "big"))
    assert wire, "no reply over TCP"
    return wire


# ---- comparison ----


def without(found: SETS, *kinds: int) -> SETS:
    return frozenset(one for one in found if one[1] not in kinds)


def compare(ours: Said, theirs: Said, origin: str, rdtype: str) -> str:
    """What is different, or ""."""
    if ours.rcode != theirs.rcode:
        return "rcode"
    if ours.answer != theirs.answer:
        return "answer"
    if rdtype != "CNAME" and any(kind == dns.rdatatype.CNAME for _, kind, _ in ours.answer):
        return ""  # what follows the chain's end is CoreDNS's: servers or SOA, no proof
    if ours.authoritative != theirs.authoritative:
        return "AA"
    if ours.answer:
        # They leave out the servers when they like; proofs of wildcards must be the same.
        return "" if proofs(ours) == proofs(theirs) else "proof of expansion"
    if not ours.authoritative:
        if without(ours.authority, *AUXILIARY) != without(theirs.authority, *AUXILIARY):
            return "referral"
        if origin.startswith(("nsec3", "optout")) and ours.authority != theirs.authority:
            return "referral's proof"
        return ""
    return "" if ours.authority == theirs.authority else "denial"


def proofs(said: Said) -> SETS:
    owners = {name for name, kind, _ in said.authority if kind in (dns.rdatatype.NSEC, dns.rdatatype.NSEC3)}
    return frozenset(one for one in said.authority if one[0] in owners and one[1] in AUXILIARY and one[1] != dns.rdatatype.NS)


def explained(what: str, ours: Said, peer: str, origin: str, name: dns.name.Name, rdtype: str) -> str:
    """Why it is different on purpose, or ""."""
    if what == "referral" and origin.startswith("plain") and dns.rdatatype.DS in ours.kinds():
        return "CoreDNS shows a DS in zones without signatures, too"
    if what == "denial" and peer == "knot" and name.is_subdomain(dns.name.from_text("b.nsec.example.")):
        return "Knot orders x.b behind b\\000in\\255ary, as if the zero octet ended a label (RFC 4034 6.1)"
    if what == "denial" and peer == "nsd" and name.labels[0] == b"*" and origin.startswith(("nsec3", "optout")):
        return "NSD denies an expansion, too, where a wildcard is asked for itself"
    return ""


def readable(asked: Iterator[tuple[str, str, str, bool]]) -> Iterator[tuple[str, dns.name.Name, str, bool]]:
    """Those whose names are some."""
    for origin, text, rdtype, do in asked:
        try:
            yield origin, dns.name.from_text(text), rdtype, do
        except dns.exception.DNSException:
            continue


def crosscheck(folder: Path, count: int, seed: int, names: int) -> None:
    zones = make_zones(folder, names)
    corefile = "".join(f"{origin}:{{port}} {{\n bind 127.0.0.1\n file {path}\n}}\n" for origin, path in zones.items())
    with ExitStack() as stack:
        server = stack.enter_context(Server(folder, corefile))
        peers = {"knot": stack.enter_context(run_knot(folder, zones)), "nsd": stack.enter_context(run_nsd(folder, zones))}  # type: ignore[var-annotated, call-overload]
        different: list[str] = []
        reasons: Counter[str] = Counter()
        checked = 0
        ports = [server.port, *peers.values()]
        asked = readable(questions(count, seed, names))
        while few := list(islice(asked, BATCH)):
            said = ask(ports, [query(name.to_wire() or b"", dns.rdatatype.from_text(rdtype), do) for _, name, rdtype, do in few])
            checked += len(few)
            for (origin, name, rdtype, do), ours, *all_theirs in zip(few, *said, strict=True):
                for peer, theirs in zip(peers, all_theirs, strict=True):
                    what = compare(ours, theirs, origin, rdtype)
                    if not what:
                        continue
                    reason = explained(what, ours, peer, origin, name, rdtype)
                    if reason:
                        reasons[reason] += 1
                    else:
                        different.append(f"{peer} {name} {rdtype} do={do}: {what}\n  ours {ours}\n  they {theirs}")
        assert checked > count // 2
        assert not different, f"{len(different)} of {checked}, explained {dict(reasons)}:\n" + "\n".join(different[: int(os.environ.get("SHOW", "10"))])


def test_as_knot_and_nsd(tmp_path: Path) -> None:
    crosscheck(tmp_path, 2000, 1, 100)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_as_knot_and_nsd_for_200_000_names(tmp_path: Path) -> None:
    crosscheck(tmp_path, 200_000, 2, 5000)
