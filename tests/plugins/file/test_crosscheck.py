"""What file says beside what Knot and NSD say, of the same zones: rcode, AA, answer, and denials with their proofs.

Where fastdns goes with CoreDNS and not with them, `explained` knows; docs/differences.md tells operators.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from tests.plugins.file.zones import make_zones, questions, run_knot, run_nsd
from tests.server import Server
from tests.waiting import REPLY

SETS = frozenset[tuple[dns.name.Name, int, frozenset[str]]]
AUXILIARY = (dns.rdatatype.RRSIG, dns.rdatatype.NSEC, dns.rdatatype.NSEC3)


def sets(section: list[dns.rrset.RRset]) -> SETS:
    return frozenset((rrset.name.canonicalize(), rrset.rdtype, frozenset(f"{rrset.ttl} {rdata}".lower() for rdata in rrset)) for rrset in section)


class Said:
    """A reply, in the parts that are compared."""

    def __init__(self, reply: dns.message.Message) -> None:
        self.rcode = dns.rcode.to_text(reply.rcode())
        self.authoritative = bool(reply.flags & dns.flags.AA)
        self.answer = sets(reply.answer)
        self.authority = sets(reply.authority)

    def kinds(self) -> set[int]:
        return {kind for _, kind, _ in self.authority}

    def __str__(self) -> str:
        return f"{self.rcode} {self.authoritative} {sorted(map(str, self.answer))} {sorted(map(str, self.authority))}"


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


def ask(port: int, name: dns.name.Name, rdtype: str, do: bool) -> Said:
    request = dns.message.make_query(name, rdtype, use_edns=0, payload=4096, want_dnssec=do)
    for _ in range(5):
        try:
            return Said(dns.query.udp_with_fallback(request, "127.0.0.1", port=port, timeout=REPLY)[0])
        except dns.exception.Timeout:
            continue
    raise AssertionError(f"no reply to {name} {rdtype}")


def explained(what: str, ours: Said, peer: str, origin: str, name: dns.name.Name, rdtype: str) -> str:
    """Why it is different on purpose, or ""."""
    if what == "referral" and origin.startswith("plain") and dns.rdatatype.DS in ours.kinds():
        return "CoreDNS shows a DS in zones without signatures, too"
    if what == "denial" and peer == "nsd" and name.labels[0] == b"*" and origin.startswith(("nsec3", "optout")):
        return "NSD denies an expansion, too, where a wildcard is asked for itself"
    return ""


def crosscheck(folder: Path, count: int, seed: int, names: int) -> None:
    zones = make_zones(folder, names)
    corefile = "".join(f"{origin}:{{port}} {{\n bind 127.0.0.1\n file {path}\n}}\n" for origin, path in zones.items())
    with ExitStack() as stack:
        server = stack.enter_context(Server(folder, corefile))
        peers = {"knot": stack.enter_context(run_knot(folder, zones)), "nsd": stack.enter_context(run_nsd(folder, zones))}  # type: ignore[var-annotated, call-overload]
        different: list[str] = []
        reasons: Counter[str] = Counter()
        checked = 0
        for origin, text, rdtype, do in questions(count, seed, names):
            try:
                name = dns.name.from_text(text)
            except dns.exception.DNSException:
                continue
            ours = ask(server.port, name, rdtype, do)
            checked += 1
            for peer, port in peers.items():
                theirs = ask(port, name, rdtype, do)
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
