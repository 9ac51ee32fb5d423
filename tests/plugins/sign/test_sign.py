"""sign writes zones that validate, when it is time."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.sign import parse
from fastdns.plugins.sign.signer import Signer, reason
from fastdns.plugins.sign.zone import bitmap
from fastdns.setup import Controller
from tests.dnskeys import make_key
from tests.programs import program
from tests.waiting import LIMIT

ZONE = """
$TTL 300
@ 1800 IN SOA ns Admin 5 3600 600 86400 60
@ IN NS ns
ns IN A 192.0.2.53
www IN A 192.0.2.1
Mixed 60 IN MX 10 Mail.Example.ORG.
*.w IN TXT "w" "x\\"y"
a.b.ent IN AAAA 2001:db8::1
cut IN NS ns.cut
cut IN A 192.0.2.3
ns.cut IN A 192.0.2.2
safe IN NS ns.cut
safe IN DS 4711 13 2 0000000000000000000000000000000000000000000000000000000000000000
odd IN TYPE65280 \\# 3 010203
outside.example.net. IN A 192.0.2.9
www IN RRSIG A 13 3 300 20300101000000 20200101000000 1 example.org. AAAA
"""


def signer(folder: Path, algorithms: tuple[int, ...] = (13,), zone: str = ZONE) -> tuple[Signer, dict[dns.name.Name, dns.rrset.RRset]]:
    (folder / "db").write_text(zone)
    rrset = dns.rrset.RRset(dns.name.from_text("example.org."), 1, dns.rdatatype.DNSKEY)
    lines = ""
    for algorithm in algorithms:
        rrset.union_update(make_key(folder, "example.org.", algorithm, name=f"k{algorithm}"))
        lines += f" key file {folder}/k{algorithm}\n"
    (found,) = parse(Controller.of(f"sign {folder}/db {{\n{lines} directory {folder}\n}}", ["example.org"]))
    return found, {rrset.name: rrset}


def signed(found: Signer) -> dns.zone.Zone:
    found.sign_and_tell("of a test")
    return dns.zone.from_file(found.target, origin="example.org.", relativize=False, check_origin=True)


# ---- the signed zone ----


@pytest.mark.parametrize("algorithms", [(13,), (8, 15), (14,), (10,)])
def test_every_set_validates(tmp_path: Path, algorithms: tuple[int, ...]) -> None:
    found, keys = signer(tmp_path, algorithms)
    zone = signed(found)
    sigs = 0
    for name, node in zone.items():
        for rdataset in node:
            if rdataset.rdtype == dns.rdatatype.RRSIG:
                continue
            rrsigs = node.get_rdataset(zone.rdclass, dns.rdatatype.RRSIG, rdataset.rdtype)
            unsigned = name.to_text() == "ns.cut.example.org." or (name.labels[0] in (b"cut", b"safe") and rdataset.rdtype not in (43, 47))
            assert (rrsigs is None) == unsigned, (name, rdataset)
            if rrsigs is None:
                continue
            assert {rrsig.algorithm for rrsig in rrsigs} == set(algorithms)
            for rrsig in rrsigs:
                dns.dnssec.validate_rrsig(dns.rrset.from_rdata_list(name, rdataset.ttl, list(rdataset)), rrsig, keys)
                assert rrsig.original_ttl == rrsigs.ttl == rdataset.ttl
                sigs += 1
    assert sigs > 20 * len(algorithms)


def test_the_chain(tmp_path: Path) -> None:
    zone = signed(signer(tmp_path)[0])
    nsecs = {name.to_text(): node.get_rdataset(1, dns.rdatatype.NSEC) for name, node in zone.items()}
    names = [f"{label}example.org." for label in ("", "cut.", "a.b.ent.", "mixed.", "ns.", "odd.", "safe.", "*.w.", "www.")]
    assert {name for name, nsec in nsecs.items() if nsec is not None} == set(names)
    shown = {name: nsecs[name][0].to_text() for name in names}
    assert [text.split()[0] for text in shown.values()] == [*names[1:], names[0]]
    assert shown["example.org."].split()[1:] == "NS SOA RRSIG NSEC DNSKEY CDS CDNSKEY".split()  # noqa: SIM905
    assert shown["cut.example.org."].split()[1:] == ["NS", "RRSIG", "NSEC"]
    assert shown["safe.example.org."].split()[1:] == ["NS", "DS", "RRSIG", "NSEC"]
    assert shown["odd.example.org."].split()[1:] == ["RRSIG", "NSEC", "TYPE65280"]
    assert {nsecs[name].ttl for name in names} == {60}


def test_the_apex(tmp_path: Path) -> None:
    found, keys = signer(tmp_path)
    before = int(time.time())
    zone = signed(found)
    apex = zone.nodes[zone.origin]
    count = {dns.rdatatype.to_text(rdataset.rdtype): len(rdataset) for rdataset in apex if rdataset.rdtype != dns.rdatatype.RRSIG}
    assert count == {"SOA": 1, "NS": 1, "DNSKEY": 1, "CDS": 1, "CDNSKEY": 1, "NSEC": 1}
    assert {zone.get_rdataset("example.org.", kind).ttl for kind in ("DNSKEY", "CDS", "CDNSKEY", "SOA")} == {1800}
    assert before <= zone.get_rdataset("example.org.", "SOA")[0].serial <= time.time()
    (rrset,) = keys.values()
    (cds,) = zone.get_rdataset("example.org.", "CDS")
    assert cds.to_text() == dns.dnssec.make_ds("example.org.", rrset[0], "SHA256").to_text()
    lines = Path(found.target).read_text().splitlines()
    assert [line.split("\t")[3] for line in lines[:4]] == ["SOA", "RRSIG", "NS", "RRSIG"]


def test_a_single_name(tmp_path: Path) -> None:
    zone = signed(signer(tmp_path, zone="$TTL 1800\n@ IN SOA . . 1 2 3 4 5\n@ IN NS ns.example.net.\n")[0])
    (nsec,) = zone.get_rdataset("example.org.", "NSEC")
    assert nsec.to_text() == "example.org. NS SOA RRSIG NSEC DNSKEY CDS CDNSKEY"


def test_the_chain_has_the_soa_s_ttl_where_minimum_is_larger(tmp_path: Path) -> None:
    zone = signed(signer(tmp_path, zone="$TTL 1800\n@ 30 IN SOA . . 1 2 3 4 60\n@ IN NS ns.example.net.\n")[0])
    assert zone.get_rdataset("example.org.", "NSEC").ttl == 30


def test_without_keys(tmp_path: Path) -> None:
    found, _ = signer(tmp_path, ())
    text = "".join(signed(found).to_text())
    assert "NSEC" in text
    assert "IN RRSIG" not in text
    assert found.due() == ""


def test_ldns_verify_zone(tmp_path: Path) -> None:
    tool = program("ldns-verify-zone")
    found, _ = signer(tmp_path, (13, 8))
    signed(found)
    verified = subprocess.run([tool, found.target], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert "Zone is verified and complete" in verified.stdout + verified.stderr


def test_bitmaps() -> None:
    assert bitmap({1, 15, 46, 47, 1234}) == bytes.fromhex("0006400100000003041b000000000000000000000000000000000000000000000000000020")  # RFC 4034 4.3


# ---- when ----


def beginning(before: float, after: float, now: float) -> str:
    def moment(seconds: float) -> str:
        return time.strftime("%Y%m%d%H%M%S", time.gmtime(seconds))

    return f"example.org. 1 IN SOA . . 1 2 3 4 5\nexample.org. 1 IN RRSIG SOA 13 2 1 {moment(now + after)} {moment(now - before)} 1 example.org. AAAA\n"


DAY = 86400


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (3600, 30 * DAY, "^$"),
        (6 * DAY - 60, 8 * DAY, "^$"),
        (6 * DAY + 60, 30 * DAY, r'^inception "2026-01-0\dT.*Z" was more than: 144h0m0s ago from 2026-01-\d\dT.*Z: 144h1m0s$'),
        (-60, 30 * DAY, r'^inception "2026-.*" date is in the future: -1m0s$'),
        (3600, 7 * DAY - 60, r'^expiration "2026-.*" is less than: 168h0m0s away from 2026-.*: 167h59m0s$'),
    ],
)
def test_reasons(before: float, after: float, wanted: str) -> None:
    now = 1768000000.0
    assert re.search(wanted, reason(beginning(before, after, now), now))


def test_no_signature_is_a_reason(tmp_path: Path) -> None:
    text = "".join(f"n{i}.example.org. 1 IN A 192.0.2.1\n" for i in range(200))
    assert reason(text, 0) == "no SOA RRSIG found in first 100 records"
    found, _ = signer(tmp_path)
    assert found.due() == f"open {tmp_path}/db.example.org.signed: no such file or directory"
    signed(found)
    assert found.due() == ""
    Path(found.target).write_text("nonsense\n")
    assert "resign: dns: " in found.due()


def test_a_zone_is_signed_and_served(serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "db").write_text(ZONE)
        (folder / "bad").write_text("@ IN A 192.0.2.1\n")
        make_key(folder, "example.org.", name="k")

    corefile = """
