"""What two configurations answer otherwise: all of it counted, and so much of it kept that memory stays bounded."""

from __future__ import annotations

import json
from collections import Counter
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from fastdns.comparison.replies import compare, describe
from fastdns.protocol.parameters import type_text
from fastdns.server.diff.offline import Outcome
from fastdns.server.diff.questions import Asked
from fastdns.server.diff.report import CLIENTS_MOST, Group, becomes

__all__ = ["KEPT_MOST", "KEPT_OF_GROUP", "Differences"]

#: Differences that are kept: in all, and of a group.
KEPT_MOST: Final = 10_000
KEPT_OF_GROUP: Final = 100
#: Different outcomes of one name and type for which clients are gathered. A difference that comes again after so many others counts again.
OPEN_MOST: Final = 1000
PLAIN: Final = frozenset[str]()


class Difference(NamedTuple):
    """One name and type with what becomes of it in both: for all clients for whom that is the same."""

    name: str
    qtype: int
    address: str
    kind: str
    old: Outcome
    new: Outcome


class Clients:
    """Of a difference; they come in their order."""

    def __init__(self) -> None:
        self.times = 0
        self.count = 0
        #: Those that have asked most: how often (negative), which one, and its address.
        self._most: list[tuple[int, int, bytes]] = []
        self._client = b""
        self._own = 0

    def add(self, client: bytes, times: int) -> None:
        if client != self._client:
            self._rank()
            self._client, self._own = client, 0
            self.count += 1
        self.times += times
        self._own += times

    def most(self) -> list[str]:
        self._rank()
        return [str(ip_address(client)) for _, _, client in self._most]

    def _rank(self) -> None:
        if self._own:
            self._most = sorted([*self._most, (-self._own, self.count, self._client)])[:CLIENTS_MOST]
            self._own = 0


class Differences:
    """Questions are added in the order of `Questions`, so that those of one name and type follow each other."""

    def __init__(self) -> None:
        #: Differences, names, and those that are not kept.
        self.count = self.names = self.left_out = 0
        self.zones: Counter[str] = Counter()
        self._kept: list[dict[str, Any]] = []
        self._groups: dict[str, Group] = {}
        #: Of the name and type that were added last.
        self._open: dict[Difference, Clients] = {}
        self._last = ("", 0)
        self._counted = ""

    def add(self, asked: Asked, address: str, old: Outcome, new: Outcome) -> None:
        """The outcomes of a question at an address, which may be equal."""
        kind = _kind(old, new)
        if not kind:
            return
        if (asked.name, asked.qtype) != self._last or len(self._open) >= OPEN_MOST:
            self._close()
            self._last = (asked.name, asked.qtype)
        difference = Difference(asked.name, asked.qtype, address, kind, old, new)
        clients = self._open.get(difference)
        if clients is None:
            clients = self._open[difference] = Clients()
        clients.add(asked.client, asked.times)

    def report(self) -> dict[str, Any]:
        """Of values that JSON has."""
        self._close()
        return {
            "otherwise": self.count,
            "otherwise_names": self.names,
            "otherwise_zones": dict(sorted(self.zones.items())),
            "differences": self._kept,
            "differences_left_out": self.left_out,
        }

    def groups(self) -> list[Group]:
        """The largest first."""
        return sorted(self._groups.values(), key=lambda group: group.count, reverse=True)

    def _close(self) -> None:
        for difference, clients in self._open.items():
            self.count += 1
            self.zones[difference.new.zone or difference.old.zone or "(none)"] += 1
            self._group(_described(difference, clients))
        if self._open and self._last[0] != self._counted:
            self.names += 1
            self._counted = self._last[0]
        self._open.clear()

    def _group(self, difference: dict[str, Any]) -> None:
        key = json.dumps([difference["kind"], *becomes(difference)])
        has_room = len(self._kept) < KEPT_MOST
        group = self._groups.get(key)
        if group is None and has_room:
            group = self._groups[key] = Group()
        if group is not None:
            group.add(difference)
        if group is not None and has_room and group.count <= KEPT_OF_GROUP:
            self._kept.append(difference)
        else:
            self.left_out += 1


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


def _described(difference: Difference, clients: Clients) -> dict[str, Any]:
    return {
        "name": difference.name,
        "type": type_text(difference.qtype),
        "kind": difference.kind,
        "times": clients.times,
        "clients": clients.most(),
        "clients_count": clients.count,
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
