"""Differences between fastdns and CoreDNS that are known and meant, as far as question and answers tell them.

docs/differences.yaml has them all. Most of them are of TTLs and of OPT, which are not compared. Each of these holds in both directions: which of the two
servers is fastdns does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastdns.protocol.parameters import TYPE_CNAME, TYPE_NS, TYPE_RRSIG, TYPE_SOA, type_number

if TYPE_CHECKING:
    from fastdns.comparison.canonical import Record, Reply

__all__ = ["KNOWN", "known_difference", "known_names"]

ANSWER, AUTHORITY = 0, 1
TYPE_CDS: Final = type_number("CDS")
#: Types of proofs that a name or a type is not there.
DENIALS: Final = frozenset((type_number("NSEC"), type_number("NSEC3")))
SOA_SERIAL, SOA_REST = -20, -16
CDS_DIGEST, SHA1 = 3, 1


def known_difference(a: Reply, b: Reply, ignored: frozenset[str]) -> str:
    """The name of the first one, of those in ``ignored``, that explains all that is different; "" for none."""
    return next((name for name, (_, explains) in KNOWN.items() if name in ignored and explains(a, b)), "")


def known_names(words: list[str]) -> frozenset[str]:
    """Names of known differences; ``none`` stands for none. Raises ValueError."""
    names = frozenset(word for word in words if word and word != "none")
    if names - KNOWN.keys():
        raise ValueError(f"known differences are {', '.join(KNOWN)}, not {', '.join(sorted(names - KNOWN.keys()))}")
    return names


def _rest_is_same(a: Reply, b: Reply, section: int) -> bool:
    """All but one section."""
    sections = all(a.sections[i] == b.sections[i] for i in range(3) if i != section)
    return sections and (a.rcode, a.authoritative, a.truncated) == (b.rcode, b.authoritative, b.truncated)


def _is_alias_end(a: Reply, b: Reply) -> bool:
    """One has NS records where the other one has the SOA, perhaps with a proof."""
    if not _rest_is_same(a, b, AUTHORITY) or not any(rtype == TYPE_CNAME for _, rtype, _, _ in a.sections[ANSWER]):
        return False
    types = {frozenset(_types(reply.sections[AUTHORITY]) - DENIALS) for reply in (a, b)}
    return types == {frozenset((TYPE_NS,)), frozenset((TYPE_SOA,))}


def _is_denial(a: Reply, b: Reply) -> bool:
    """NSEC and NSEC3 records in the authority section, and their signatures."""
    return _rest_is_same(a, b, AUTHORITY) and all(_types((record,)) <= DENIALS for record in a.sections[AUTHORITY] ^ b.sections[AUTHORITY])


def _is_serial(a: Reply, b: Reply) -> bool:
    """SOA records in the answer that differ by their serial alone."""
    return _rest_is_same(a, b, ANSWER) and _without(a, _no_serial) == _without(b, _no_serial)


def _is_sha1(a: Reply, b: Reply) -> bool:
    """CDS records of SHA-1 that one has."""
    return _rest_is_same(a, b, ANSWER) and _without(a, _no_sha1) == _without(b, _no_sha1)


def _types(records: frozenset[Record] | tuple[Record, ...]) -> set[int]:
    """Their types; of a signature the type that it covers (RFC 4034 3.1.1)."""
    return {int.from_bytes(rdata[:2], "big") if rtype == TYPE_RRSIG else rtype for _, rtype, _, rdata in records}


def _without(reply: Reply, change: Callable[[Record], Record | None]) -> set[Record | None]:
    return {change(record) for record in reply.sections[ANSWER]} - {None}


def _no_serial(record: Record) -> Record:
    owner, rtype, rclass, rdata = record
    return (owner, rtype, rclass, rdata[:SOA_SERIAL] + bytes(4) + rdata[SOA_REST:]) if rtype == TYPE_SOA else record


def _no_sha1(record: Record) -> Record | None:
    return None if record[1] == TYPE_CDS and record[3][CDS_DIGEST : CDS_DIGEST + 1] == bytes((SHA1,)) else record


#: By the name that reports, metrics and options have: what it is, and whether it explains two replies that differ.
KNOWN: Final[dict[str, tuple[str, Callable[[Reply, Reply], bool]]]] = {
    "alias-end": ("NS records or SOA at the end of an alias that has not the type (RFC 2308 2.2)", _is_alias_end),
    "denial": ("NSEC or NSEC3 records that one leaves out or chooses otherwise (RFC 4035 3.1.3, 3.1.4)", _is_denial),
    "serial": ("the serial of a SOA record: with kubernetes it is the time of the server's last change", _is_serial),
    "sha1": ("a CDS record of SHA-1, which is not for new DS records (RFC 8624 3.3)", _is_sha1),
}
