"""What is different between two replies: which of their parts, after taking away what RFCs leave to servers."""

from __future__ import annotations

import dns.rdatatype as kinds

from tests.differential.replies import AUXILIARY, RA, Reply, Section

RECORDS = frozenset[tuple[bytes, int, frozenset[tuple[int, bytes]]]]


def parts(ours: Reply, theirs: Reply, apex: bytes) -> list[str]:
    """The parts that differ."""
    if ours.rcode != theirs.rcode:
        return ["rcode"]
    found = []
    if ours.authoritative != theirs.authoritative:
        found.append("aa")
    if (ours.flags ^ theirs.flags) & RA:
        found.append("ra")
    if ours.repeated > theirs.repeated:
        found.append("a record twice")
    if ours.answer != theirs.answer:
        found.append(answer(ours.answer, theirs.answer))
    mine, other = (authority(reply, apex) for reply in (ours, theirs))
    if mine != other:
        found.append(denial(mine, other))
    if "authority" not in found and is_referral(ours, apex) and is_referral(theirs, apex):
        if addresses(ours.additional) != addresses(theirs.additional):
            found.append("glue")
    elif contradict(ours.additional, theirs.additional):
        found.append("additional")
    return found


def answer(ours: Section, theirs: Section) -> str:
    same = {key: {rdata for _, rdata in records} for key, records in ours.items()} == {key: {rdata for _, rdata in records} for key, records in theirs.items()}
    return "answer's TTL" if same else "answer"


def authority(reply: Reply, apex: bytes) -> RECORDS:
    """The authority section without the zone's own NS records, which servers add to positive answers as they like."""
    signed = kinds.RRSIG
    out = []
    for (owner, kind), records in reply.authority.items():
        if owner == apex and kind == kinds.NS:
            continue
        kept = records if kind != signed or owner != apex else frozenset(record for record in records if record[1][:2] != b"\0\2")
        if kept:
            out.append((owner, kind, kept))
    return frozenset(out)


def denial(ours: RECORDS, theirs: RECORDS) -> str:
    """Which records of the authority section differ."""
    different = {kind for _, kind, _ in ours ^ theirs} - {kinds.RRSIG}
    for kind, name in ((kinds.SOA, "SOA"), (kinds.NS, "referral"), (kinds.DS, "DS"), (kinds.NSEC, "proof"), (kinds.NSEC3, "proof")):
        if kind in different:
            mine, other = ({one for one in side if one[1] == kind} for side in (ours, theirs))
            if not mine:
                return f"{name} missing"
            if not other:
                return f"{name} added"
            without_ttl = [{(owner, kind, frozenset(rdata for _, rdata in records)) for owner, kind, records in side} for side in (mine, other)]
            return f"{name}'s TTL" if without_ttl[0] == without_ttl[1] else name
    return "signatures"


def is_referral(reply: Reply, apex: bytes) -> bool:
    return any(kind == kinds.NS and owner != apex for owner, kind in reply.authority)


def addresses(section: Section) -> Section:
    return {key: records for key, records in section.items() if key[1] in (kinds.A, kinds.AAAA)}


def contradict(ours: Section, theirs: Section) -> bool:
    """Additional records are optional, but who shows them shows the same."""
    return any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys() if key[1] not in AUXILIARY)
