"""``fastdns diff OLD NEW``: which questions two Corefiles answer otherwise. Both run in process, one after the other, and ask nobody else."""

from __future__ import annotations

import json
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple

from fastdns._wire import accept
from fastdns.comparison.derived import CLIENT, derive, packet
from fastdns.comparison.files import read_recorded
from fastdns.comparison.question import question_of
from fastdns.comparison.replies import compare, describe
from fastdns.corefile import parse
from fastdns.corefile.errors import CorefileError
from fastdns.protocol.header import FLAG_CD, FLAG_RD
from fastdns.protocol.parameters import type_number, type_text
from fastdns.server.diff import zonefiles
from fastdns.server.diff.offline import Offline, Outcome
from fastdns.server.expectations import expectations
from fastdns.server.inspection import Inspection
from fastdns.server.source import Source

__all__ = ["run"]

#: What -queries takes beside a file.
RECORDER = "recorder"
RECORDED_MOST = 10_000
#: Clients that a difference names, and names of those that are shown together.
CLIENTS_MOST, NAMES_MOST = 5, 8
EDNS_DO = 0x8000
PLAIN = frozenset[str]()

Ask = Callable[[dict[str, Any], int], dict[str, Any]]
#: Question with id 0, and the client's address; how often it was asked.
Questions = Counter[tuple[bytes, bytes]]


class Difference(NamedTuple):
    """One name and type with what becomes of it in both: for all clients for whom that is the same."""

    name: str
    qtype: int
    address: str
    kind: str
    old: Outcome
    new: Outcome


def run(old: Source, new: Source, port: str, queries: str, capture_port: int, pid: int, as_json: bool, ask: Ask) -> int:
    """Print the differences. Returns 1 where there are some. Raises CorefileError, ValueError, OSError."""
    inspections = [_inspect(source, port) for source in (old, new)]
    questions, left_out = (_questions(queries, capture_port, pid, ask), 0) if queries else _derived((old, new), inspections)
    if not questions:
        raise ValueError("no questions to ask")
    before, addresses, zones = _outcomes(old, port, questions, [])
    after, served, new_zones = _outcomes(new, port, questions, addresses)
    found = _compare(questions, before, after, addresses, served)
    report = {
        "old": old.file,
        "new": new.file,
        "questions": len({question for question, _ in questions}),
        "clients": len({client for _, client in questions}),
        "asked": questions.total(),
        "names_left_out": left_out,
        "zones": [_zone(zone, "old") for zone in sorted(zones - new_zones)] + [_zone(zone, "new") for zone in sorted(new_zones - zones)],
        "differences": [_described(difference, clients) for difference, clients in found.items()],
    }
    if as_json:
        json.dump(report, sys.stdout, indent=2)
        print()
    else:
        print("\n".join(_text(report)))
    return int(bool(report["differences"] or report["zones"]))


def _inspect(source: Source, port: str) -> Inspection:
    """Raises CorefileError where it would not be served."""
    inspection = Inspection(source, port)
    for problem in inspection.problems:
        if problem.severity == "error":
            raise CorefileError(str(problem))
    return inspection


# ---- questions ----


def _questions(queries: str, capture_port: int, pid: int, ask: Ask) -> Questions:
    """Of a file, or of the running server's recorder. Raises ValueError, OSError."""
    found: Questions = Counter()
    if queries != RECORDER:
        for message in read_recorded(queries, capture_port):
            question = b"" if message.is_reply else question_of(message.octets)
            if question:
                found[question, message.client or CLIENT] += 1
        return found
    section = ask({"sections": [RECORDER], "most": RECORDED_MOST}, pid).get(RECORDER)
    if section is None:
        raise ValueError("the Corefile that is served has no recorder")
    for query in section["queries"]:
        flags = query["flags"]
        bits = (FLAG_RD if "rd" in flags else 0) | (FLAG_CD if "cd" in flags else 0)
        octets = packet(query["name"], type_number(query["type"]), "edns" in flags, bits, EDNS_DO if "do" in flags else 0)
        if query["class"] == "IN" and question_of(octets):
            found[octets, ip_address(query["client"]).packed] += 1
    return found


def _derived(sources: Iterable[Source], inspections: Sequence[Inspection]) -> tuple[Questions, int]:
    """Of the zones and names in both Corefiles and in their zone files, and of their `test` lines; how many names of zone files are left out."""
    blocks = [block for source in sources for block in parse(source.data, source.file, lambda name: True)]
    in_files, left_out = zonefiles.questions([inspection.configs for inspection in inspections])
    found: Questions = Counter(dict.fromkeys([*derive(blocks), *in_files], 1))
    for inspection in inspections:
        for config in inspection.configs:
            for expectation in expectations(config.values):
                question = question_of(expectation.question.packet())
                if question:
                    found[question, expectation.question.client] = 1
    return found, left_out


# ---- outcomes ----


def _outcomes(source: Source, port: str, questions: Questions, wanted: list[str]) -> tuple[dict[tuple[str, bytes, bytes], Outcome], list[str], set[Any]]:
    """What becomes of each question at each address: of ``wanted``, or if none of these is served the first one; the addresses; the zones."""
    offline = Offline(source, port)
    try:
        served = [address for address in offline.addresses if address.startswith("dns://")] or offline.addresses
        common = [address for address in served if address in wanted] or (served[:1] if wanted else served)
        found = {(address, *question): offline.ask(*question, address) for address in common for question in questions}
        return found, common, offline.zones()
    finally:
        offline.close()


