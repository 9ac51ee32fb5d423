"""The same updates for this server and for BIND: each gets the same rcode from both, and leaves the same zone."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.update
import pytest

from tests.plugins.dynupdate.zones import MEMORY, SECRET, SEED, message, transferred
from tests.plugins.secondary.peers import Peer
from tests.programs import environment, program
from tests.server import Server, free_port
from tests.waiting import REPLY, until

NAMED = """
options {{
    directory "{dir}";
    pid-file none;
    session-keyfile "{dir}/session.key";
    managed-keys-directory "{dir}";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    notify no;
}};
controls {{ }};
key "key" {{ algorithm hmac-sha256; secret "{secret}"; }};
zone "example.org" {{
    type primary;
    file "{dir}/db";
    update-policy {{ grant key zonesub ANY; }};
    allow-transfer {{ any; }};
    check-integrity no;
    check-mx ignore;
    check-mx-cname ignore;
    check-srv-cname ignore;
    check-names ignore;
}};
"""

#: BIND refuses what takes the addresses of the zone's servers away: these have none in the zone.
ZONE = SEED.replace("@ IN NS ns\n", "@ IN NS ns.example.net.\n")

NAMES = ["@", "www", "alias", "mail", "ns", "a", "b", "c.b", "x.y", "*.wild", "new"]
DATA = {
    "A": ["192.0.2.1", "192.0.2.2", "192.0.2.3"],
    "AAAA": ["2001:db8::1", "2001:db8::2"],
    "TXT": ['"one"', '"One"', '"two" "parts"'],
    "CNAME": ["www.example.org.", "WWW.example.org.", "ns.example.org."],
    "MX": ["10 ns.example.org.", "20 Mail.example.org."],
    "NS": ["ns.example.net.", "ns2.example.net."],
    "SRV": ["1 2 3 ns.example.org.", "1 2 3 NS.example.org."],
    "DNAME": ["a.test.", "b.test."],
    "PTR": ["host.example.org."],
    "DHCID": ["AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="],
    "CAA": ['0 issue "ca.test"'],
}


class Bind:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.port = free_port()
        (folder / "db").write_text(ZONE)
        (folder / "config").write_text(NAMED.format(dir=folder, port=self.port, secret=SECRET))
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [program("named"), "-f", "-n", "1", "-g", "-c", str(folder / "config")],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )
        until(lambda: Peer.soa(self) == 1, f"BIND: {self.log.read_text(errors='replace')[-2000:]}")  # type: ignore[arg-type]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(REPLY)


@pytest.fixture
def bind(tmp_path: Path) -> Iterator[Bind]:
    made = Bind(tmp_path / "bind")
    yield made
    made.stop()


def prerequisite(chance: random.Random, update: dns.update.UpdateMessage) -> str:
    name, kind = chance.choice(NAMES), chance.choice(list(DATA))
    way = chance.randrange(5)
    if way == 0:
        update.present(name)
    elif way == 1:
        update.absent(name)
    elif way == 2:
        update.present(name, kind)
    elif way == 3:
        update.absent(name, kind)
    else:
        update.present(name, kind, chance.choice(DATA[kind]))
    return f"prereq {way} {name} {kind}"


def change(chance: random.Random, update: dns.update.UpdateMessage) -> str:
    name, kind = chance.choice(NAMES), chance.choice(list(DATA))
    if name == "*.wild" and kind in ("NS", "DNAME"):
        name = "wild"  # BIND ignores these at wildcards (RFC 4592 4.2, 4.4)
    data = chance.choice(DATA[kind])
    way = chance.randrange(10)
    if way < 6:
        update.add(name, 60, kind, data)
    elif way == 6:
        update.delete(name)
    elif way == 7:
        update.delete(name, kind)
    else:
        update.delete(name, kind, data)
    return f"{'add' if way < 6 else 'delete'} {way} {name} {kind} {data}"


def generated(chance: random.Random) -> tuple[dns.update.UpdateMessage, str]:
    update = message()
    told = [prerequisite(chance, update) for _ in range(chance.choice([0, 0, 0, 1, 1, 2]))]
    told += [change(chance, update) for _ in range(chance.choice([0, 1, 1, 1, 2, 3]))]
    if chance.random() < 0.05:
        serial = chance.choice([1, 50, 3000, 4294967295])
        update.add("@", 60, "SOA", f"ns.example.org. hostmaster.example.org. {serial} 3600 600 86400 60")
        told.append(f"SOA {serial}")
    # BIND looks at the names of changes before it looks at prerequisites, so there are none.
    if not update.prerequisite and chance.random() < 0.05:
        update.add("host.example.net.", 60, "A", "192.0.2.1")
        told.append("outside")
    return update, "; ".join(told)


def rcode(port: int, update: dns.message.Message) -> str:
    return dns.rcode.to_text(dns.query.udp(update, "127.0.0.1", port=port, timeout=REPLY).rcode())


def zone(port: int) -> tuple[int, list[str]]:
    """Serial, and the records without it; names in lower case, as this server keeps those of most types."""
    records = transferred(port)
    soa = next(record for record in records if " SOA " in record).split()
    return int(soa[5]), sorted(record if " TXT " in record else record.lower() for record in records if " SOA " not in record)


@pytest.mark.parametrize("number", range(3))
def test_the_same_updates(serve: object, bind: Bind, number: int) -> None:
    server: Server = serve(MEMORY, prepare=lambda folder: (folder / "seed").write_text(ZONE))  # type: ignore[operator]
    chance = random.Random(2136 + number)
    counts: dict[str, int] = {}
    serials = [1, 1]
    for _ in range(150):
        update, told = generated(chance)
        _, former = zone(server.port)
        codes = rcode(server.port, update), rcode(bind.port, update)
        counts[codes[0]] = counts.get(codes[0], 0) + 1
        assert codes[0] == codes[1], (told, former)
        ours, theirs = zone(server.port), zone(bind.port)
        assert ours[1] == theirs[1], (told, former)
        steps = ours[0] - serials[0], theirs[0] - serials[1]
        # Of a message that undoes what it has done CoreDNS counts the first as a change, BIND neither; BIND counts that a name is written otherwise.
        assert steps[0] == steps[1] or (ours[1] == former and set(steps) == {0, 1}), (told, former)
        serials = [ours[0], theirs[0]]
    assert len(counts) >= 5, counts
    assert counts["NOERROR"] >= 50, counts
