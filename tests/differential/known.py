"""Differences that have a reason. Each names its row in docs/differences.md, "Beside BIND, Knot and NSD", or the page's table of plugins for CoreDNS."""

from __future__ import annotations

import re
from typing import NamedTuple

ALL = ("bind", "knot", "nsd")


class Known(NamedTuple):
    """Differences of some servers. Those of one class are explained when there is an entry for each server that differs."""

    peers: tuple[str, ...]
    #: Matches the whole name of the part that differs (tests/differential/compare.py).
    part: str
    #: Is found in the look-up (tests/differential/situations.py).
    where: str
    #: The beginning of a row, without its bar.
    row: str

    def explains(self, peer: str, part: str, where: str) -> bool:
        return peer in self.peers and re.fullmatch(self.part, part) is not None and re.search(self.where, where) is not None


SOA_TTL = "file, auto, secondary | negative answers have the SOA record with its TTL |"
AFTER_ALIAS = "file, auto, secondary | at the end of a chain of aliases that has not the type: NS records |"
PROOFS = "file | in a signed zone: glue beside an absent name hides its NSEC record"
INSECURE = "file | in a signed zone with NSEC: the referral of an insecure delegation has no NSEC record |"
SIGNATURES = "file | queries for RRSIG at the apex"
GLUE = "file, auto, secondary | a referral has the addresses of servers at or below the delegated name |"
DELEGATION = "file, auto, secondary | a delegation and a DNAME at the same name"
DNAME_END = "file, auto, secondary | at the end of a chain through a DNAME a delegation is not shown |"
DNAME_ITSELF = "file, auto, secondary | SERVFAIL below a DNAME of itself |"
DNAME_LONG = "file | no reply if a DNAME target is too long |"
APEX = "file | NXDOMAIN for other types at the apex"
CONFLICTS = "file, auto, secondary | zones with records that contradict each other are served without a word"
TWICE = "file, auto, secondary | a chain that follows a DNAME record twice has it twice |"
EMPTY = "file, auto, secondary | a wildcard answers for an empty non-terminal beside it |"

KNOWN = [
    # ---- decisions in which fastdns goes with CoreDNS ----
    Known(ALL, r".*", r", ANY", "type ANY |"),
    Known(ALL, r"DS added", r"cut, (?!.*signed).*DO", "DS in a zone that is not signed |"),
    Known(ALL, r"rcode|answer|a record twice|proof|.* missing|.* added", r"> loop", "aliases that go round |"),
    Known((*ALL, "coredns"), r"rcode|answer", r"DNAME into itself", "DNAME to a name below its own |"),
    # ---- one of the others alone ----
    Known(("bind",), r"rcode", r"DNAME of itself", "DNAME of itself |"),
    Known(("bind",), r"glue", r"cut, ", "addresses in referrals |"),
    Known(("knot", "nsd"), r"glue", r"cut, ", "addresses in referrals |"),
    Known(("bind",), r".*", r"cut, NSEC, signed", "NSEC of a delegation |"),
    Known(("bind", "knot"), r".*", r"alias.*, (NSEC|RRSIG)", "RRSIG and NSEC at an alias |"),
    Known(("knot",), r"answer", r", RRSIG, signed", "RRSIG |"),
    Known(("knot",), r"proof.*", r"wildcard", "proofs for names with an asterisk |"),
    Known(("nsd",), r"proof.*", r"wildcard itself|empty wildcard", "proofs for names with an asterisk |"),
    Known(("nsd",), r"proof.*", r"DNAME > (alias > )?(absent|wildcard|empty)", "proofs behind a DNAME |"),
    # ---- CoreDNS ----
    Known(("coredns",), r"SOA's TTL", r"", SOA_TTL),
    Known(("coredns",), r"SOA added", r"(alias|DNAME) >|, ANY", AFTER_ALIAS),
    Known(("coredns",), r"proof.*", r"signed", PROOFS),
    Known(("coredns",), r"answer", r"wildcard alias.*signed, DO", PROOFS),
    Known(("coredns",), r"a record twice", r"DNAME >", TWICE),
    Known(("coredns",), r"proof added", r"cut, .*signed", INSECURE),
    Known(("coredns",), r".*", r", (RRSIG|NSEC)", SIGNATURES),
    Known(("coredns",), r"glue", r"cut, ", GLUE),
    Known(("coredns",), r"aa|answer|referral added", r"DNAME > .*cut", DNAME_END),
    Known(("coredns",), r"rcode|answer", r"DNAME of itself", DNAME_ITSELF),
    Known(("coredns",), r".*", r"empty non-terminal beside a wildcard", EMPTY),
    Known(("coredns",), r"rcode", r"apex lacks it", APEX),
]


class Contradiction(NamedTuple):
    """Who answers otherwise from a zone with records that contradict each other, where a look-up meets them (tests/differential/situations.py)."""

    #: Of tests/differential/zones.py.
    what: str
    peers: tuple[str, ...]
    #: Matches the whole name of the part that differs.
    part: str
    row: str


CONTRADICTORY = [
    Contradiction("CNAME and other data", ("coredns",), r".*", CONFLICTS),
    Contradiction("two CNAMEs", ("coredns",), r".*", CONFLICTS),
    Contradiction("two DNAMEs", ("coredns",), r".*", CONFLICTS),
    Contradiction("data below a DNAME", ("coredns",), r".*", CONFLICTS),
    Contradiction("DNAME at a delegation", ("coredns",), r".*", DELEGATION),
    Contradiction("wildcard delegation or DNAME", ("knot", "coredns"), r"rcode|answer|SOA .*|aa|referral .*", "NS and DNAME records of a wildcard |"),
    Contradiction("TTLs of an RRset differ", ("knot", "bind"), r".*TTL|additional", "TTLs that differ in an RRset |"),
]


def explanation(peer: str, part: str, where: str, contradictions: tuple[str, ...]) -> str | None:
    """The row of docs/differences.md that explains why a server differs; None: there is none."""
    for known in KNOWN:
        if known.explains(peer, part, where):
            return known.row
    for one in CONTRADICTORY:
        if one.what in contradictions and peer in one.peers and re.fullmatch(one.part, part) is not None:
            return one.row
    return None


def rows() -> set[str]:
    return {one.row for one in (*KNOWN, *CONTRADICTORY)}
