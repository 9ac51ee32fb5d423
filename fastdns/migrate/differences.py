"""The rows of docs/differences.md that a Corefile is concerned by."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from fastdns.migrate.facts import Facts

__all__ = ["Difference", "applying"]

#: Copies of the pages, as links in a source tree.
FOLDER = os.path.dirname(__file__)
PAGE = "differences.md"
LATER = "coredns-1.15.md"
ROW = re.compile(r"^\| (.*) \|$", re.M)
CELL = re.compile(r"(?<!\\) \| ")
#: Words in the first column of the table of transports, and whose servers are meant.
TRANSPORTS = {"DoH": "https", "DNS over HTTPS": "https", "HTTP/2": "https", "DoQ": "quic", "DoH3": "https3", "gRPC": "grpc", "TLS": "tls"}
PLAIN = {"UDP", "TCP", "EDNS"}
MARKED = re.compile(r"\*(\w+)\*|`(\w+)`")
#: What CoreDNS does not have is in no Corefile of its.
NEW = re.compile(r"(does not exist|do not exist|unknown|refused|takes no argument)\b")
#: What fastdns does where it is told to, or beside what CoreDNS does.
OFFERED = re.compile(r"(also|can|with `)|.*off by default")
#: An option or placeholder that a row begins with.
OPTION = re.compile(r"`([a-z][a-z_]{2,}|\{\w+\}|\w+://)[` ]")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Difference(NamedTuple):
    """``about`` is a plugin, a transport or ``process``."""

    about: str
    what: str
    coredns: str
    fastdns: str
    why: str


def applying(facts: Facts, version: tuple[int, ...]) -> list[Difference]:
    """Those of a Corefile whose CoreDNS has a version, () for an unknown one: of its plugins first. OSError where the page is missing."""
    found = [row for row in _plugins(_rows(PAGE, "## Plugins")) if _concerns(row, facts)]
    found += [Difference("transport", *row) for row in _rows(PAGE, "## Transports") if len(row) == 4 and _of_transport(row[0], facts)]
    found += [Difference("process", *row) for row in _rows(PAGE, "## The Corefile and the process") if len(row) == 4 and _of_process(row, facts)]
    if version >= (1, 15):
        for row in _rows(LATER, "## Behaviour of 1.14.7 that 1.15.0 has changed"):
            named = {word for pair in MARKED.findall(row[0].partition(":")[0]) for word in pair if word}
            if len(row) == 3 and (not named or named & facts.directives):
                about = ", ".join(sorted(named & facts.directives)) or "process"
                found.append(Difference(about, row[0], row[2], row[1], "the reference is CoreDNS 1.14.7"))
    return found


def _rows(page: str, heading: str) -> list[list[str]]:
    with open(os.path.join(FOLDER, page), encoding="utf-8") as file:
        section = file.read().partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return [[LINK.sub(r"\1", cell) for cell in CELL.split(row)] for row in ROW.findall(section)][1:]


def _plugins(rows: list[list[str]]) -> list[Difference]:
    return [Difference(row[0], "", *row[1:]) for row in rows if len(row) == 4]


def _concerns(row: Difference, facts: Facts) -> bool:
    named = {word.strip() for word in re.sub(r"\([^)]*\)", "", row.about).split(",")} & facts.directives
    if not named or OFFERED.match(row.fastdns) or NEW.fullmatch(row.coredns):
        return False
    option = OPTION.match(row.coredns)
    if option is None or "by default" in row.coredns:
        return True
    return any(option[1] in word for name in named for word in facts.words(name))


def _of_transport(what: str, facts: Facts) -> bool:
    head = what.partition(":")[0] if ":" in what else what
    marked = [word for pair in MARKED.findall(head) for word in pair if word]
    if marked:
        # A property of the others: `tls` of *prometheus*.
        return marked[0] in facts.directives or any(marked[0] in facts.words(other) for other in marked[1:])
    names = {transport for word, transport in TRANSPORTS.items() if re.search(rf"\b{re.escape(word)}\b", head)}
    return not names or bool(names & facts.transports) or any(re.search(rf"\b{word}\b", head) for word in PLAIN)


def _of_process(row: list[str], facts: Facts) -> bool:
    marked = {word for pair in MARKED.findall(row[0]) for word in pair if word}
    if NEW.match(row[1]):
        return False
    its = marked & {"reload", "health", "ready", "prometheus"}
    return not its or bool(its & facts.directives)
