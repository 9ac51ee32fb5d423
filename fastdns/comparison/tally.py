"""Comparisons counted, and the last differences with both replies."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from fastdns._wire import accept
from fastdns.comparison.known import KNOWN
from fastdns.comparison.replies import KINDS, SAME, TRUNCATED, UNREADABLE, Comparison, compare, describe
from fastdns.protocol.parameters import type_text

__all__ = ["DIFFERENCES", "KEEP", "UNANSWERED", "Tally", "text"]

#: One server has answered and the other one has not.
UNANSWERED: Final = "unanswered"
#: What counts as a difference.
DIFFERENCES: Final = (*KINDS, UNREADABLE, UNANSWERED)
#: Differences that are kept, where nothing else is told.
KEEP = 100


class Kept(NamedTuple):
    """A name and type with a kind of difference, and the last pair of replies that had it."""

    times: int
    first: float
    last: float
    client: bytes
    question: bytes
    replies: tuple[bytes, bytes]


class Tally:
    """Of pairs of replies."""

    def __init__(self, keep: int = KEEP, ignored: frozenset[str] = frozenset(KNOWN)) -> None:
        self.keep, self.ignored = keep, ignored
        #: By `SAME`, `TRUNCATED` and what `DIFFERENCES` has.
        self.results: Counter[str] = Counter()
        #: Known differences, by name.
        self.known: Counter[str] = Counter()
        #: Questions that neither has answered.
        self.silent = 0
        self._kept: OrderedDict[tuple[str, int, str], Kept] = OrderedDict()

    def add(self, question: bytes, client: bytes, a: bytes, b: bytes, when: float | None = None) -> Comparison:
        """Compare two replies to a question, of which one may be empty: there is none. ``when``: seconds since 1970, now by default."""
        found = compare(a, b, self.ignored) if a and b else Comparison(UNANSWERED)
        if found.known:
            self.known[found.known] += 1
            return found
        self.results[found.kind] += 1
        if found.kind in DIFFERENCES and self.keep:
            now = time.time() if when is None else when
            _, _, name, qtype, _ = accept(question)
            key = (name or "?", qtype, found.kind)
            former = self._kept.pop(key, None)
            self._kept[key] = Kept(former.times + 1 if former else 1, former.first if former else now, now, client, question, (a, b))
            if len(self._kept) > self.keep:
                self._kept.popitem(last=False)
        return found

    @property
    def differences(self) -> int:
        return sum(self.results[kind] for kind in DIFFERENCES)

    def report(self, servers: tuple[str, str]) -> dict[str, Any]:
        """All of it, of values that JSON has; the newest difference first. ``servers``: what the first and the second replies are of."""
        return {
            "servers": list(servers),
            "questions": self.results.total() + self.known.total() + self.silent,
            "same": self.results[SAME],
            "truncated": self.results[TRUNCATED],
            "silent": self.silent,
            "known": dict(self.known),
            "differences": {kind: self.results[kind] for kind in DIFFERENCES if self.results[kind]},
            "kept": [
                {
                    "name": name,
                    "type": type_text(qtype),
                    "kind": kind,
                    "times": kept.times,
                    "first": kept.first,
                    "last": kept.last,
                    "client": str(ip_address(kept.client)) if kept.client else "",
                    "replies": list(map(describe, kept.replies)),
                }
                for (name, qtype, kind), kept in reversed(list(self._kept.items()))
            ],
        }


def text(report: Mapping[str, Any]) -> list[str]:
    """The lines of a report: how many questions and differences, and what each difference is."""
    count = sum(report["differences"].values())
    lines = [f"{report['questions']:,} questions, {count:,} differences" + (", here they are:" if report["kept"] else "")]
    for kept in report["kept"]:
        times = f", {kept['times']:,} times" if kept["times"] > 1 else ""
        client = f" from {kept['client']}" if kept["client"] else ""
        lines.append(f"{kept['name']} {kept['type']}: {kept['kind']}{times}, last {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(kept['last']))}{client}")
        lines += [f"    {line}" for line in _sides(report["servers"], kept["replies"])]
    aside = [("the same", report["same"]), ("truncated, and not compared", report["truncated"]), ("answered by neither", report["silent"])]
    aside += [(f"known: {name}, {KNOWN[name][0]}", number) for name, number in sorted(report["known"].items())]
    return lines + [f"{number:,} {words}" for words, number in aside if number]


def _sides(servers: list[str], replies: list[dict[str, Any]]) -> list[str]:
    """What each of the two has and the other one has not."""
    width = max(map(len, servers))
    lines = []
    for number, server in enumerate(servers):
        mine, other = replies[number], replies[1 - number]
        if not mine["octets"]:
            lines.append(f"{server:<{width}}  no answer")
            continue
        head = f"{mine['rcode'] or 'no DNS message'} {' '.join(mine['flags'])}".rstrip()
        records = []
        for section in ("answer", "authority", "additional"):
            others = set(other[section])
            records += [f"{section} {record}" for record in mine[section] if record not in others]
        lines.append(f"{server:<{width}}  {head}")
        lines += [f"{'':<{width}}      {record}" for record in records]
    return lines
