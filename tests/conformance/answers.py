"""Replies as mappings of short texts, and what differs between two of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import dns.dnssec
import dns.exception
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsig

from tests.conformance.queries import Query, flag_names
from tests.conformance.records import describe_edns, parse_record

__all__ = ["Answer", "Options", "canonical", "compare", "counts_line", "mask", "signatures"]

Answer = dict[str, Any]
Options = Mapping[str, Any]

SECTIONS = ("question", "answer", "authority", "additional")
#: Errors of a message that is whole but for its signature.
UNSIGNED = (dns.tsig.PeerError, dns.tsig.BadSignature, dns.message.UnknownTSIGKey, dns.tsig.BadTime)


def canonical(data: bytes | None, query: Query | None = None, ordered: bool = False) -> Answer:
    """``data`` is the reply's octets; with ``ordered`` its records stay in the order received."""
    if data is None:
        return {"no_reply": True}
    answer: Answer = {}
    message = _parse(data, query, answer)
    if message is None:
        return {"unparseable": data[2:].hex()}
    bits = int.from_bytes(data[2:4], "big")
    if not bits & 0x8000:
        answer["broken"] = "no QR bit"
    if query is not None and message.id != query.message.id:
        answer["broken"] = "wrong id"
    rcode = message.rcode()
    answer["rcode"] = "BADVERS" if rcode == dns.rcode.BADVERS else dns.rcode.to_text(rcode)
    if message.opcode():
        answer["opcode"] = dns.opcode.to_text(message.opcode())
    answer["flags"] = flag_names(bits)
    for section in SECTIONS:
        lines = [_line(rrset, section) for rrset in getattr(message, section)]
        if lines:
            answer[section] = lines if ordered or section == "question" else sorted(lines)
    if edns := describe_edns(message):
        answer["edns"] = edns
    return answer


def _parse(data: bytes, query: Query | None, answer: Answer) -> dns.message.Message | None:
    """The message. What is wrong with it or its signature goes into ``answer``."""
    keys: dict[str, Any] = {}
    if query is not None and query.key is not None:
        keys = {"keyring": {query.key.name: query.key}, "request_mac": query.message.mac}
    try:
        message = dns.message.from_wire(data, one_rr_per_rrset=True, ignore_trailing=True, **keys)
        if message.had_tsig:
            answer["tsig"] = f"{message.keyname} ok"
    except dns.exception.DNSException as error:
        answer["tsig" if isinstance(error, (dns.tsig.PeerError, dns.tsig.BadSignature)) else "broken"] = type(error).__name__
        lenient: dict[str, Any] = {"ignore_trailing": True, "keyring": False} if isinstance(error, UNSIGNED) else {"continue_on_error": True}
        try:
            return dns.message.from_wire(data, one_rr_per_rrset=True, **lenient)
        except Exception:  # whatever the octets make the parser do
            return None
    return message


def _line(rrset: dns.rrset.RRset, section: str) -> str:
    kind = f"{dns.rdataclass.to_text(rrset.rdclass)} {dns.rdatatype.to_text(rrset.rdtype)}"
    if section == "question":
        return f"{rrset.name} {kind}"
    return f"{rrset.name} {rrset.ttl} {kind} {rrset[0].to_text()}" if len(rrset) else f"{rrset.name} {rrset.ttl} {kind}"


def signatures(data: bytes, keys: Iterable[str]) -> str:
    """For each type that is signed in the reply, whether the signature validates with the DNSKEYs, lines ``name ttl DNSKEY …``."""
    known: dict[dns.name.Name, Any] = {}
    for line in keys:
        key = parse_record(line)
        known.setdefault(key.name, key).update(key)
    message = dns.message.from_wire(data)
    found: set[str] = set()
    for section in (message.answer, message.authority, message.additional):
        for signed in (rrset for rrset in section if rrset.rdtype == dns.rdatatype.RRSIG):
            rrset = next((other for other in section if other.name == signed.name and other.rdtype == signed.covers), None)
            found.add(f"{dns.rdatatype.to_text(signed.covers)}:{_validity(rrset, signed, known)}")
    return " ".join(sorted(found))


def _validity(rrset: dns.rrset.RRset | None, signed: dns.rrset.RRset, keys: dict[dns.name.Name, Any]) -> str:
    if rrset is None:
        return "lonely"
    try:
        for signature in signed:
            dns.dnssec.validate_rrsig(rrset, signature, keys)
    except dns.exception.DNSException as error:
        return str(error) or type(error).__name__
    return "valid"


def mask(answer: Answer, step: Options) -> Answer:
    """The answer with the step's replacements made in all its texts."""
    text = json.dumps(answer)
    for pattern, replacement in (step.get("mask") or {}).items():
        text = re.sub(pattern, replacement, text)
    masked: Answer = json.loads(text)
    return masked


def counts_line(counts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(counts.items()))


# ---- comparing ----


def compare(wanted: Answer, got: Answer, options: Options) -> list[str]:
    """What differs between two answers, as short texts; README.md lists the options."""
    ignored = {"do", *options.get("ignore", ())}
    found = []
    for part in options.get("only") or dict.fromkeys([*wanted, *got]):
        if part in ignored:
            continue
        want, have = wanted.get(part), got.get(part)
        if part == "size":
            difference = f"{have} octets, wanted {want} at most" if want and have and have > want else ""
        elif isinstance(want, list) or isinstance(have, list):
            difference = _compare_lists(part, list(want or []), list(have or []), options)
        else:
            difference = "" if want == have else f"wanted {want!r}, got {have!r}"
        if difference:
            found.append(f"{part}: {difference}")
    return found


def _compare_lists(part: str, want: list[str], have: list[str], options: Options) -> str:
    if not options.get("ordered"):
        want, have = sorted(want), sorted(have)
    if options.get("count"):
        return "" if len(want) == len(have) else f"{len(have)} records, wanted {len(want)}"
    if want == have or (options.get("ttl") and part != "question" and _same_but_ttls(want, have, options)):
        return ""
    missing = [f"-[{line}]" for line in want if line not in have]
    added = [f"+[{line}]" for line in have if line not in want]
    return " ".join(missing + added) or "order or number differs"


def _same_but_ttls(want: list[str], have: list[str], options: Options) -> bool:
    """Whether the records are the same, and their TTLs within what the step's ``ttl`` allows."""
    wanted, got = [_split_ttl(line) for line in want], [_split_ttl(line) for line in have]
    if not options.get("ordered"):
        wanted, got = sorted(wanted, key=str), sorted(got, key=str)
    if [record for record, _ in wanted] != [record for record, _ in got]:
        return False
    allowed = options["ttl"]
    if allowed == "ignore":
        return True
    if allowed == "max":
        slack = options.get("slack", 2)
        return all(most - slack <= ttl <= most for (_, most), (_, ttl) in zip(wanted, got, strict=True))
    return isinstance(allowed, dict) and all(allowed.get("min", 0) <= ttl <= allowed["max"] for _, ttl in got)


def _split_ttl(line: str) -> tuple[str, int]:
    """``name ttl rest`` -> ``name rest`` and the TTL; -1 where the line has none."""
    words = line.split(" ", 2)
    return (f"{words[0]} {words[2]}", int(words[1])) if len(words) > 2 and words[1].isdigit() else (line, -1)
