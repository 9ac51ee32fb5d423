"""Validators that other people wrote: Unbound as a resolver, and delv."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import dns.exception
import dns.message
import dns.query
import dns.rdata

from tests.programs import environment, program
from tests.server import free_port
from tests.unbound import SERVER
from tests.waiting import LIMIT, REPLY, until

__all__ = ["Delv", "Unbound", "run"]

UNBOUND = (
    SERVER
    + """\
    do-not-query-localhost: no
    module-config: "validator iterator"
    harden-algo-downgrade: no
    aggressive-nsec: no
    {anchors}
{zones}
"""
)

ZONE = """
stub-zone:
    name: "{name}"
    stub-addr: 127.0.0.1@{port}
"""


def run(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=environment()).stdout


class Unbound:
    """A resolver that asks a server on ``port`` for the zones, whose keys it trusts, by name."""

    def __init__(self, folder: Path, port: int, keys: dict[str, dns.rdata.Rdata]) -> None:
        unbound = program("unbound")
        self.port = free_port()
        anchors = "\n    ".join(f'trust-anchor: "{zone} DNSKEY {key.to_text()}"' for zone, key in keys.items())
        zones = "".join(ZONE.format(name=zone, port=port) for zone in keys)
        (folder / "unbound.conf").write_text(UNBOUND.format(port=self.port, folder=folder, anchors=anchors, zones=zones))
        self.process = subprocess.Popen([unbound, "-c", str(folder / "unbound.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())

    def __enter__(self) -> Self:
        until(lambda: self.resolve("localhost.", "A"), "unbound's first answer")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait(LIMIT)

    def resolve(self, name: str, kind: str) -> dns.message.Message | None:
        """Its reply to a query with DO; None: there is none."""
        query = dns.message.make_query(name, kind, want_dnssec=True)
        try:
            return dns.query.udp_with_fallback(query, "127.0.0.1", REPLY, self.port)[0]
        except (OSError, dns.exception.Timeout):
            return None


class Delv:
    """delv, asking a server on ``port`` for one zone whose key it trusts."""

    def __init__(self, folder: Path, port: int, zone: str, key: dns.rdata.Rdata) -> None:
        anchor = folder / "anchors"
        flags, protocol, algorithm, *octets = key.to_text().split()
        anchor.write_text(f'trust-anchors {{ {zone} static-key {flags} {protocol} {algorithm} "{"".join(octets)}"; }};\n')
        self.command = (program("delv"), "@127.0.0.1", "-p", str(port), "-a", str(anchor), f"+root={zone}")

    def ask(self, name: str, kind: str) -> str:
        return run(*self.command, name, kind)
