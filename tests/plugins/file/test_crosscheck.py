"""What file says beside what Knot and NSD say, of the same zones: rcode, AA, answer, and denials with their proofs.

Where fastdns goes with CoreDNS and not with them, `explained` knows; docs/differences.md tells operators.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import dns.exception
import dns.name
import dns.rdatatype
import pytest

from tests.differential.replies import AUXILIARY, Reply, Section, ask, query
from tests.plugins.file.zones import make_zones, questions, run_knot, run_nsd
from tests.server import Server

#: Queries that are sent to every server before any of their replies is waited for.
BATCH = 100


def without(found: Section, *kinds: int) -> Section:
    return {(owner, kind): records for (owner, kind), records in found.items() if kind not in kinds}


def compare(ours: Reply, theirs: Reply, origin: str, rdtype: str) -> str:
    """What is different, or ""."""
    if ours.rcode != theirs.rcode:
        return "rcode"
    if ours.answer != theirs.answer:
        return "answer"
    if rdtype != "CNAME" and any(kind == dns.rdatatype.CNAME for _, kind in ours.answer):
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


def proofs(reply: Reply) -> Section:
    """Denials of the authority section with their signatures."""
    owners = {owner for owner, kind in reply.authority if kind in (dns.rdatatype.NSEC, dns.rdatatype.NSEC3)}
    return {(owner, kind): records for (owner, kind), records in reply.authority.items() if owner in owners and kind in AUXILIARY}


def explained(what: str, ours: Reply, peer: str, origin: str, name: dns.name.Name, rdtype: str) -> str:
    """Why it is different on purpose, or ""."""
    if what == "referral" and origin.startswith("plain") and dns.rdatatype.DS in {kind for _, kind in ours.authority}:
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
            replies = ask(ports, [query(name.to_wire() or b"", dns.rdatatype.from_text(rdtype), do) for _, name, rdtype, do in few])
            checked += len(few)
            for (origin, name, rdtype, do), ours, *all_theirs in zip(few, *replies, strict=True):
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
