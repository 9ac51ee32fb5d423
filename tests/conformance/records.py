"""Resource records and EDNS as one line of text."""

from __future__ import annotations

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

__all__ = ["describe_edns", "parse_record"]


def parse_record(line: str) -> dns.rrset.RRset:
    """``name ttl [class] type rdata``."""
    name, ttl, rest = line.split(None, 2)
    rdclass = "IN"
    if rest.split(None, 1)[0].upper() in ("IN", "CH", "HS"):
        rdclass, rest = rest.split(None, 1)
    rdtype, _, rdata = rest.partition(" ")
    key = dns.rdataclass.from_text(rdclass), dns.rdatatype.from_text(rdtype)
    rrset = dns.rrset.RRset(dns.name.from_text(name), *key)
    rrset.add(dns.rdata.from_text(*key, rdata.strip()), int(ttl))
    return rrset


def describe_edns(message: dns.message.Message) -> str:
    """``v0 udp=1232 do 3=hex``: version, size, DO and options; empty without an OPT record."""
    if message.edns < 0:
        return ""
    words = [f"v{message.edns} udp={message.payload}"]
    if message.ednsflags & dns.flags.DO:
        words.append("do")
    for option in message.options:
        if isinstance(option, dns.edns.EDEOption):
            words.append(f"ede={option.code:d}:{option.text or ''}")
        else:
            words.append(f"{option.otype:d}={(option.to_wire() or b'').hex()}")
    return " ".join(words)
