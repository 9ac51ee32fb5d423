"""file's answers from signed zones, judged by validators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dns.exception
import dns.flags
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from tests.plugins.file.zones import KINDS, make_zones, questions
from tests.server import Server
from tests.validators import Delv, Unbound

SIGNED = [kind for kind, arguments in KINDS.items() if arguments is not None]

#: Names whose answers come from elsewhere: other servers than those of the zone would be asked.
ELSEWHERE = ("child", "safe", "only.insecure", "outward", "away", "tochild", "insecure")

#: Names of which Unbound calls an answer bogus when CNAME or DNAME is asked for, from Knot and NSD too.
RENAMED = ("moved", "todname")


def zone_key(folder: Path, origin: str) -> dns.rdata.Rdata:
    (path,) = folder.glob(f"K{origin}.*.key")
    text = path.read_text().split(";")[0].split("DNSKEY")[1]
    return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.DNSKEY, text.strip())


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, dns.rdata.Rdata]]]:
    """A server with a zone of every kind, and their keys by name."""
    folder = tmp_path_factory.mktemp("signed")
    zones = {origin: path for origin, path in make_zones(folder, 20).items() if origin.split(".")[0] in SIGNED}
    corefile = "".join(f"{origin}:{{port}} {{\n bind 127.0.0.1\n file {path}\n}}\n" for origin, path in zones.items())
    with Server(folder, corefile) as server:
        server.wait_started()
        yield server, {f"{origin}.": zone_key(folder, origin) for origin in zones}


def is_below(name: dns.name.Name, origin: dns.name.Name, labels: tuple[str, ...]) -> bool:
    return any(name.is_subdomain(dns.name.from_text(label, origin)) for label in labels)


def test_unbound_validates_whatever_is_asked(signed: tuple[Server, dict[str, dns.rdata.Rdata]], tmp_path: Path) -> None:
    server, keys = signed
    with Unbound(tmp_path, server.port, keys) as unbound:
        bogus = []
        asked = 0
        for origin, text, kind, _ in questions(1500, 3, 20):
            try:
                name = dns.name.from_text(text)
            except dns.exception.DNSException:
                continue
            zone = dns.name.from_text(origin)
            if origin not in keys or is_below(name, zone, ELSEWHERE) or kind == "DNSKEY" or (kind in ("CNAME", "DNAME") and is_below(name, zone, RENAMED)):
                continue
            reply = unbound.resolve(text, kind)
            assert reply is not None
            asked += 1
            if reply.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
                bogus.append(f"{text} {kind}: {dns.rcode.to_text(reply.rcode())}")
            elif not reply.flags & dns.flags.AD:
                # Names that a span without signatures of its own covers (RFC 5155 9.2).
                assert origin.startswith("optout"), f"{text} {kind}"
        assert not bogus, f"{len(bogus)} of {asked}:\n" + "\n".join(bogus[:20])
        assert asked > 500


@pytest.mark.parametrize("kind", SIGNED)
def test_delv_validates(signed: tuple[Server, dict[str, dns.rdata.Rdata]], tmp_path: Path, kind: str) -> None:
    server, keys = signed
    origin = f"{kind}.example."
    delv = Delv(tmp_path, server.port, origin, keys[origin])
    # Nobody proves that a name does not exist which an opt-out span covers (RFC 5155 9.2).
    unproved = "unsigned answer" if kind == "optout" else "fully validated"
    for name, rdtype in [("www", "A"), ("chain1", "AAAA"), ("_sip._tcp", "SRV"), ("svc", "HTTPS"), ("safe", "DS")]:
        assert "; fully validated" in delv.ask(f"{name}.{origin}", rdtype), name
    for name, rdtype in [("x.wild", "TXT"), ("y.x.wild", "A")]:
        assert f"; {unproved}" in delv.ask(f"{name}.{origin}", rdtype), name
    for name, rdtype in [("web", "TXT"), ("the.empty", "A"), ("host.wild", "MX"), ("www.web", "A"), ("x.y.host", "A"), ("x.wild", "MX")]:
        assert "; negative response, fully validated" in delv.ask(f"{name}.{origin}", rdtype), name
    assert "; negative response, fully validated" in delv.ask(origin, "HINFO")