example.org:{port} {
    bind 127.0.0.1
    sign {dir}/db {
        key file {dir}/k
        directory {dir}
    }
    sign {dir}/bad bad.test {
        directory {dir}
    }
    sign {dir}/db example.org {
        key file {dir}/k
        directory {dir}/none
    }
    file {dir}/db.example.org.signed {
        reload 1s
    }
}
"""
    server = serve(corefile, prepare=prepare)
    server.wait_log(r'^\[INFO\] plugin/sign: Signing "example.org." because open .*/db.example.org.signed: no such file or directory$')
    server.wait_log(
        r'^\[INFO\] plugin/sign: Successfully signed zone "example.org." in ".*/db.example.org.signed" with key tags "\d+" and \d+ SOA serial, '
        r"elapsed \d+\.\d{6}, next: \d{4}-.*\.\d{3}Z$"
    )
    server.wait_log(r'^\[WARNING\] plugin/sign: Error signing "bad.test." with key tags "" in .*: file ".*/bad" has no SOA record, next: ')
    server.wait_log(r'^\[WARNING\] plugin/sign: Error signing "example.org.": failed to move zone file into place: open .*/none: no such file')
    server.until("www.example.org.", "A", ["192.0.2.1"])
    reply = server.query("www.example.org.", "A", want_dnssec=True)
    assert [rrset.rdtype for rrset in reply.answer] == [dns.rdatatype.A, dns.rdatatype.RRSIG]
    server.reload(server.corefile.read_text())
    server.wait_log(r'^\[INFO\] plugin/sign: Skipping signing zone "example.org." in ".*/db.example.org.signed": signatures are valid$')


# ---- set-up ----


def test_properties(tmp_path: Path) -> None:
    make_key(tmp_path, "other.test.", name="k")
    controller = Controller.of("sign db {\n key file k.private k.key\n key other\n}\nsign /x a.org b.org {\n directory d\n}\n", ["example.org", "example.net"])
    controller.config.root = str(tmp_path)
    found = parse(controller)
    assert [(each.path, each.origin, each.target, len(each.keys)) for each in found] == [
        (f"{tmp_path}/db", "example.org.", "/var/lib/coredns/db.example.org.signed", 2),
        (f"{tmp_path}/db", "example.net.", "/var/lib/coredns/db.example.net.signed", 2),
        ("/x", "a.org.", f"{tmp_path}/d/db.a.org.signed", 0),
        ("/x", "b.org.", f"{tmp_path}/d/db.b.org.signed", 0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sign", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'sign'"),
        ("sign a\ufffdb", "^dbfile .* contains invalid characters$"),
        ("sign db {\n foo\n}", "unknown property 'foo'"),
        ("sign db {\n key\n}", "Wrong argument count"),
        ("sign db {\n key file\n}", "Wrong argument count"),
        ("sign db {\n key directory x\n}", "^directory: not implemented$"),
        ("sign db {\n directory\n}", '^can only be one argument after "directory"$'),
        ("sign db {\n directory a b\n}", '^can only be one argument after "directory"$'),
        ("sign db {\n key file DIR/none\n}", "^open DIR/none.key: no such file or directory$"),
        ("sign db {\n key file DIR/odd\n}", '^RR in "DIR/odd.key" is not a DNSKEY: 1$'),
        ("sign db {\n key file DIR/zsk\n}", '^DNSKEY in "DIR/zsk.key" is not a CSK/KSK$'),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    make_key(tmp_path, "example.org.", flags=256, name="zsk")
    (tmp_path / "odd.key").write_text("example.org. 1 IN A 192.0.2.1\n")
    with pytest.raises(CorefileError, match=message.replace("DIR", str(tmp_path))):
        parse(Controller.of(text.replace("DIR", str(tmp_path))))
