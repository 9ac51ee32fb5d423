"""Replies of a scripted upstream: from a rule, or from records."""

from __future__ import annotations

from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.rrset

from tests.conformance.records import parse_record

__all__ = ["Rule", "build_reply", "rule_from_records"]

#: The head of upstream.py lists the keys.
Rule = dict[str, Any]


def build_reply(rule: Rule, query: dns.message.Message, via: str) -> bytes:
    if rule.get("garbage"):
        return bytes.fromhex(rule["garbage"])
    reply = dns.message.make_response(query)
    if rule.get("opcode"):
        reply.set_opcode(dns.opcode.from_text(rule["opcode"]))
    reply.flags &= ~(dns.flags.AA | dns.flags.RA | dns.flags.AD)
    for flag in rule.get("flags", "ra").split():
        reply.flags |= dns.flags.from_text(flag.upper())
    reply.set_rcode(dns.rcode.from_text(rule.get("rcode", "NOERROR")))
    if rule.get("tc") and via == "udp":
        reply.flags |= dns.flags.TC
    else:
        name = query.question[0].name.to_text()
        for section in ("answer", "authority", "additional"):
            for line in rule.get(section, ()):
                _add_record(getattr(reply, section), line.replace("{qname}", name))
    _set_edns(reply, rule, query)
    if rule.get("wrong_question"):
        reply.question[0].name = dns.name.from_text(rule["wrong_question"])
    if rule.get("wrong_id"):
        reply.id = (query.id + 1) & 0xFFFF
    if rule.get("case"):
        _change_case(reply, query, rule["case"])
    return _change_octets(reply.to_wire(max_size=65535), rule)


def _add_record(section: list[dns.rrset.RRset], line: str) -> None:
    added = parse_record(line)
    for rrset in section:
        if (rrset.name, rrset.rdtype) == (added.name, added.rdtype):
            rrset.update(added)  # type: ignore[no-untyped-call]
            return
    section.append(added)


def _set_edns(reply: dns.message.Message, rule: Rule, query: dns.message.Message) -> None:
    edns = rule.get("edns")
    if query.edns < 0 or edns == "none":
        reply.use_edns(-1)
        return
    options = list(query.options) if rule.get("copy_edns") else []
    if rule.get("ede"):
        code, _, text = str(rule["ede"]).partition(" ")
        options.append(dns.edns.EDEOption(dns.edns.EDECode.make(int(code)), text or None))
    payload = int(edns.split("=")[1]) if edns else 1232
    reply.use_edns(0, query.ednsflags & dns.flags.DO, payload, options=options)


def _change_case(reply: dns.message.Message, query: dns.message.Message, case: str) -> None:
    asked = query.question[0].name
    method = {"swap": "swapcase"}.get(case, case)
    name = dns.name.from_text(getattr(asked.to_text(), method)())
    for rrset in [reply.question[0], *(rrset for rrset in reply.answer if rrset.name == asked)]:
        rrset.name = name


def _change_octets(wire: bytes, rule: Rule) -> bytes:
    changed = bytearray(wire)
    for offset, octets in (rule.get("patch") or {}).items():
        data = bytes.fromhex(octets)
        changed[int(offset) : int(offset) + len(data)] = data
    if "cut" in rule:
        changed = changed[: rule["cut"]]
    return bytes(changed) + bytes.fromhex(rule.get("tail", ""))


def rule_from_records(description: dict[str, Any], query: dns.message.Message) -> Rule:
    """The rule that answers a query as the records of the description say."""
    name, rdtype = query.question[0].name, query.question[0].rdtype
    records = [parse_record(line) for line in description.get("records", ())]
    answer: list[dns.rrset.RRset] = []
    followed: set[dns.name.Name] = set()
    while True:
        here = [record for record in records if record.name == name]
        matching = [record for record in here if rdtype in (record.rdtype, dns.rdatatype.ANY)]
        aliases = [record for record in here if record.rdtype == dns.rdatatype.CNAME]
        if matching or not aliases or name in followed:
            break
        answer += aliases
        followed.add(name)
        name = aliases[0][0].target
    rule: Rule = {"answer": [record.to_text() for record in answer + matching]}
    if not matching:
        if not here and not answer:
            rule["rcode"] = "NXDOMAIN"
        if description.get("soa"):
            rule["authority"] = [description["soa"]]
    return rule
