"""Zones with everything that look-ups meet, signed in several ways, and other servers that answer from the same files."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
import dns.query

from tests.programs import environment, need
from tests.server import free_port
from tests.waiting import LIMIT

#: TTL and minimum of the SOA are equal: Knot and NSD show the smaller one in negative answers, CoreDNS the TTL.
START = "@ 300 IN SOA ns admin 7 3600 600 86400 300\n@ 300 IN NS ns\n@ 300 IN NS ns.other.example.\nns 300 IN A 192.0.2.53\n"

BODY = r"""
@ 300 IN A 192.0.2.1
@ 300 IN MX 5 mail
mail 300 IN A 192.0.2.2
www 300 IN CNAME web
web 300 IN A 192.0.2.80
web 300 IN A 192.0.2.81
web 300 IN AAAA 2001:db8::80
chain1 300 IN CNAME chain2
chain2 300 IN CNAME chain3
chain3 300 IN CNAME web
gone 300 IN CNAME nothing.here
away 300 IN CNAME www.other.example.
*.wild 300 IN A 192.0.2.3
*.wild 300 IN TXT "wild"
host.wild 300 IN A 192.0.2.4
*.sub.wild 300 IN AAAA 2001:db8::4
*.alias 300 IN CNAME web
toalias 300 IN CNAME x.y.alias
deep.under.the.empty 300 IN A 192.0.2.5
a.b.c.d.e.f.g 300 IN TXT "deep"
_sip._tcp 300 IN SRV 1 2 5060 web
svc 300 IN HTTPS 1 web alpn=h2
child 300 IN NS ns.child
child 300 IN NS ns
ns.child 300 IN A 192.0.2.6
below.child 300 IN A 192.0.2.7
safe 300 IN NS ns.other.example.
safe 300 IN DS 1 13 2 00000000000000000000000000000000000000000000000000000000000000FF
only.insecure 300 IN NS ns.other.example.
tochild 300 IN CNAME x.child
moved 300 IN DNAME wild
outward 300 IN DNAME other.example.
todname 300 IN CNAME host.moved
b\000in\255ary 300 IN A 192.0.2.8
dot\.ted 300 IN A 192.0.2.9
z\001 300 IN A 192.0.2.10
z 300 IN A 192.0.2.11
x.z 300 IN A 192.0.2.12
big 300 IN TXT LONG
""".replace("LONG", " ".join(["t" * 200] * 12))

#: Label -> arguments of ldns-signzone; None: not signed.
KINDS: dict[str, list[str] | None] = {"plain": None, "nsec": [], "nsec3": ["-n", "-t", "3", "-s", "abcd"], "optout": ["-n", "-p"]}


def make_zones(folder: Path, names: int = 0) -> dict[str, Path]:
    """The files of every kind, by origin; ``names`` more names of no special kind."""
    need("ldns-signzone")
    more = "".join(f"n{i} 300 IN A 192.0.2.{i % 250}\n" for i in range(names))
    found = {}
    for kind, arguments in KINDS.items():
        origin = f"{kind}.example"
        path = folder / f"db.{kind}"
        path.write_text(f"$ORIGIN {origin}.\n{START}{BODY}{more}")
        if arguments is not None:
            run = {"cwd": folder, "check": True, "capture_output": True, "text": True}
            key = subprocess.run(["ldns-keygen", "-a", "ECDSAP256SHA256", "-k", origin], **run).stdout.strip()  # type: ignore[call-overload]
            subprocess.run(["ldns-signzone", *arguments, "-e", "20400101", "-i", "20200101", "-o", origin, path.name, key], **run)  # type: ignore[call-overload]
            path = folder / f"db.{kind}.signed"
        found[origin] = path
    return found


@contextmanager
def run_server(command: list[str], port: int, folder: Path, origins: list[str]) -> Iterator[int]:
    """A server that answers for all origins when this begins, and ends with it."""
    with (folder / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**environment(), "PATH": os.environ["PATH"] + ":/usr/sbin"}
        )
    try:
        end = time.monotonic() + LIMIT
        for origin in origins:
            request = dns.message.make_query(origin, "SOA")
            while True:
                assert time.monotonic() < end, command
                assert process.poll() is None, (folder / f"{command[0]}.log").read_text(errors="replace")
                try:
                    if dns.query.udp(request, "127.0.0.1", port=port, timeout=1).answer:
                        break
                except (OSError, dns.exception.Timeout):
                    pass
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_knot(folder: Path, zones: dict[str, Path]) -> object:
    need("knotd")
    port = free_port()
    (folder / "knot").mkdir(exist_ok=True)
    text = f"server:\n    listen: 127.0.0.1@{port}\n    rundir: {folder}/knot\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n"
    text += f"database:\n    storage: {folder}/knot\nzone:\n"
    text += "".join(f"  - domain: {origin}\n    file: {path}\n    zonefile-load: whole\n    journal-content: none\n" for origin, path in zones.items())
    (folder / "knot.conf").write_text(text)
    return run_server(["knotd", "-c", "knot.conf"], port, folder, list(zones))


def run_nsd(folder: Path, zones: dict[str, Path]) -> object:
    need("nsd")
    port = free_port()
    text = f'server:\n    ip-address: 127.0.0.1@{port}\n    username: ""\n    zonesdir: "{folder}"\n    pidfile: "{folder}/nsd.pid"\n    database: ""\n'
    text += f'    xfrdfile: "{folder}/xfrd"\n    zonelistfile: "{folder}/list"\n    server-count: 1\n    minimal-responses: no\n'
    text += "remote-control:\n    control-enable: no\n"
    text += "".join(f'zone:\n    name: {origin}\n    zonefile: "{path}"\n' for origin, path in zones.items())
    (folder / "nsd.conf").write_text(text)
    return run_server(["nsd", "-d", "-c", "nsd.conf"], port, folder, list(zones))


# ---- questions ----

TYPES = ["A", "A", "A", "AAAA", "TXT", "MX", "NS", "SOA", "DS", "CNAME", "SRV", "HTTPS", "DNAME", "DNSKEY", "TYPE65400"]
LABELS = ["", "x", "y.x", "*", "nothing", "a", "\\000", "z", "\\001", "\\255", "~", "-", "WWW", "x" * 63, ".".join(["y" * 60] * 3), "host", "web"]


def owners() -> list[str]:
    """The names of the zones relative to their origin, and the empty ones above them."""
    found = {""}
    for line in (START + BODY).splitlines():
        if line:
            labels = line.split()[0].replace("\\.", "\\046").split(".")
            found |= {".".join(labels[i:]) for i in range(len(labels)) if labels != ["@"]}
    return sorted(found)


def questions(count: int, seed: int, names: int = 0) -> Iterator[tuple[str, str, str, bool]]:
    """Origin, name, type, DO: names of the zone, near them, below them, in any case."""
    source = random.Random(seed)
    known = owners() + [f"n{source.randrange(names + 5)}" for _ in range(min(names, 20))]
    for _ in range(count):
        origin = source.choice([*KINDS, "nsec", "nsec3"]) + ".example."
        parts = [source.choice(LABELS) if source.random() < 0.5 else "", source.choice(known)]
        if source.random() < 0.2:
            parts[1] = "".join(source.choice("abcxyz019-_*") for _ in range(source.randrange(1, 9)))
        name = ".".join(part for part in [*parts, origin] if part)
        if source.random() < 0.2:
            name = "".join(char.upper() if source.random() < 0.5 else char for char in name)
        yield origin, name, source.choice(TYPES), source.random() < 0.6
