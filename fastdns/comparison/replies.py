"""Two replies to one question: whether they differ, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastdns._wire import name_text
from fastdns.comparison.canonical import Reply, read_reply, same
from fastdns.comparison.known import KNOWN, known_difference
from fastdns.protocol.parameters import rcode_text, type_text
from fastdns.zonefile.presentation import rdata_text

if TYPE_CHECKING:
    from fastdns.comparison.canonical import Record

__all__ = ["KINDS", "SAME", "TRUNCATED", "UNREADABLE", "Comparison", "compare", "describe", "is_truncated", "record_text"]

#: What is different, the gravest first; a pair that differs in several is counted as the first one.
KINDS: Final = ("rcode", "answer", "authority", "additional", "flags")
#: Results beside them: equal; one has TC, so that its records tell nothing; one is no DNS message.
SAME, TRUNCATED, UNREADABLE = "same", "truncated", "unreadable"
ALL_KNOWN: Final = frozenset(KNOWN)
TC: Final = 0x02


class Comparison(NamedTuple):
    #: `SAME`, `TRUNCATED`, `UNREADABLE`, or one of `KINDS`.
    kind: str
    #: Name of the known difference that explains it; "": none does, and with one of `KINDS` this is a difference.
    known: str = ""

    @property
    def is_difference(self) -> bool:
        return self.kind == UNREADABLE or (self.kind in KINDS and not self.known)


def compare(a: bytes, b: bytes, ignored: frozenset[str] = ALL_KNOWN) -> Comparison:
    """Compare two replies. ``ignored``: the known differences (`KNOWN`) that are told apart; the others are differences as any."""
    if not (is_truncated(a) or is_truncated(b)) and same(a, b):
        return Comparison(SAME)
    try:
        left, right = read_reply(a), read_reply(b)
    except ValueError:
        return Comparison(UNREADABLE)
    if left.truncated or right.truncated:
        return Comparison(TRUNCATED if left.rcode == right.rcode else "rcode")
    kind = kind_of(left, right)
    return Comparison(kind, known_difference(left, right, ignored) if kind != SAME else "")


def kind_of(a: Reply, b: Reply) -> str:
    if a.rcode != b.rcode:
        return "rcode"
    for section, kind in enumerate(KINDS[1:4]):
        if a.sections[section] != b.sections[section]:
            return kind
    return "flags" if a.authoritative != b.authoritative else SAME


def is_truncated(message: bytes) -> bool:
    return len(message) > 2 and bool(message[2] & TC)


def describe(message: bytes) -> dict[str, Any]:
    """A reply as reports have it: response code, bits, and the records of each section as sorted texts."""
    if not message:
        return {"rcode": "", "flags": [], "answer": [], "authority": [], "additional": [], "octets": 0}
    try:
        reply = read_reply(message)
    except ValueError as error:
        return {"rcode": "", "flags": [], "answer": [], "authority": [], "additional": [], "octets": len(message), "error": str(error)}
    sections = [sorted(map(record_text, section)) for section in reply.sections]
    flags = [word for word, is_set in (("aa", reply.authoritative), ("tc", reply.truncated)) if is_set]
    names = ("answer", "authority", "additional")
    return {"rcode": rcode_text(reply.rcode), "flags": flags, **dict(zip(names, sections, strict=True)), "octets": len(message)}


def record_text(record: Record) -> str:
    """Owner, type and rdata. A SOA's serial that is not compared is 0."""
    owner, rtype, _, rdata = record
    return f"{name_text(owner)} {type_text(rtype)} {rdata_text(rtype, rdata)}"
