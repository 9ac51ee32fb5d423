"""A zone with its signatures: DNSKEY, CDS and CDNSKEY records, the NSEC chain (RFC 4034 4), and an RRSIG for each authoritative RRset."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from fastdns._wire import name_text
from fastdns.plugins.dnssec.keys import Key, rrsig
from fastdns.protocol.parameters import type_text

if TYPE_CHECKING:
    from fastdns.zonefile.parser import ZoneRecord

__all__ = ["SignedZone", "bitmap"]

NS, SOA, DS, RRSIG, NSEC, DNSKEY, CDS, CDNSKEY = 2, 6, 43, 46, 47, 48, 59, 60

#: Of the input: they are made anew.
DROPPED = frozenset((RRSIG, NSEC, DNSKEY, CDS, CDNSKEY))
#: What the parent side of a delegation is authoritative for, or says without a signature (NS).
AT_CUT = frozenset((NS, DS, NSEC))

#: TTL and rdatas of an RRset.
Rrset = tuple[int, list[bytes]]


class SignedZone:
    """Made from the records of a master file; times are Unix seconds, `serial` becomes the SOA's. ValueError for what is no zone."""

    def __init__(self, records: list[ZoneRecord], origin: bytes, keys: list[Key], serial: int, inception: int, expiration: int) -> None:
        self.origin = origin
        self.keys = keys
        self.serial = serial & 0xFFFFFFFF
        self._times = inception, expiration
        #: Owner (lower case) to type to RRset.
        self.nodes: dict[bytes, dict[int, Rrset]] = {}
        for owner, kind, _, ttl, rdata in records:
            if kind not in DROPPED:
                self._insert(owner.lower(), kind, ttl, rdata)
        if SOA not in self.nodes.get(origin, {}):
            raise ValueError(f"no SOA record at {name_text(origin)}")
        self._stamp()
        self._add_keys()
        #: In canonical order (RFC 4034 6.1).
        self.names = sorted(self.nodes, key=_order)
        self._cuts = {name for name in self.names if name != origin and NS in self.nodes[name]}
        self._chain([name for name in self.names if self._is_authoritative(name)])

    def lines(self) -> Iterator[str]:
        """The master file: SOA and NS with their signatures first, then all names in order."""
        apex = self.nodes[self.origin]
        for kind in (SOA, NS):
            if kind in apex:
                yield from self._set_lines(self.origin, kind)
        for name in self.names:
            for kind in sorted(self.nodes[name]):
                if name != self.origin or kind not in (SOA, NS):
                    yield from self._set_lines(name, kind)

    # ---- making ----

    def _insert(self, owner: bytes, kind: int, ttl: int, rdata: bytes) -> None:
        """What lies outside of the zone is left out; the first record's TTL is the set's (RFC 2181 5.2)."""
        if not _below(owner, self.origin):
            return
        rdatas = self.nodes.setdefault(owner, {}).setdefault(kind, (ttl, []))[1]
        if rdata not in rdatas:
            rdatas.append(rdata)

    def _stamp(self) -> None:
        ttl, (rdata, *_) = self.nodes[self.origin][SOA]
        self.nodes[self.origin][SOA] = ttl, [rdata[:-20] + struct.pack("!I", self.serial) + rdata[-16:]]

    def _add_keys(self) -> None:
        ttl = self.nodes[self.origin][SOA][0]
        for key in self.keys:
            head = struct.pack("!HB", key.tag, key.algorithm)
            self._insert(self.origin, DNSKEY, ttl, key.rdata)
            self._insert(self.origin, CDNSKEY, ttl, key.rdata)
            self._insert(self.origin, CDS, ttl, head + b"\2" + hashlib.sha256(self.origin + key.rdata).digest())

    def _is_authoritative(self, name: bytes) -> bool:
        """Nothing above it, up to the apex, is delegated."""
        while name != self.origin:
            name = name[name[0] + 1 :]
            if name in self._cuts:
                return False
        return True

    def _chain(self, names: list[bytes]) -> None:
        ttl, (soa, *_) = self.nodes[self.origin][SOA]
        ttl = min(ttl, struct.unpack("!I", soa[-4:])[0])  # RFC 9077 3
        for name, following in zip(names, [*names[1:], names[0]], strict=True):
            kinds = {kind for kind in self.nodes[name] if name not in self._cuts or kind in AT_CUT}
            self.nodes[name][NSEC] = ttl, [following + bitmap(kinds | {RRSIG, NSEC})]

    # ---- signing and writing ----

    def _is_signed(self, name: bytes, kind: int) -> bool:
        return NSEC in self.nodes[name] and (name not in self._cuts or kind in (DS, NSEC))

    def _set_lines(self, name: bytes, kind: int) -> Iterator[str]:
        ttl, rdatas = self.nodes[name][kind]
        parsed = [dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RdataType.make(kind), rdata, 0, len(rdata)) for rdata in rdatas]
        owner = name_text(name)
        for rdata in parsed:
            yield f"{owner}\t{ttl}\tIN\t{type_text(kind)}\t{rdata.to_text()}"
        if not self._is_signed(name, kind):
            return
        canonical = sorted({rdata.to_digestable(dns.name.root) for rdata in parsed})
        body = b"".join(name + struct.pack("!HHIH", kind, 1, ttl, len(rdata)) + rdata for rdata in canonical)
        for key in self.keys:
            wire = rrsig(key, self.origin, body, *self._times, ttl)
            signature = dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RRSIG, wire, 0, len(wire))
            yield f"{owner}\t{ttl}\tIN\tRRSIG\t{signature.to_text()}"


def bitmap(kinds: set[int]) -> bytes:
    """The type bit maps field (RFC 4034 4.1.2)."""
    out = b""
    for window in sorted({kind >> 8 for kind in kinds}):
        octets = bytearray(32)
        for kind in kinds:
            if kind >> 8 == window:
                octets[(kind & 0xFF) >> 3] |= 0x80 >> (kind & 7)
        trimmed = bytes(octets).rstrip(b"\0")
        out += bytes([window, len(trimmed)]) + trimmed
    return out


def _order(name: bytes) -> list[bytes]:
    labels = []
    while name[0]:
        labels.append(name[1 : name[0] + 1])
        name = name[name[0] + 1 :]
    return labels[::-1]


def _below(name: bytes, zone: bytes) -> bool:
    while len(name) > len(zone):
        name = name[name[0] + 1 :]
    return name == zone
