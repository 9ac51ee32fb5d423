"""``fastdns top``: reads its flags, finds the servers, and prints once or runs the page."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastdns.corefile.duration import parse_duration
from fastdns.top.servers import Servers
from fastdns.top.sources import Console, Credentials, Local, Source
from fastdns.top.state import ROWS

__all__ = ["run"]

#: The port of pods' consoles, where no other is given.
PORT = "8053"
#: Environment variable with the token, where no file is given.
TOKEN = "FASTDNS_CONSOLE_TOKEN"  # noqa: S105
#: Seconds between two reads.
INTERVAL = 2.0
INTERVAL_LEAST = 0.2
#: Seconds between the two reads of -once.
ONCE = 1.0
WINDOWS = {"1m": 60, "10m": 600, "1h": 3600}

Ask = Callable[[dict[str, Any], int], dict[str, Any]]
#: Namespace, selector, kubeconfig and its context ("": as kubectl finds them) to the name and address of each ready pod. Raises ValueError, OSError.
FindPods = Callable[[str, str, str, str], list[tuple[str, str]]]


def run(flags: Mapping[str, str], rest: list[str], ask: Ask, find_pods: FindPods) -> int:
    """Run the command. ``ask`` is the control socket's. Returns the exit status. Raises ValueError, OSError."""
    interval = parse_duration(flags["interval"]) / 1e9 if "interval" in flags else INTERVAL
    if interval < INTERVAL_LEAST:
        raise ValueError(f"the interval is at least {INTERVAL_LEAST} s")
    if flags.get("window", "1m") not in WINDOWS:
        raise ValueError(f"the window is one of {', '.join(WINDOWS)}")
    window = WINDOWS[flags.get("window", "1m")]
    if "json" in flags and "once" not in flags:
        raise ValueError("-json goes with -once")
    servers = Servers(find(flags, rest, ask, find_pods))
    if "json" in flags:
        return _once(servers, window)
    try:
        from fastdns.top import page
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        raise ValueError("the page of fastdns top needs the package rich: pip install 'fastdns[top]'; -once -json works without it") from None
    return page.once(servers, window, ONCE) if "once" in flags else page.run(servers, window, interval)


def find(flags: Mapping[str, str], addresses: list[str], ask: Ask, find_pods: FindPods) -> list[Source]:
    """The servers that the command line names. Raises ValueError, OSError."""
    if not addresses and "selector" not in flags:
        return [Local(ask, int(flags.get("pid") or 0))]
    if "pid" in flags or (addresses and "selector" in flags):
        raise ValueError("a process, addresses and a selector exclude each other")
    token = os.environ.get(TOKEN, "")
    if "token" in flags:
        with open(flags["token"], encoding="utf-8") as file:
            token = file.read().strip()
    credentials = Credentials(token, flags.get("ca", ""), flags.get("cert", ""), flags.get("key", ""))
    if addresses:
        return [Console(address, credentials) for address in addresses]
    pods = find_pods(flags.get("namespace", "kube-system"), flags["selector"], flags.get("kubeconfig", ""), flags.get("context", ""))
    if not pods:
        raise ValueError(f"no pod with an address has the labels {flags['selector']} in the namespace {flags.get('namespace', 'kube-system')}")
    port = flags.get("port", PORT)
    return [Console(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", credentials, name) for name, host in pods]


def _once(servers: Servers, window: int) -> int:
    request = {"window": window, "most": ROWS}
    servers.read(request)
    if servers.answered:
        time.sleep(ONCE)
        servers.read(request)
    json.dump(servers.document(), sys.stdout, indent=2)
    print()
    return 0 if len(servers.answered) == len(servers.sources) else 1
