"""The differences of two configurations as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["CLIENTS_MOST", "Group", "becomes", "text"]

#: Clients that a difference names, and names of those that are shown together.
CLIENTS_MOST: Final = 5
NAMES_MOST: Final = 8


class Group:
    """Differences that become the same in both, such as all that another server is asked from now on."""

    def __init__(self) -> None:
        self.count = self.times = 0
        self.names: list[str] = []
        self.clients: dict[str, bool] = {}
        self.has_more_clients = False
        self.example: Mapping[str, Any] = {}

    def add(self, difference: Mapping[str, Any]) -> None:
        self.example = self.example or difference
        self.count += 1
        self.times += difference["times"]
        if len(self.names) < NAMES_MOST:
            self.names.append(f"{difference['name']} {difference['type']}")
        for client in difference["clients"]:
            if client not in self.clients and len(self.clients) == CLIENTS_MOST:
                self.has_more_clients = True
            else:
                self.clients[client] = True
        self.has_more_clients = self.has_more_clients or difference["clients_count"] > CLIENTS_MOST

    def text(self) -> list[str]:
        more = f" and {self.count - len(self.names):,} more" if self.count > len(self.names) else ""
        others = " and others" if self.has_more_clients else ""
        head = f"{', '.join(self.names)}{more}: {self.example['kind']}, asked {_number(self.times, 'time')} by {' '.join(self.clients)}{others}"
        return [head, *(f"    {line}" for lines in becomes(self.example) for line in lines)]


def text(report: Mapping[str, Any], groups: Iterable[Group]) -> list[str]:
    """The lines of a report, with its groups in the order in which they are shown."""
    names = report["otherwise_names"]
    lines = [
        f"{_number(report['questions'], 'question')} of {_number(report['clients'], 'client')}: {report['otherwise']:,} would be answered otherwise"
        + (f", for {_number(names, 'name')}" if names else "")
    ]
    for zone in report["zones"]:
        view = f" (view {zone['view']})" if zone["view"] else ""
        lines.append(f"zone {zone['zone']}{view} at {zone['address']}: {'goes' if zone['only_in'] == 'old' else 'comes'}")
    if report["names_left_out"]:
        lines.append(f"{report['names_left_out']:,} more names in zone files were not asked about")
    lines += [f"zone {zone}: {count:,} otherwise" for zone, count in report["otherwise_zones"].items()]
    shown = 0
    for group in groups:
        shown += group.count
        lines += group.text()
    if shown < report["otherwise"]:
        lines.append(f"{report['otherwise'] - shown:,} more are not shown")
    return lines


def becomes(difference: Mapping[str, Any]) -> list[list[str]]:
    """What becomes of a question in both, as text."""
    return [_side(side, difference, other) for side, other in (("old", "new"), ("new", "old"))]


def _side(title: str, difference: Mapping[str, Any], other: str) -> list[str]:
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


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
