"""The text that the server prints at its start, and at ``-version``: zones, version, features."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import fastdns
from fastdns.server.servers import Server

__all__ = ["features", "version", "zone_lines"]

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version() -> list[str]:
    """Name and version; system, runtime and commit."""
    system = os.uname()
    machine = MACHINES.get(system.machine, system.machine)
    runtime = f"{sys.implementation.name}{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    commit = getattr(fastdns, "__commit__", "")
    return [f"fastdns-{fastdns.__version__}", f"{system.sysname.lower()}/{machine}, {runtime}, {commit}"]


def features() -> list[str]:
    """What this build is made of, a line each: compiler and libraries of the build, then what it runs with. After the version for ``-version``."""
    import json

    from fastdns.tls.context import library_version

    built = json.loads(Path(fastdns.__file__).with_name("features.json").read_text())
    return [*(f"{name}: {value}" for name, value in built.items()), f"tls: {library_version()}", f"packages: {', '.join(_packages())}"]


def _packages() -> Iterator[str]:
    """The required Python packages, with the versions that are installed."""
    from importlib import metadata

    for requirement in metadata.requires("fastdns") or ():
        if named := re.match(r"[\w.-]+(?!.*extra ==)", requirement):
            try:
                yield f"{named[0]} {metadata.version(named[0])}"
            except metadata.PackageNotFoundError:
                yield f"{named[0]} (not installed)"


def zone_lines(server: Server) -> list[str]:
    """A line for each zone of a server; a zone that is not a host name (RFC 1035 2.3.1) gets a warning before it."""
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
