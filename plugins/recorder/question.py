"""A recorded query as JSON has it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from fastdns._wire import name_text, records
from fastdns.plugins.recorder import _records
from fastdns.plugins.recorder._recorder import chain_of, zone_of
from fastdns.plugins.recorder._records import Asked, Recorded
from fastdns.protocol.parameters import class_text, rcode_text, type_text
from fastdns.zonefile.presentation import rdata_text

__all__ = ["FATES", "TRANSPORTS", "asked", "asked_text", "describe"]

#: In the order of `Transport` (fastdns/walk/query.pxd).
TRANSPORTS = ("udp", "tcp", "tls", "https", "https3", "quic", "grpc")
#: Bits of the header, and how they are called.
FLAGS = ((0x0400, "aa"), (0x0200, "tc"), (0x0100, "rd"), (0x0080, "ra"), (0x0020, "ad"), (0x0010, "cd"))
EDNS_DO = 0x8000
BADVERS = 16
#: In the order of `Fate` (_asked.pxd): what became of one of two questions.
FATES = ("waiting", "answered", "replied", "timeout", "failed", "discarded")
#: Words of handlers that have none of their own for what they did; those of `fastdns explain`.
PASSED, ANSWERED, FAILED, DROPPED, WAITED = "passed it on", "answered", "failed", "dropped", "waits"


def asked(one: Asked) -> dict[str, Any]:
    """Seconds; ``at`` from when the query came, ``took`` until its fate was known."""
    fate, took = FATES[one.fate], f"{one.took * 1e3:.3f} ms"
    rcode = rcode_text(one.rcode) if fate in ("answered", "replied") else ""
    says = {
        "waiting": "no reply",
        "answered": f"answered in {took}",
        "replied": f"{rcode} in {took}, not the answer",
        "timeout": f"timed out after {took}",
        "failed": f"failed after {took}",
        "discarded": f"no reply in {took}, a later one is discarded",
    }
    return {"upstream": one.upstream, "at": one.at, "took": None if fate == "waiting" else one.took, "outcome": fate, "rcode": rcode, "says": says[fate]}


def asked_text(one: Asked) -> str:
    return f"asked {one.upstream} after {one.at * 1e3:.3f} ms: {asked(one)['says']}"


def describe(record: Recorded, offset: int) -> dict[str, Any]:
    """``offset``: ns from the clock of records to the time since 1970."""
    server, zone, view = zone_of(record.zone)
    dropped = bool(record.marks & _records.UNSENT)
    return {
        "time": (record.received + offset) / 1e9,
        "name": name_text(record.name),
        "type": type_text(record.qtype),
        "class": class_text(record.qclass),
        "client": str(ip_address(record.client)),
        "port": record.client_port,
        "transport": TRANSPORTS[record.transport] if record.transport < len(TRANSPORTS) else "",
        "rcode": "DROPPED" if dropped else "BADVERS" if record.rcode == BADVERS else rcode_text(record.rcode),
        "took": record.took,
        "stages": stages(record),
        "upstream": record.upstream,
        **({"asked": [asked(one) for one in record.pair]} if record.pair else {}),
        "flags": flag_words(record.flags, record.edns_flags if record.marks & _records.EDNS else None),
        "reply_flags": flag_words(record.reply_flags, None),
        "size": 0 if dropped else record.size,
        "answer": answer(record.reply),
        "error": record.error,
        "server": server,
        "zone": zone,
        "view": view,
        "whole": bool(record.packet),
    }


def flag_words(flags: int, edns: int | None) -> list[str]:
    """Of the header, and of EDNS, which may not be there."""
    words = [word for bit, word in FLAGS if flags & bit]
    return words if edns is None else [*words, "edns", *(["do"] if edns & EDNS_DO else [])]


def answer(reply: bytes) -> list[str]:
    """Type and rdata of the records of the answer section."""
    try:
        return [f"{type_text(rtype)} {rdata_text(rtype, rdata)}" for section, _, rtype, _, _, rdata in records(reply) if section == 0] if reply else []
    except ValueError:
        return []


def stages(record: Recorded) -> list[dict[str, Any]]:
    """The handlers that were asked, what each did and for how long it waited. Seconds; ``at`` from when the query came."""
    chain = chain_of(record.chain)
    notes = dict(record.notes)
    ended = record.writer if record.writer < len(chain) and record.marks & _records.WRITTEN else record.deepest
    found: list[dict[str, Any]] = []
    for position, (name, words) in enumerate(chain):
        waits = [waited for waited in record.waits if waited.handler == position]
        if position > record.deepest and not waits:  # those below were not asked, but by what a handler asks for itself
            continue
        verdict = "next"
        if position == ended:
            verdict = "dropped" if record.marks & _records.UNSENT else "answered" if record.marks & _records.WRITTEN else "failed"
        says = words.get(f"query {verdict}") or {"next": PASSED, "answered": ANSWERED, "failed": FAILED, "dropped": DROPPED}[verdict]
        stage: dict[str, Any] = {"plugin": name, "says": says if position <= record.deepest else WAITED}
        if position in notes:
            stage["note"] = notes[position]
        if waits:
            stage |= {"at": waits[0].at, "waited": sum(waited.took for waited in waits), "waits": sum(1 + waited.more for waited in waits)}
        found.append(stage)
    elsewhere = [waited for waited in record.waits if waited.handler >= len(chain)]
    found += [{"plugin": "", "says": WAITED, "at": waited.at, "waited": waited.took, "waits": 1 + waited.more} for waited in elsewhere]
    return found
