"""A root, a top-level domain and zones below it, each on an address of its own in 127/8, port 53: what a resolver finds that knows no other root.

The zones are signed, not signed, or wrong in the ways that a validator tells apart (ZONES).
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import dns.exception
import dns.message
import dns.query

from tests.differential.servers import running
from tests.programs import environment, need, program
from tests.server import free_port
from tests.unbound import SERVER
from tests.waiting import REPLY, until

#: Names below the zones that answer, with an address each.
HOSTS = 150
TLD = "zone"

#: Leaf -> how it is signed: arguments of ldns-signzone; None: not at all. What is wrong with it is in `leaf`.
ZONES: dict[str, list[str] | None] = {
    "nsec": [],
    "nsec3": ["-n", "-t", "1", "-s", "ab"],
    "plain": None,
    "expired": ["-i", "20200101", "-e", "20200201"],
    "future": ["-i", "20390101", "-e", "20400101"],
    "unsigned": None,
    "stranger": [],
}
#: Zones whose delegation has a DS record.
SECURED = {"nsec", "nsec3", "expired", "future", "unsigned", "stranger"}
#: A zone whose server says nothing.
SILENT = "silent"
#: A zone whose server a test starts, and stops.
FADING = "fading"

KNOT = """
server:
    listen: {address}@53
    rundir: {dir}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: {dir}
control:
    listen: {dir}/control
mod-stats:
  - id: count
    request-protocol: on
template:
  - id: default
    global-module: mod-stats/count
