"""What `fastdns canary` asks of the server: the canary's state, and its end before its time."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from fastdns.server import control
from fastdns.server.canary import Canary, Judged
from fastdns.telemetry import status
from fastdns.telemetry.events import EVENTS_MAX

__all__ = ["ACTIONS", "provide", "run"]

ACTIONS = ("status", "promote", "abort")
SECTION = "canary"
#: Events that `status` shows.
SHOWN = 10


class Deciding(Protocol):
    """What is needed of the process."""

    canary: Canary | None

    def decide(self, canary: Canary, judged: Judged) -> bool: ...


def provide(process: Deciding) -> None:
    """Provide the section and take the commands from now on."""
    status.provide(SECTION, partial(_section, process))
    status.take_commands(SECTION, partial(_command, process))


def _section(process: Deciding, request: Mapping[str, Any]) -> dict[str, Any]:
    """The canary that runs; empty if there is none."""
    canary = process.canary
    return canary.section() if canary is not None else {}


def _command(process: Deciding, request: Mapping[str, Any]) -> dict[str, Any]:
    """``action``: promote or abort. Raises ValueError."""
    canary, action = process.canary, request.get("action")
    if canary is None:
        raise ValueError("no canary runs")
    if action not in ("promote", "abort"):
        raise ValueError(f"unknown action: {action}")
    judged = Judged("promoted", f"told so, {canary.summary()}") if action == "promote" else Judged("aborted", "told so")
    if not process.decide(canary, judged):
        raise ValueError("the canary has ended otherwise: see fastdns canary")
    return {"outcome": judged.outcome}


def run(action: str, flags: dict[str, str]) -> int:
    """Print what ``action`` of `ACTIONS` gives. Returns the exit status. Raises ValueError and OSError."""
    pid = int(flags.get("pid") or 0)
    if action == "status":
        found = control.ask({"sections": [SECTION, "events"], "most": EVENTS_MAX}, pid)
        noted = [event for event in found["events"]["events"] if event["kind"] == "canary"]
        result: dict[str, Any] = {"running": found[SECTION] or None, "events": noted[-SHOWN:]}
    else:
        result = control.ask({"command": SECTION, "action": action}, pid)
    if "json" in flags:
        import json

        json.dump(result, sys.stdout, indent=2)
        print()
    elif action == "status":
        _show(result)
    else:
        print(f"canary {result['outcome']}")
    return 0


def _show(section: dict[str, Any]) -> None:
    running = section["running"]
    for event in section["events"]:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(event['time']))} {event['cause']}")
    if running is None:
        print("no canary runs")
        return
    print(f"{running['share'] * 100:g}% of the clients have the new configuration of {running['file']} for {running['left']:.0f} s more")
    print(f"fails if {running['conditions'] or 'told so'}")
    for name, replies in running["replies"].items():
        print(f"{name:<8} {'  '.join(f'{rcode} {count}' for rcode, count in replies.items()) or 'no answers'}")
