"""A dynamic zone of tests, and clients of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.tsig
import dns.update

from tests.programs import environment, program
from tests.server import Server
from tests.waiting import REPLY

SECRET = "i9M+00yrECfVZG2qCjr4mPpaGim/Bq+IWMiNrLjUO4Y="
OTHER = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus="

SEED = """$ORIGIN example.org.
$TTL 60
@ IN SOA ns hostmaster 1 3600 600 86400 60
@ IN NS ns
ns IN A 192.0.2.53
www IN A 192.0.2.1
www IN A 192.0.2.2
www IN TXT "Old"
alias IN CNAME www
mail IN MX 10 ns
"""

TSIG = f"""tsig {{
        secret key. {SECRET}
        secret narrow. {OTHER}
        secret stranger. {SECRET}
        require_opcode UPDATE
    }}"""

#: A zone with two keys: one may do all, the other one may change addresses of one name, and delete all of another.
COREFILE = f"""example.org:{{port}} {{
    bind 127.0.0.1
    errors
    {TSIG}
    transfer {{
        to *
    }}
    dynupdate {{
        file seed
        %s
        allow key. * *
        allow narrow. host.example.org. A AAAA
        allow narrow. other.example.org. ANY
    }}
}}
"""

MEMORY = COREFILE % ""
DATABASE = COREFILE % "database zone.db"


#: A zone of 48 records with a database, for three keys: `narrow.` and `stranger.` write TXT records.
SHARED = (
    COREFILE.replace("allow narrow. host.example.org. A AAAA", "allow narrow. host.example.org. TXT\n        allow narrow. *.other.example.org. *")
    .replace("%s", "max_records 48\n        database zone.db\n        allow stranger. _acme-challenge.example.org. TXT")
    .replace("allow key. * *", "allow key. www.example.org. A TXT")
    .replace("errors", "errors\n    prometheus 127.0.0.1:{port2}", 1)
)


def seed(folder: Path) -> None:
    (folder / "seed").write_text(SEED)


def key(name: str = "key.", secret: str = SECRET) -> dns.tsig.Key:
    return dns.tsig.Key(name, secret, "hmac-sha256")


def narrow() -> dns.tsig.Key:
    return key("narrow.", OTHER)


def message(zone: str = "example.org.", with_key: dns.tsig.Key | None = None) -> dns.update.UpdateMessage:
    """An UPDATE that is signed."""
    made = dns.update.UpdateMessage(zone)
    made.use_tsig(with_key or key())
    return made


def send(server: Server, update: dns.message.Message, tcp: bool = False, port: int | None = None) -> str:
    """The rcode of its reply, whose signature is checked."""
    reply = server.send(update, tcp=tcp, port=port)
    return dns.rcode.to_text(reply.rcode())


def fill(server: Server) -> int:
    """Adds records with the key `narrow.` until they are refused; their number."""
    for number in range(100):
        update = message(with_key=narrow())
        update.add("host", 60, "TXT", f"t{number}")
        rcode = send(server, update)
        if rcode != "NOERROR":
            assert rcode == "REFUSED"
            return number
    raise AssertionError("never refused")


def acme(server: Server, text: str) -> str:
    """Adds a record with the key `stranger.`; the rcode."""
    update = message(with_key=key("stranger."))
    update.add("_acme-challenge", 60, "TXT", text)
    return send(server, update)


def add(server: Server, name: str, ttl: int = 60, kind: str = "A", data: str = "192.0.2.9") -> str:
    update = message()
    update.add(name, ttl, kind, data)
    return send(server, update)


def serial(server: Server, port: int | None = None) -> int:
    return int(server.answers("example.org.", "SOA", port=port)[0].split()[2])


def transferred(port: int, zone: str = "example.org.") -> list[str]:
    """The records of a zone, sorted, by AXFR."""
    import dns.zone

    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", zone, port=port, relativize=False), relativize=False)
    return sorted(f"{name} {ttl} {rdata.rdtype.name} {rdata}" for name, ttl, rdata in found.iterate_rdatas())


def nsupdate(server: Server, commands: str, *options: str, port: int | None = None) -> subprocess.CompletedProcess[str]:
    """BIND's client."""
    text = f"server 127.0.0.1 {port or server.port}\n{commands}\nsend\n"
    arguments = [program("nsupdate"), "-t", str(int(REPLY)), "-y", f"hmac-sha256:key:{SECRET}", *options]
    return subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=60, env=environment())


def knsupdate(server: Server, commands: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Knot's client."""
    text = f"server 127.0.0.1 {server.port}\n{commands}\nsend\n"
    arguments = [program("knsupdate"), "-t", str(int(REPLY)), "-y", f"hmac-sha256:key:{SECRET}", *options]
    return subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=60, env=environment())
