"""The section ``top`` of the status document: tables as names, addresses and numbers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from fastdns._wire import name_text
from fastdns.plugins.top.windows import WINDOWS, Merged, Windows

__all__ = ["namespaces", "report"]

#: Rows of a table, where the request does not say.
ROWS = 20
ROWS_MAX = 256

Key = dict[str, Any]


def report(windows: Windows, request: Mapping[str, Any]) -> dict[str, Any]:
    """Members of the request: ``window`` in seconds (60, 600 or 3600), ``most`` rows of a table. ValueError, TypeError."""
    window, most = int(request.get("window", 60)), min(int(request.get("most", ROWS)), ROWS_MAX)
    if window not in WINDOWS:
        raise ValueError(f"window must be one of {', '.join(map(str, WINDOWS))} seconds, not {window}")
    seconds, sampled, tables = windows.read(window)
    searched = _searched(tables["search_waste"])
    return {
        "window": window,
        "seconds": round(seconds, 1),
        "sampled": sampled,
        "tables": {name: _table(table if name != "search_waste" else searched, KEYS[name], most) for name, table in tables.items()},
    }


def _table(table: Merged, key: Callable[[bytes, bytes], Key], most: int) -> dict[str, Any]:
    certain = [row for row in table.rows if row[2] > row[3]]
    rows = certain[:most]
    return {
        "total": table.total,
        "error": table.error,
        # The most that a key may have that is not among these rows: who adds up the tables of several servers needs it.
        "absent": max([table.error, *(count for *_, count, _ in certain[most:])]),
        "rows": [{"key": key(octets, known), "count": count, "error": error} for octets, known, count, error in rows],
    }


def namespaces(table: Merged, most: int) -> dict[str, int]:
    """Queries by namespace of the client's pod, of those with the most: what is certain of each client's number."""
    found: dict[str, int] = {}
    for _, known, count, error in table.rows:
        namespace = _pod(known).get("namespace")
        if namespace is not None:
            found[namespace] = found.get(namespace, 0) + count - error
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:most])


def _name(octets: bytes, known: bytes) -> Key:
    return {"name": name_text(octets), **({"cut": True} if known else {})}


def _client(octets: bytes, known: bytes) -> Key:
    family = socket.AF_INET if octets[0] == 4 else socket.AF_INET6
    return {"address": socket.inet_ntop(family, octets[1:]), **_pod(known)}


def _pod(known: bytes) -> Key:
    """Namespace, name and node of a client's pod, as far as they are known."""
    found = {}
    for what in ("namespace", "pod", "node"):
        if known:
            if known[0]:
                found[what] = known[1 : 1 + known[0]].decode("utf-8", "replace")
            known = known[1 + known[0] :]
    return found


def _cause(octets: bytes, known: bytes) -> Key:
    return {"cause": octets.decode("utf-8", "replace")}


def _searched(table: Merged) -> Merged:
    """By the name that was looked for. Below ``svc`` a namespace may stand behind it or not: resolvers look below the zone itself last, which tells."""
    whole = {octets[1:] for octets, *_ in table.rows if not octets[0]}
    rows: dict[bytes, tuple[int, int]] = {}
    for octets, _, count, error in table.rows:
        name = octets[1:]
        if octets[0] and name not in whole:
            name = _without_last(name)
            if _labels(name) < 2:
                continue
        counted, wrong = rows.get(name, (0, 0))
        rows[name] = (counted + count, wrong + error)
    return Merged(table.total, table.error, sorted(((name, b"", *numbers) for name, numbers in rows.items()), key=lambda row: row[3] - row[2]))


def _without_last(name: bytes) -> bytes:
    """A name in wire form without its last label."""
    at, last = 0, 0
    while name[at]:
        last = at
        at += name[at] + 1
    return name[:last] + b"\0"


def _labels(name: bytes) -> int:
    at, count = 0, 0
    while name[at]:
        at += name[at] + 1
        count += 1
    return count


KEYS: dict[str, Callable[[bytes, bytes], Key]] = {
    "names": _name,
    "domains": _name,
    "clients": _client,
    "nxdomain_names": _name,
    "nxdomain_clients": _client,
    "search_waste": _name,
    "large_answers": _name,
    "slow_upstream_names": _name,
    "servfail_causes": _cause,
    "aaaa_waste": _name,
}
