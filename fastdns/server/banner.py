"""What is printed at start: zones, plugins, version."""

from __future__ import annotations

import os
import sys

import fastdns
from fastdns.server.servers import Server

__all__ = ["version", "zone_lines"]

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version() -> list[str]:
    """Name and version; system, runtime and commit."""
    system = os.uname()
    machine = MACHINES.get(system.machine, system.machine)
    runtime = f"{sys.implementation.name}{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    commit = getattr(fastdns, "__commit__", "")
    return [f"fastdns-{fastdns.__version__}", f"{system.sysname.lower()}/{machine}, {runtime}, {commit}"]


def zone_lines(server: Server) -> list[str]:
    """A line for each zone of a server, with a warning before one that is no ordinary domain name."""
    scheme = "" if server.transport == "dns" else f"{server.transport}://"
    lines = []
    for zone in server.zones:
        if not _preferred(zone):
            lines.append(f'Warning: Domain "{zone}" does not follow RFC1035 preferred syntax')
        lines.append(f"{scheme}{zone}:{server.port}" + (f" on {server.host}" if server.host else ""))
    return lines


def _preferred(zone: str) -> bool:
    """RFC 1035 section 2.3.1: labels of letters, digits and hyphens that begin with a letter and do not end with a hyphen."""
    if zone == "." or zone.endswith((".in-addr.arpa.", ".ip6.arpa.")):
        return True
    return all(
        label and label[0] in LETTERS and label[-1] != "-" and all(char in LETTERS or char in "-0123456789" for char in label) for label in zone[:-1].split(".")
    )