def _compare(
    questions: Questions,
    before: dict[tuple[str, bytes, bytes], Outcome],
    after: dict[tuple[str, bytes, bytes], Outcome],
    addresses: list[str],
    served: list[str],
) -> dict[Difference, Counter[bytes]]:
    """The differences with their clients, and how often each has asked. Addresses that both serve are compared, or else the first ones."""
    pairs = [(address, address) for address in addresses if address in served] or [(addresses[0], served[0])]
    found: OrderedDict[Difference, Counter[bytes]] = OrderedDict()
    for (question, client), times in questions.items():
        for one, other in pairs:
            old, new = before[one, question, client], after[other, question, client]
            kind = _kind(old, new)
            if kind:
                _, _, name, qtype, _ = accept(question)
                found.setdefault(Difference(name or "?", qtype, other, kind, old, new), Counter())[client] += times
    return found


def _kind(old: Outcome, new: Outcome) -> str:
    """How they differ; "" for not at all."""
    if old.outcome != new.outcome:
        return "outcome"
    if old.elsewhere != new.elsewhere:
        return "elsewhere"
    if old.outcome != "reply":
        return ""
    found = compare(old.message, new.message, PLAIN)
    return found.kind if found.is_difference else ""


# ---- the report ----


def _zone(zone: tuple[str, str, str], where: str) -> dict[str, str]:
    return {"address": zone[0], "zone": zone[1], "view": zone[2], "only_in": where}


def _described(difference: Difference, clients: Counter[bytes]) -> dict[str, Any]:
    return {
        "name": difference.name,
        "type": type_text(difference.qtype),
        "kind": difference.kind,
        "times": clients.total(),
        "clients": [str(ip_address(client)) for client, _ in clients.most_common(CLIENTS_MOST)],
        "clients_count": len(clients),
        "address": difference.address,
        "old": _side(difference.old),
        "new": _side(difference.new),
    }


def _side(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome.outcome,
        "zone": outcome.zone,
        "plugin": outcome.plugin,
        "elsewhere": [{"directive": text, "name": name, "type": type_text(qtype)} for text, name, qtype in outcome.elsewhere],
        "reply": describe(outcome.message),
    }


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _text(report: dict[str, Any]) -> list[str]:
    differences = report["differences"]
    names = {difference["name"] for difference in differences}
    lines = [
        f"{_number(report['questions'], 'question')} of {_number(report['clients'], 'client')}: {len(differences):,} would be answered otherwise"
        + (f", for {_number(len(names), 'name')}" if names else "")
    ]
    for zone in report["zones"]:
        view = f" (view {zone['view']})" if zone["view"] else ""
        lines.append(f"zone {zone['zone']}{view} at {zone['address']}: {'goes' if zone['only_in'] == 'old' else 'comes'}")
    if report["names_left_out"]:
        lines.append(f"{report['names_left_out']:,} more names in zone files were not asked about")
    zones = Counter(difference["new"]["zone"] or difference["old"]["zone"] or "(none)" for difference in differences)
    lines += [f"zone {zone}: {count:,} otherwise" for zone, count in sorted(zones.items())]
    for group in _groups(differences):
        lines += _group_text(group)
    return lines


def _groups(differences: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Those that become the same in both, such as all that another server is asked from now on; the largest group first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for difference in differences:
        sides = [_side_text(side, difference, other) for side, other in (("old", "new"), ("new", "old"))]
        found.setdefault(json.dumps([difference["kind"], *sides]), []).append(difference)
    return sorted(found.values(), key=len, reverse=True)


def _group_text(group: list[dict[str, Any]]) -> list[str]:
    names = [f"{difference['name']} {difference['type']}" for difference in group]
    clients = list(dict.fromkeys(client for difference in group for client in difference["clients"]))
    more_clients = max(difference["clients_count"] for difference in group) > CLIENTS_MOST or len(clients) > CLIENTS_MOST
    times = sum(difference["times"] for difference in group)
    head = ", ".join(names[:NAMES_MOST]) + (f" and {len(names) - NAMES_MOST:,} more" if len(names) > NAMES_MOST else "")
    lines = [f"{head}: {group[0]['kind']}, asked {_number(times, 'time')} by {' '.join(clients[:CLIENTS_MOST])}" + (" and others" if more_clients else "")]
    for side, other in (("old", "new"), ("new", "old")):
        lines += [f"    {line}" for line in _side_text(side, group[0], other)]
    return lines


def _side_text(title: str, difference: dict[str, Any], other: str) -> list[str]:
    """What becomes of it, and the records that the other side has not."""
    side, reply = difference[title], difference[title]["reply"]
    words = {"reply": f"{reply['rcode']} {' '.join(reply['flags'])}".rstrip(), "elsewhere": "asked of others"}.get(side["outcome"], side["outcome"])
    lines = [f"{title}  {words}" + (f" by {side['plugin']}" if side["plugin"] else "")]
    for part in side["elsewhere"]:
        is_other = (part["name"], part["type"]) != (difference["name"].lower(), difference["type"])
        lines.append(f"         {part['directive']}" + (f" (for {part['name']} {part['type']})" if is_other else ""))
    for section in ("answer", "authority", "additional"):
        lines += [f"         {section} {record}" for record in reply[section] if record not in difference[other]["reply"][section]]
    return lines
