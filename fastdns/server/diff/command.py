"""``fastdns diff OLD NEW``: which questions two Corefiles answer otherwise. Both run in process, question by question."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from ipaddress import ip_address
from typing import Any

from fastdns.comparison.derived import CLIENT, derive, packet
from fastdns.comparison.files import read_recorded
from fastdns.comparison.question import question_of
from fastdns.corefile import parse
from fastdns.corefile.errors import CorefileError
from fastdns.protocol.header import FLAG_CD, FLAG_RD
from fastdns.protocol.parameters import type_number
from fastdns.server.diff import zonefiles
from fastdns.server.diff.differences import Differences
from fastdns.server.diff.offline import Offline
from fastdns.server.diff.questions import Questions
from fastdns.server.diff.report import text
from fastdns.server.expectations import expectations
from fastdns.server.inspection import Inspection
from fastdns.server.source import Source

__all__ = ["run"]

#: What -queries takes beside a file.
RECORDER = "recorder"
RECORDED_MOST = 10_000
EDNS_DO = 0x8000

Ask = Callable[[dict[str, Any], int], dict[str, Any]]


def run(old: Source, new: Source, port: str, queries: str, capture_port: int, pid: int, as_json: bool, asks_upstreams: bool, ask: Ask) -> int:
    """Print the differences. Returns 1 where there are some. ``ask`` is the control socket's. Raises CorefileError, ValueError, OSError."""
    with ExitStack() as stack:
        questions = stack.enter_context(closing(Questions()))
        left_out = _find(questions, (old, new), port, queries, capture_port, pid, ask)
        count, clients, asked = questions.counts()
        if not count:
            raise ValueError("no questions to ask")
        before = stack.enter_context(closing(Offline(old, port, asks_upstreams)))
        after = stack.enter_context(closing(Offline(new, port, asks_upstreams, before)))
        differences = Differences()
        _compare(questions, before, after, differences)
        zones, new_zones = before.zones(), after.zones()
    report = {
        "old": old.file,
        "new": new.file,
        "questions": count,
        "clients": clients,
        "asked": asked,
        "names_left_out": left_out,
        "zones": [_zone(zone, "old") for zone in sorted(zones - new_zones)] + [_zone(zone, "new") for zone in sorted(new_zones - zones)],
        **differences.report(),
    }
    if as_json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print("\n".join(text(report, differences.groups())))
    return int(bool(report["differences"] or report["zones"]))


def _inspect(source: Source, port: str) -> Inspection:
    """Raises CorefileError where it would not be served."""
    inspection = Inspection(source, port)
    for problem in inspection.problems:
        if problem.severity == "error":
            raise CorefileError(str(problem))
    return inspection


def _zone(zone: tuple[str, str, str], where: str) -> dict[str, str]:
    return {"address": zone[0], "zone": zone[1], "view": zone[2], "only_in": where}


# ---- questions ----


def _find(questions: Questions, sources: tuple[Source, Source], port: str, queries: str, capture_port: int, pid: int, ask: Ask) -> int:
    """Add the questions; how many names of zone files are left out. Raises CorefileError, ValueError, OSError."""
    inspections = [_inspect(source, port) for source in sources]
    if not queries:
        return _derive(questions, sources, inspections)
    questions.add(_recorded(pid, ask) if queries == RECORDER else _read(queries, capture_port))
    return 0


def _read(path: str, port: int) -> Iterator[tuple[bytes, bytes]]:
    """Of a file. Raises ValueError."""
    for message in read_recorded(path, port):
        question = b"" if message.is_reply else question_of(message.octets)
        if question:
            yield question, message.client or CLIENT


def _recorded(pid: int, ask: Ask) -> Iterator[tuple[bytes, bytes]]:
    """Of the running server's recorder. Raises ValueError, OSError."""
    section = ask({"sections": [RECORDER], "most": RECORDED_MOST}, pid).get(RECORDER)
    if section is None:
        raise ValueError("the Corefile that is served has no recorder")
    for query in section["queries"]:
        flags = query["flags"]
        bits = (FLAG_RD if "rd" in flags else 0) | (FLAG_CD if "cd" in flags else 0)
        octets = packet(query["name"], type_number(query["type"]), "edns" in flags, bits, EDNS_DO if "do" in flags else 0)
        if query["class"] == "IN" and question_of(octets):
            yield octets, ip_address(query["client"]).packed


def _derive(questions: Questions, sources: Iterable[Source], inspections: Sequence[Inspection]) -> int:
    """Of the zones and names in both Corefiles and in their zone files, and of their `test` lines; how many names of zone files are left out."""
    questions.add(derive(block for source in sources for block in parse(source.data, source.file, lambda name: True)), once=True)
    in_files, left_out = zonefiles.questions([inspection.configs for inspection in inspections])
    questions.add(in_files, once=True)
    expected = [expectation.question for inspection in inspections for config in inspection.configs for expectation in expectations(config.values)]
    questions.add(((question, asked.client) for asked in expected if (question := question_of(asked.packet()))), once=True)
    return left_out


# ---- answers ----


def _compare(questions: Questions, before: Offline, after: Offline, differences: Differences) -> None:
    """At each address that both serve, or else at the first one of each."""
    ours, theirs = (_served(side) for side in (before, after))
    pairs = [(address, address) for address in ours if address in theirs] or [(ours[0], theirs[0])]
    for asked in questions:
        for one, other in pairs:
            old, new = before.ask(asked.question, asked.client, one), after.ask(asked.question, asked.client, other)
            differences.add(asked, other, old, new)


def _served(side: Offline) -> list[str]:
    return [address for address in side.addresses if address.startswith("dns://")] or side.addresses
