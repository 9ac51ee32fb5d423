"""Other people's authoritative servers, each on a port of its own for as long as a context lasts, and fastdns beside them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dns.exception
import dns.message
import dns.query

from tests.differential.zones import SIGNINGS, Zone
from tests.programs import environment, need, program
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

KNOT = """
server:
    listen: 127.0.0.1@{port}
    rundir: {dir}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    udp-max-payload: 4096
database:
    storage: {dir}
zone:
"""
KNOT_ZONE = "  - domain: {origin}\n    file: {path}\n    zonefile-load: whole\n    journal-content: none\n"

NSD = """
server:
    ip-address: 127.0.0.1@{port}
    username: ""
    zonesdir: {dir}
    pidfile: {dir}/nsd.pid
    database: ""
    xfrdfile: {dir}/xfrd
    xfrdir: {dir}
    zonelistfile: {dir}/list
    server-count: 1
    minimal-responses: no
    ipv4-edns-size: 4096
remote-control:
    control-enable: no
"""
NSD_ZONE = "zone:\n    name: {origin}\n    zonefile: {path}\n"

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
    minimal-responses no;
    max-udp-size 4096;
    notify no;
    check-names primary ignore;
    answer-cookie no;
    zero-no-soa-ttl no;
}};
controls {{ }};
"""
BIND_ZONE = 'zone "{origin}" {{ type primary; file "{path}"; }};\n'

#: Server -> its program, the arguments that keep it in the foreground, its configuration and that of a zone.
PEERS = {
    "knot": ("knotd", ["-c"], KNOT, KNOT_ZONE),
    "nsd": ("nsd", ["-d", "-c"], NSD, NSD_ZONE),
    "bind": ("named", ["-g", "-n", "1", "-c"], BIND, BIND_ZONE),
}

#: As fastdns reads it, and CoreDNS.
COREFILE = "{origin}:{{port}} {{\n bind 127.0.0.1\n file {path} {{\n  reload 0\n }}\n}}\n"


def needed() -> None:
    """Skips the test unless all of them are there."""
    need(*(name for name, *_ in PEERS.values()), "ldns-signzone")


@contextmanager
def run_server(kind: str, folder: Path, zones: dict[str, Path]) -> Iterator[int]:
    """Knot, NSD or BIND with the files of zones, by origin; the port. What it refuses it does not serve. The first zone must be one that it serves."""
    name, arguments, head, each = PEERS[kind]
    folder = folder / kind
    folder.mkdir()
    port = free_port()
    config = folder / "config"
    config.write_text(head.format(port=port, dir=folder) + "".join(each.format(origin=origin, path=path) for origin, path in zones.items()))
    with running([program(name), *arguments, str(config)], folder) as log:
        if kind == "bind":
            until(lambda: "all zones loaded" in log.read_text(errors="replace"), f"named's start: {log}")
        until(lambda: serves(port, next(iter(zones))), f"the start of {kind}: {log}")
        yield port


@contextmanager
def run_coredns(folder: Path, zones: dict[str, Path]) -> Iterator[int]:
    """CoreDNS, where it is on the PATH, with all zones that have no NSEC3 records: these it refuses, and the Corefile with them."""
    zones = {origin: path for origin, path in zones.items() if "NSEC3" not in path.read_text()}
    folder = folder / "coredns"
    folder.mkdir()
    port = free_port()
    config = folder / "Corefile"
    config.write_text("".join(COREFILE.format(origin=origin, path=path) for origin, path in zones.items()).replace("{port}", str(port)))
    with running([shutil.which("coredns") or "coredns", "-conf", str(config)], folder) as log:
        until(lambda: serves(port, next(iter(zones))), f"the start of CoreDNS: {log}")
        yield port


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[Path]:
    """A program until the context ends; the file of its output."""
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment())
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serves(port: int, origin: str) -> bool:
    """Whether a server answers soon; one that has not started leaves the query without a reply."""
    try:
        return bool(dns.query.udp(dns.message.make_query(origin, "SOA"), "127.0.0.1", 0.3, port).answer)
    except (OSError, dns.exception.Timeout):
        return False


@contextmanager
def run_all(folder: Path, files: dict[str, Path], *, coredns: bool = True) -> Iterator[dict[str, int]]:
    """The ports of fastdns and of the others."""
    with ExitStack() as stack:
        server = Server(folder, "".join(COREFILE.format(origin=origin, path=path) for origin, path in files.items()).replace("{{port}}", "{port}"))
        stack.callback(server.stop)
        ports = {kind: stack.enter_context(run_server(kind, folder, files)) for kind in PEERS}
        if coredns and shutil.which("coredns"):
            ports["coredns"] = stack.enter_context(run_coredns(folder, files))
        server.wait_started()
        yield {"fastdns": server.port, **ports}


# ---- files ----


def write_zones(folder: Path, zones: dict[str, Zone]) -> dict[str, Path]:
    """The files of zones by origin, signed where they are to be; those that ldns-signzone refuses are left out."""
    key = None
    files = {}
    for origin, zone in zones.items():
        path = folder / f"db.{origin}"
        path.write_text(zone.text(origin))
        if zone.signing:
            key = key or make_key(folder)
            name = folder / f"K{origin}"
            for suffix in (".key", ".private"):
                name.with_name(name.name + suffix).write_text(key.with_name(key.name + suffix).read_text().replace("key.invalid.", f"{origin}."))
            times = ["-e", "20400101", "-i", "20200101"]
            command = [program("ldns-signzone"), *SIGNINGS[zone.signing], *times, "-o", origin, path.name, name.name]
            if subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment()).returncode:
                continue
            path = path.with_name(f"{path.name}.signed")
        files[origin] = path
    return files


def make_key(folder: Path) -> Path:
    """A key, whose files serve all zones with another name in them."""
    done = subprocess.run([program("ldns-keygen"), "-a", "ECDSAP256SHA256", "-k", "key.invalid"], cwd=folder, capture_output=True, text=True, check=True)
    return folder / done.stdout.strip()
