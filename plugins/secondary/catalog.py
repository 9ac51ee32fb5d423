"""Catalog zones (RFC 9432, schema version 2): a zone whose records say which other zones there are."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from fastdns._wire import name_text, name_wire
from fastdns.corefile.errors import quoted
from fastdns.plugins.secondary.exchange import Row
from fastdns.protocol.parameters import TYPE_NS, TYPE_PTR, TYPE_SOA, TYPE_TXT, type_text

__all__ = ["Catalog", "Member", "parse_catalog"]


class Member(NamedTuple):
    """A zone of a catalog: its label there, and whose it may become."""

    label: str
    zone: str
    owner: str
    groups: list[str]


class Catalog(NamedTuple):
    origin: str
    #: By label.
    members: list[Member]

    def member(self, zone: str) -> Member | None:
        return next((member for member in self.members if member.zone == zone), None)


def parse_catalog(origin: str, rows: list[Row]) -> Catalog:
    """The members. Raises ValueError, in CoreDNS's words, for a zone that is no catalog."""
    apex = name_wire(origin.lower())
    base = labels(b"\x05zones" + apex)
    found: set[int] = set()
    versions: list[str] = []
    members: dict[bytes, list[bytes]] = defaultdict(list)
    groups: dict[bytes, list[str]] = defaultdict(list)
    owners: dict[bytes, list[bytes]] = defaultdict(list)
    for _, owner, kind, klass, ttl, rdata in rows:
        if klass != 1:
            raise ValueError(f"catalog zone {origin} contains non-IN record {name_text(owner)}\t{ttl}\tCLASS{klass}\t{type_text(kind)}")
        owner = owner.lower()
        if owner == apex:
            found.add(kind)
        if kind == TYPE_TXT and owner == b"\x07version" + apex:
            versions.append(strings(rdata))
        name = labels(owner)
        below = name[: -len(base)] if name[-len(base) :] == base else []
        if kind == TYPE_PTR and len(below) == 1:
            members[below[0]].append(rdata.lower())
        elif kind == TYPE_PTR and len(below) == 2 and below[0] == b"coo":
            owners[below[1]].append(rdata.lower())
        elif kind == TYPE_TXT and len(below) == 2 and below[0] == b"group":
            groups[below[1]].append(strings(rdata))
    if TYPE_SOA not in found:
        raise ValueError(f"catalog zone {origin} has no SOA record")
    if TYPE_NS not in found:
        raise ValueError(f"catalog zone {origin} has no NS record")
    if len(versions) != 1:
        raise ValueError(f"catalog zone {origin} must have exactly one version TXT record")
    if versions[0] != "2":
        raise ValueError(f"catalog zone {origin} has unsupported version {quoted(versions[0])}")
    seen: dict[bytes, str] = {}
    out = []
    for label in sorted(members):
        text = name_text(bytes([len(label)]) + label + b"\0").removesuffix(".")
        if len(members[label]) != 1:
            raise ValueError(f"catalog member {text}.zones.{origin} must have exactly one PTR record")
        zone = members[label][0]
        if zone in seen:
            raise ValueError(f"catalog member zone {name_text(zone)} is listed by both {seen[zone]} and {text}")
        seen[zone] = text
        if len(owners[label]) > 1:
            raise ValueError(f"catalog member {text} has more than one coo PTR record")
        out.append(Member(text, name_text(zone), name_text(owners[label][0]) if owners[label] else "", sorted(groups[label])))
    return Catalog(origin, out)


def labels(wire: bytes) -> list[bytes]:
    """Of a name in wire form, without the root."""
    out = []
    while wire[0]:
        out.append(wire[1 : 1 + wire[0]])
        wire = wire[1 + wire[0] :]
    return out


def strings(rdata: bytes) -> str:
    """The strings of TXT, joined."""
    out = b""
    while rdata:
        out += rdata[1 : 1 + rdata[0]]
        rdata = rdata[1 + rdata[0] :]
    return out.decode("utf-8", "replace")
