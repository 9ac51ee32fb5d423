"""Signed zones whose records do not fit together, and what is asked of them: an answer each time, and a server that goes on (R1)."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.name
import dns.rdatatype
import pytest

from tests.differential.replies import ask, over_tcp, query
from tests.dnskeys import make_key
from tests.plugins.file.zones import make_zones, questions
from tests.server import Server

Serve = Callable[..., Server]

ROUNDS = int(os.environ.get("FASTDNS_ZONES", "1"))
ZONES = 60
QUESTIONS = 3000
BATCH = 100

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    transfer {
        to *
    }
    auto {
        directory {dir}/zones
        reload 0
    }
}
.:{port2} {
    bind 127.0.0.1
    dnssec {
        key file {dir}/key
        signatures_per_second 1000000
    }
    auto {
        directory {dir}/zones
        reload 0
    }
}
"""

#: What stands at the origin beside the rest, sometimes.
ODD = [
    "@ 300 IN CNAME web",
    "@ 300 IN DNAME wild",
    "* 300 IN NS ns",
    "* 300 IN DNAME web",
    "* 300 IN CNAME *",
    "@ 300 IN NSEC3PARAM 1 0 500 " + "ab" * 255,
    "@ 300 IN NSEC3PARAM 1 0 0 -",
    "2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 IN NSEC3 1 1 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A",
    "2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 IN A 192.0.2.1",
    "x.2t7b4g4vsa5smi47k61mv5bv1a22bojr 300 IN A 192.0.2.1",
    "short 300 IN NSEC3 1 0 0 - 00 A",
    "* 300 IN NSEC @ A",
    "web 300 IN NSEC web",
    "web 300 IN NS web",
    "web 300 IN DNAME @",
    "wild 300 IN NS child",
    "@ 300 IN HTTPS 0 .",
    "@ 300 IN MX 0 .",
]


def spoil(lines: list[str], chance: random.Random) -> list[str]:
    """Records left out, moved to other owners, or given what belongs to others; the SOA record stays."""
    out = []
    owners = [line.split(None, 1)[0] for line in lines if not line.startswith((";", "$"))]
    rate = chance.choice([0.01, 0.05, 0.3])
    for line in lines:
        if chance.random() > rate or ("SOA\t" in line and "RRSIG" not in line):
            out.append(line)
            continue
        owner, rest = line.split(None, 1)
        match chance.randrange(6):
            case 0:
                continue
            case 1:
                out += [line, f"{chance.choice(owners)} {rest}"]
            case 2:
                out.append(f"{chance.choice(owners)} {rest}")
            case 3:
                out.append(f"x.{owner} {rest}")
            case 4:
                other = chance.choice(lines).split(None, 1)[1]
                out.append(f"{owner} {other}")
            case 5:
                out.append(re.sub(r"\b(A|NS|CNAME|SOA|NSEC|NSEC3|DNAME|MX)\b(?=\t| \d)", lambda _: chance.choice(["NSEC", "A", "CNAME"]), line, count=1))
    chance.shuffle(out)
    return out + chance.sample(ODD, chance.choice([0, 0, 1, 3]))


def write(folder: Path, seed: int) -> None:
    """Files of zones, most of them under other names, so that hashes of names do not fit either."""
    chance = random.Random(seed)
    (folder / "zones").mkdir()
    make_key(folder, ".", 15, 257, "key", 1)
    taken = set()
    texts = {origin: path.read_text() for origin, path in make_zones(folder, 5).items() if not origin.startswith("plain")}
    for number in range(ZONES):
        origin = chance.choice(list(texts))
        renamed = origin if origin not in taken else f"z{number}.test"
        lines = [line for line in texts[origin].replace(f"{origin}.", f"{renamed}.").splitlines() if line and not line.startswith(";")]
        (folder / "zones" / f"db.{renamed}").write_text(f"$ORIGIN {renamed}.\n" + "\n".join(spoil(lines, chance)) + "\n")
        taken.add(origin)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_R1_zones_that_do_not_fit_together(serve: Serve, seed: int) -> None:
    server = serve(COREFILE, prepare=lambda folder: write(folder, seed))
    loaded = set(re.findall(r"Inserting zone `(\S+)\.'", server.log()))
    assert loaded
    chance = random.Random(seed)
    messages = []
    for kind, name, rdtype, do in questions(QUESTIONS, seed, 5):
        origin = chance.choice(sorted(loaded))
        try:
            wire = dns.name.from_text(name.lower().removesuffix(kind) + f"{origin}.").to_wire()
        except dns.exception.DNSException:
            continue
        messages.append(query(wire or b"", dns.rdatatype.from_text(rdtype), do or chance.random() < 0.5))
    for at in range(0, len(messages), BATCH):
        try:
            ask([server.port, server.ports["port2"]], messages[at : at + BATCH])
        except OSError as error:
            raise AssertionError(f"{error}:\n{server.log()[-5000:]}") from None
    for origin in sorted(loaded):
        wire = over_tcp(server.port, query(dns.name.from_text(origin).to_wire() or b"", dns.rdatatype.AXFR, False))
        assert wire[3] & 15 == 0
    assert not re.search(r"Sanitizer|runtime error|Traceback", server.log()), server.log()[-3000:]