zone:
"""
KNOT_ZONE = "  - domain: {origin}\n    file: {path}\n    zonefile-load: whole\n    journal-content: none\n"

UNBOUND = (
    SERVER
    + """\
    num-threads: 1
    ede: yes
    minimal-responses: no
    rrset-roundrobin: no
{options}
"""
)


class Internet:
    """``root``, ``tld`` and ``leaf`` are the addresses of the servers, ``anchor`` the DS record of the root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.tld, self.leaf, self.silent, self.fading = (f"127.64.0.{number}" for number in range(1, 6))
        self.hints = folder / "root.hints"
        self.hints.write_text(f". 3600 IN NS ns.servers.\nns.servers. 3600 IN A {self.root}\n")
        self.anchor = ""

    def options(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        """What a resolver of this internet is set to."""
        return [
            ("root-hints", str(self.hints)),
            ("trust-anchor", self.anchor),
            ("do-ip6", "no"),
            ("do-not-query-localhost", "no"),
            ("rrset-roundrobin", "no"),
            *more,
        ]

    def corefile(self, *more: tuple[str, str], above: str = "", zones: str = "") -> str:
        lines = "".join(f'        option {name} "{value}"\n' for name, value in self.options(*more))
        return f".:{{port}} {{\n    bind 127.0.0.1\n    {above}\n    unbound {zones} {{\n{lines}    }}\n}}\n"

    @contextmanager
    def run_fading(self) -> Iterator[None]:
        """The server of FADING, for as long as the context lasts."""
        origin = f"{FADING}.{TLD}"
        path = write(self.folder, f"{FADING}.zone", origin, self.fading, leaf())
        with TemporaryDirectory(prefix="fastdns-fading-") as folder, run_knot(Path(folder) / "knot", self.fading, {origin: path}):
            yield

    def queries(self, server: str) -> int:
        """Messages that a server has received: ``root``, ``tld`` or ``leaves``."""
        done = subprocess.run([program("knotc"), "-s", str(self.folder / server / "control"), "stats", "mod-stats"], capture_output=True, text=True, check=True)
        return sum(map(int, re.findall(r"request-protocol\[\S+\] = (\d+)", done.stdout)))


# ---- zones ----


def make_key(folder: Path, origin: str) -> tuple[str, str]:
    """The name of its files, and its DS record."""
    done = subprocess.run([program("ldns-keygen"), "-a", "ECDSAP256SHA256", "-k", origin], cwd=folder, capture_output=True, text=True, check=True)
    name = done.stdout.strip()
    return name, " ".join((folder / f"{name}.ds").read_text().split())


def sign(path: Path, origin: str, key: str, arguments: list[str]) -> Path:
    times = [] if "-e" in arguments else ["-i", "20200101", "-e", "20400101"]
    command = [program("ldns-signzone"), *arguments, *times, "-o", origin, path.name, key]
    subprocess.run(command, cwd=path.parent, capture_output=True, check=True, env=environment())
    return path.with_name(f"{path.name}.signed")


def leaf() -> list[str]:
    """The records of a zone."""
    hosts = [f"host{number} 300 IN A 192.0.2.{number % 250 + 1}" for number in range(HOSTS)]
    large = " ".join(f'"{"x" * 200}"' for _ in range(15))
    return [
        *hosts,
        "Mixed 300 IN A 192.0.2.1",
        "alias 300 IN CNAME host1",
        f"outside 300 IN CNAME host2.nsec.{TLD}.",
        "*.wild 300 IN A 192.0.2.2",
        "moved 300 IN DNAME nsec.zone.",
        f"large 300 IN TXT {large}",
        "short 1 IN A 192.0.2.3",
        "@ 300 IN MX 10 host3",
    ]


def write(folder: Path, name: str, origin: str, address: str, records: list[str]) -> Path:
    path = folder / name
    head = [f"$ORIGIN {origin}.", f"@ 300 IN SOA ns.{origin}. admin.{origin}. 1 3600 600 86400 300", f"@ 300 IN NS ns.{origin}.", f"ns 300 IN A {address}"]
    path.write_text("\n".join([*head, *records, ""]))
    return path


def write_zones(internet: Internet) -> tuple[dict[str, Path], dict[str, Path], dict[str, Path]]:
    """The files of the root, of the top-level domain and of the leaves, by origin."""
    folder = internet.folder
    leaves: dict[str, Path] = {}
    delegations = []
    for name, arguments in ZONES.items():
        origin = f"{name}.{TLD}"
        key, ds = make_key(folder, origin)
        path = write(folder, f"{name}.zone", origin, internet.leaf, leaf())
        used = make_key(folder, origin)[0] if name == "stranger" else key
        leaves[origin] = path if arguments is None else sign(path, origin, used, arguments)
        delegations += [f"{name} 300 IN NS ns.{origin}.", f"ns.{name} 300 IN A {internet.leaf}", *([ds] if name in SECURED else [])]
    for name, address in ((SILENT, internet.silent), (FADING, internet.fading)):
        delegations += [f"{name} 300 IN NS ns.{name}.{TLD}.", f"ns.{name} 300 IN A {address}"]
    key, ds = make_key(folder, TLD)
    tld = sign(write(folder, "tld.zone", TLD, internet.tld, delegations), TLD, key, [])
    key, anchor = make_key(folder, ".")
    records = [f"{TLD}. 300 IN NS ns.{TLD}.", f"ns.{TLD}. 300 IN A {internet.tld}", ds]
    root = folder / "root.zone"
    head = [". 300 IN SOA ns.servers. admin.servers. 1 3600 600 86400 300", ". 300 IN NS ns.servers.", f"ns.servers. 300 IN A {internet.root}"]
    root.write_text("\n".join([*head, *records, ""]))
    internet.anchor = anchor
    return {".": sign(root, ".", key, [])}, {TLD: tld}, leaves


# ---- servers ----


@contextmanager
def run_knot(folder: Path, address: str, zones: dict[str, Path]) -> Iterator[None]:
    folder.mkdir()
    config = folder / "config"
    config.write_text(KNOT.format(address=address, dir=folder) + "".join(KNOT_ZONE.format(origin=origin, path=path) for origin, path in zones.items()))
    with running([program("knotd"), "-c", str(config)], folder) as log:
        until(lambda: serves(address, 53, next(iter(zones))), f"the start of knotd: {log}")
        yield


def serves(address: str, port: int, origin: str) -> bool:
    """Whether a server answers soon; one that has not started leaves the query without a reply."""
    try:
        return bool(dns.query.udp(dns.message.make_query(origin, "SOA"), address, 0.3, port).answer)
    except (OSError, dns.exception.Timeout):
        return False


@contextmanager
def run_internet(folder: Path) -> Iterator[Internet]:
    """All servers, for as long as the context lasts."""
    need("knotd", "knotc", "ldns-keygen", "ldns-signzone")
    internet = Internet(folder)
    root, tld, leaves = write_zones(internet)
    with ExitStack() as stack:
        silent = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        silent.bind((internet.silent, 53))
        for name, address, zones in (("root", internet.root, root), ("tld", internet.tld, tld), ("leaves", internet.leaf, leaves)):
            stack.enter_context(run_knot(folder / name, address, zones))
        yield internet


@contextmanager
def run_unbound(folder: Path, internet: Internet, *more: tuple[str, str]) -> Iterator[int]:
    """Debian's daemon with the same options; its port."""
    folder.mkdir()
    port = free_port()
    options = "\n".join(f'    {name}: "{value}"' if name == "trust-anchor" else f"    {name}: {value}" for name, value in internet.options(*more))
    config = folder / "unbound.conf"
    config.write_text(UNBOUND.format(port=port, folder=folder, options=options))
    with running([program("unbound"), "-d", "-c", str(config)], folder) as log:
        until(lambda: serves("127.0.0.1", port, f"nsec.{TLD}"), f"the start of unbound: {log}", 4 * REPLY)
        yield port
