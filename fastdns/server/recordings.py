"""The command ``fastdns recorder``: the queries that the running server has recorded, and its files of them."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from fastdns.server import control

__all__ = ["ACTIONS", "run"]

ACTIONS = ("show", "dump", "list")

#: Flags that choose queries, as members of the request.
CHOICES = ("which", "name", "client", "most")


def run(action: str, flags: dict[str, str]) -> int:
    """Print what ``action`` of `ACTIONS` gives. Returns the exit status. Raises ValueError and OSError."""
    pid = int(flags.get("pid") or 0)
    if action == "show":
        request: dict[str, Any] = {name: flags[name] for name in CHOICES if name in flags}
        section = control.ask({"sections": ["recorder"], **request}, pid).get("recorder")
        if section is None:
            raise ValueError("the Corefile that is served has no recorder")
        result: dict[str, Any] = section
    else:
        result = control.ask({"command": "recorder", "action": action}, pid)
    if "json" in flags:
        json.dump(result, sys.stdout, indent=2)
        print()
    elif action == "show":
        show(result)
    elif action == "dump":
        print(f"{result['queries']} queries")
        print("\n".join(result["files"]))
    else:
        for file in result["files"]:
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(file['time']))} {file['octets']:>12} {file['path']}")
    return 0


def show(section: dict[str, Any]) -> None:
    """A line for each query, the newest last, and below it what handlers have to tell."""
    for query in reversed(section["queries"]):
        seconds = time.strftime("%H:%M:%S", time.localtime(query["time"])) + f".{int(query['time'] * 1000) % 1000:03d}"
        client = f"{query['client']}:{query['port']}"
        print(
            f"{seconds} {client:<22} {query['transport']:<6} {query['name']} {query['type']} {query['rcode']} {query['took'] * 1e3:.3f} ms"
            + (f" upstream {query['upstream']}" if query["upstream"] else "")
            + (f" {query['error']}" if query["error"] else "")
        )
        for answer in query["answer"]:
            print(f"    {answer}")
        for asked in query.get("asked", ()):
            print(f"    asked {asked['upstream']} after {asked['at'] * 1e3:.3f} ms: {asked['says']}")
        for stage in query["stages"] if query["whole"] else ():
            waited = f" {stage['waited'] * 1e3:.3f} ms from {stage['at'] * 1e3:.3f} ms on" if "waited" in stage else ""
            print(f"    {stage['plugin'] or '(another server block)':<14} {stage['says']}{waited} {stage.get('note', '')}".rstrip())
    print(f"{len(section['queries'])} of {section['held']} queries, which take {section['bytes']} octets")
