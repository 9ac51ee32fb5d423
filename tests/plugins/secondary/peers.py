"""Servers that no one here wrote, as primaries and secondaries: Knot, NSD and BIND, each in a folder of its own on a port of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.message
import dns.query

from tests.programs import environment, program
from tests.server import free_port
from tests.waiting import until

PROGRAMS = {"knot": "knotd", "nsd": "nsd", "bind": "named"}

KNOT_PRIMARY = """
server:
    listen: 127.0.0.1@{port}
    rundir: {dir}
database:
    storage: {dir}
remote:
  - id: peer
    address: 127.0.0.1@{peer}
acl:
  - id: anybody
    address: 127.0.0.0/8
    action: [transfer, notify]
zone:
  - domain: example.org
    file: {dir}/db
    acl: anybody
    {role}
"""
KNOT = {"primary": "notify: peer\n    zonefile-load: difference\n    journal-content: changes", "secondary": "master: peer"}

NSD = """
server:
    ip-address: 127.0.0.1@{port}
    username: ""
    chroot: ""
    zonesdir: {dir}
    pidfile: {dir}/nsd.pid
    database: ""
    xfrdfile: {dir}/xfrd.state
    zonelistfile: {dir}/zone.list
    xfrdir: {dir}
    server-count: 1
remote-control:
    control-enable: no
zone:
    name: example.org
    zonefile: db
    provide-xfr: 127.0.0.0/8 NOKEY
    {role}
"""
NSD_ROLE = {
    "primary": "notify: 127.0.0.1@{peer} NOKEY",
    "secondary": "request-xfr: 127.0.0.1@{peer} NOKEY\n    allow-notify: 127.0.0.0/8 NOKEY",
}

BIND = """
options {{
    directory "{dir}";
    pid-file none;
    session-keyfile "{dir}/session.key";
    managed-keys-directory "{dir}";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    ixfr-from-differences yes;
    notify explicit;
    notify-delay 0;
}};
controls {{ }};
zone "example.org" {{
    {role}
    file "{dir}/db";
}};
"""
BIND_ROLE = {
    "primary": "type primary; allow-transfer {{ any; }}; also-notify {{ 127.0.0.1 port {peer}; }};",
    "secondary": "type secondary; primaries {{ 127.0.0.1 port {peer}; }}; allow-notify {{ 127.0.0.0/8; }}; masterfile-format text;",
}


class Peer:
    """One of them, which serves example.org; ``peer`` is the port of the other side."""

    def __init__(self, kind: str, role: str, folder: Path, peer: int, zone: str = "") -> None:
        path = program(PROGRAMS[kind])
        self.kind = kind
        self.folder = folder
        folder.mkdir()
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        if role == "primary":
            (folder / "db").write_text(zone)
        texts = {"knot": (KNOT_PRIMARY, KNOT), "nsd": (NSD, NSD_ROLE), "bind": (BIND, BIND_ROLE)}
        text, roles = texts[kind]
        values = {"port": self.port, "peer": peer, "dir": str(folder)}
        config = folder / "config"
        config.write_text(text.format(role=roles[role].format(**values), **values))
        commands = {"knot": ["-c", str(config)], "nsd": ["-d", "-c", str(config)], "bind": ["-f", "-n", "1", "-c", str(config)]}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen([path, *commands[kind]], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())

    def soa(self) -> int | None:
        """The serial that it answers with."""
        try:
            reply = dns.query.udp(dns.message.make_query("example.org.", "SOA"), "127.0.0.1", port=self.port, timeout=1)
        except (OSError, dns.exception.Timeout):
            return None
        return int(reply.answer[0][0].serial) if reply.answer else None

    def answers(self, name: str, rdtype: str = "A") -> list[str]:
        reply = dns.query.udp(dns.message.make_query(name, rdtype), "127.0.0.1", port=self.port, timeout=5)
        return sorted(rdata.to_text() for rrset in reply.answer for rdata in rrset)

    def wait(self, serial: int) -> None:
        until(lambda: self.soa() == serial, f"serial {serial} of {self.kind}: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def reload(self, zone: str) -> None:
        """Serve another version of the file."""
        import signal

        (self.folder / "db").write_text(zone)
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


Make = Callable[..., Peer]
