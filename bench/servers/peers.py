"""Servers with configurations of their own, for the work that they share with us: zones, and forwarding."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fastdns.bench.servers.adapter import Adapter, Listen, Work


class Peer(Adapter):
    """A server with a configuration file, which `-c` names."""

    #: Before it.
    FLAGS: ClassVar[Sequence[str]] = ()

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        path = folder / f"{self.name}.conf"
        path.write_text(self.configuration(work, listen, folder))
        return [self.executable(), *self.FLAGS, "-c", str(path)]

    @abstractmethod
    def configuration(self, work: Work, listen: Listen, folder: Path) -> str:
        """The text of the file."""


class ZoneServer(Peer):
    """An authoritative server: it serves what a zone can express."""

    def refuses(self, work: Work) -> str:
        return super().refuses(work) or ("" if work.zone else "serves zones only, and this work is none")


class Knot(ZoneServer):
    """Knot DNS."""

    name = "knotd"
    program = "knotd"

    def configuration(self, work: Work, listen: Listen, folder: Path) -> str:
        assert work.zone is not None
        return f"""server:
    rundir: "{folder}"
    listen: {listen.address}@{listen.port}
    udp-workers: {listen.workers}
    tcp-workers: {listen.workers}
    background-workers: 1
database:
    storage: "{folder}"
log:
  - target: stderr
    any: warning
zone:
  - domain: "{work.zone.origin}"
    file: "{work.zone.path}"
    journal-content: none
    zonefile-sync: -1
"""


class Nsd(ZoneServer):
    """NSD."""

    name = "nsd"
    program = "nsd"
    FLAGS = ("-d",)

    def configuration(self, work: Work, listen: Listen, folder: Path) -> str:
        assert work.zone is not None
        return f"""server:
    ip-address: {listen.address}@{listen.port}
    server-count: {listen.workers}
    username: ""
    zonesdir: "{folder}"
    pidfile: "{folder}/nsd.pid"
    xfrdfile: "{folder}/xfrd.state"
    xfrdir: "{folder}"
    zonelistfile: "{folder}/zone.list"
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "{work.zone.origin}"
    zonefile: "{work.zone.path}"
"""


class Unbound(Peer):
    """Unbound: forwarding with and without its cache, and zones as its local authority."""

    name = "unbound"
    program = "unbound"
    FLAGS = ("-d", "-p")

    def refuses(self, work: Work) -> str:
        return super().refuses(work) or ("" if work.zone or work.upstream else "forwards or serves zones, and this work is neither")

    def configuration(self, work: Work, listen: Listen, folder: Path) -> str:
        lines = [
            "server:",
            f"    port: {listen.port}",
            f"    interface: {listen.address}",
            f"    interface-automatic: {'yes' if listen.wildcard else 'no'}",
            f"    num-threads: {listen.workers}",
            '    chroot: ""',
            '    username: ""',
            '    pidfile: ""',
            f'    directory: "{folder}"',
            "    do-daemonize: no",
            "    use-syslog: no",
            '    logfile: ""',
            "    verbosity: 0",
            "    access-control: 127.0.0.0/8 allow",
            "    do-not-query-localhost: no",
            "    qname-minimisation: no",
            "    unblock-lan-zones: yes",
            "    msg-cache-size: 64m",
            "    rrset-cache-size: 128m",
            '    module-config: "iterator"',
            "    outgoing-range: 4096",
            "    num-queries-per-thread: 4096",
            "remote-control:",
            "    control-enable: no",
        ]
        if work.zone:
            lines += [
                "auth-zone:",
                f'    name: "{work.zone.origin}"',
                f'    zonefile: "{work.zone.path}"',
                "    for-upstream: no",
                "    for-downstream: yes",
                "    fallback-enabled: no",
            ]
        if work.upstream:
            lines += ["forward-zone:", '    name: "."', f"    forward-addr: 127.0.0.1@{work.upstream}"]
            lines += [] if work.cached else ["    forward-no-cache: yes"]
        return "\n".join(lines) + "\n"
