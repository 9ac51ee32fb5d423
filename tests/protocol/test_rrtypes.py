"""The table of resource record types, against dnspython's and the lists of RFCs."""

from __future__ import annotations

import io

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from fastdns._wire import name_wire, records
from fastdns.protocol import rrtypes
from fastdns.protocol.parameters import type_number, type_text
from fastdns.zonefile.rdata import lower

#: RFC 3597 4: names of these types alone may be sent compressed.
COMPRESSIBLE = {"NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "MINFO", "MX"}
#: RFC 3597 4: received compressed, these are expanded, too. Then KX (RFC 2230), DNAME (RFC 2672), RRSIG and NSEC, which the Go library expands.
DECOMPRESSIBLE = {"RP", "AFSDB", "RT", "SIG", "PX", "NXT", "NAPTR", "SRV"} | {"KX", "DNAME", "RRSIG", "NSEC"}
#: RFC 4034 6.2 without NSEC (RFC 6840 5.1), HINFO, which has no names, and A6, which is historic.
CANONICAL = {"NS", "MD", "MF", "CNAME", "SOA", "MB", "MG", "MR", "PTR", "MINFO", "MX", "RP", "AFSDB", "RT", "SIG", "PX", "NXT", "NAPTR", "KX", "SRV"}
CANONICAL |= {"DNAME", "RRSIG"}
#: Types with names at a fixed place that are neither of both: never compressed.
UNCOMPRESSED = {"NSAP-PTR", "TALINK", "SVCB", "HTTPS", "LP", "TSIG", "TKEY"}
#: IANA's mnemonics that the Go library has not, or spells otherwise.
OTHERWISE = {0, 65535}

#: Rdata of every type that has names at a fixed place and that dnspython knows, mixed case.
NAMES = """
NS Host.Example.
CNAME Host.Example.
SOA Host.Example. Mail.Example. 1 2 3 4 5
PTR Host.Example.
MX 10 Host.Example.
RP Host.Example. Mail.Example.
AFSDB 1 Host.Example.
RT 10 Host.Example.
NSAP-PTR Host.Example.
PX 10 Host.Example. Mail.Example.
SRV 0 5 5060 Host.Example.
NAPTR 100 10 "U" "E2U+Sip" "!^.*$!Sip:Info@Example.!" Host.Example.
KX 10 Host.Example.
DNAME Host.Example.
RRSIG A 5 3 86400 20030322173103 20030220173103 2642 Host.Example. QUJD
NSEC Host.Example. A MX
SVCB 1 Host.Example. port=53
HTTPS 1 Host.Example. port=53
LP 10 Host.Example.
""".strip().splitlines()
#: dnspython keeps their case in digests; RFC 4034 6.2 does not.
KEEPS_CASE = {"RRSIG"}


def named(flag: str) -> set[str]:
    return {mnemonic for number, mnemonic in rrtypes.TYPES.items() if flag in rrtypes.flags(number)}


def laid_out(block: str) -> set[str]:
    return {mnemonic for number, mnemonic in rrtypes.TYPES.items() if block in rrtypes.layout(number)}


def uncompressed(line: str) -> tuple[int, bytes, dns.rdata.Rdata]:
    mnemonic, _, text = line.partition(" ")
    rdata = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(mnemonic), text)
    return int(rdata.rdtype), rdata.to_wire(), rdata


def names_of(rdata: dns.rdata.Rdata) -> bytes:
    slots = dict.fromkeys(slot for base in type(rdata).__mro__ for slot in getattr(base, "__slots__", ()))
    return b"".join(value.to_wire() for value in (getattr(rdata, slot) for slot in slots) if isinstance(value, dns.name.Name))


def test_mnemonics_are_those_of_dnspython() -> None:
    for rdtype in dns.rdatatype.RdataType:
        if int(rdtype) in rrtypes.TYPES and int(rdtype) not in OTHERWISE:
            assert rrtypes.TYPES[int(rdtype)] == dns.rdatatype.to_text(rdtype)


def test_numbers_of_mnemonics() -> None:
    for number, mnemonic in rrtypes.TYPES.items():
        wanted = -1 if number in OTHERWISE else number
        assert {rrtypes.number(mnemonic.encode()), rrtypes.number(mnemonic.lower().encode()), rrtypes.number(mnemonic.title().encode())} == {wanted}
        if wanted >= 0:
            assert type_number(mnemonic.lower()) == number
        assert type_text(number) == mnemonic
    for text in (b"", b"AA", b"TYPE1", b"NSEC3PARAMS", b"NSAP\rPTR", b"\x01", b"A" * 300):
        assert rrtypes.number(text) == -1
    assert (type_number("TYPE731"), type_text(731), type_text(300), type_text(40000)) == (731, "TYPE731", "TYPE300", "TYPE40000")


def test_meta_types_are_those_of_dnspython() -> None:
    assert {number for number in rrtypes.TYPES if {"meta", "qtype"} & rrtypes.flags(number)} == {
        number for number in rrtypes.TYPES if dns.rdatatype.is_metatype(dns.rdatatype.RdataType.make(number)) and number != 128
    } | {0}
    assert named("qtype") == {"IXFR", "AXFR", "MAILB", "MAILA", "ANY"}
    assert named("meta") == {"None", "OPT", "TKEY", "TSIG"}


def test_handling_of_names_is_that_of_the_standards() -> None:
    assert laid_out("compressible") == COMPRESSIBLE
    assert laid_out("decompressible") == DECOMPRESSIBLE
    assert laid_out("name") == UNCOMPRESSED
    assert named("received") == COMPRESSIBLE | DECOMPRESSIBLE
    assert named("canonical") == CANONICAL
    assert named("additional") == {"MX", "SRV", "SVCB", "HTTPS"}
    assert named("zone lower") == {"NS", "CNAME", "MX", "SOA", "SVCB", "HTTPS"}
    assert named("reserved") == {"None", "Reserved"}


def test_layouts() -> None:
    """One of each form; names follow one another in all of them, which `names` relies on."""
    wanted = {
        "A": (4,), "AAAA": (16,), "LOC": (16,), "L64": (10,), "EUI48": (6,), "TXT": ("remainder",), "CAA": (1, "string", "remainder"),
        "GPOS": ("string", "string", "string"), "MX": (2, "compressible"), "SOA": ("compressible", "compressible", 20), "SRV": (6, "decompressible"),
        "NAPTR": (4, "string", "string", "string", "decompressible"), "RRSIG": (18, "decompressible", "remainder"),
        "SIG": (18, "decompressible", "remainder"), "NSEC3": (4, "string", "string", "remainder"), "AMTRELAY": (2, "remainder"),
        "IPSECKEY": (3, "remainder"), "HTTPS": (2, "name", "remainder"), "OPT": ("remainder",), "NULL": ("remainder",), "DLV": (4, "remainder"),
    }  # fmt: skip
    for mnemonic, layout in wanted.items():
        assert rrtypes.layout(type_number(mnemonic)) == layout, mnemonic
    for number in (11, 263, 264, 731, 32770, 65534):
        assert (rrtypes.layout(number), rrtypes.flags(number)) == (("remainder",), set())
    for number in rrtypes.TYPES:
        words = ["name" if str(block).endswith(("compressible", "name")) else "other" for block in rrtypes.layout(number)]
        assert "name other name" not in " ".join(words)


@pytest.mark.parametrize("line", NAMES)
def test_names_are_where_dnspython_has_them(line: str) -> None:
    number, wire, rdata = uncompressed(line)
    start, end = rrtypes.names(number, wire)
    assert wire[start:end] == names_of(rdata)
    layout = rrtypes.layout(number)
    for cut in range(start, len(wire)):
        assert rrtypes.names(number, wire[:cut])[1] == (end if layout[-1] == "remainder" and cut >= end else -1), cut
    if layout[-1] != "remainder":
        assert rrtypes.names(number, wire + b"\0")[1] == -1
    assert rrtypes.names(number, wire[:start] + b"\xc0\x0c")[1] == -1
    assert rrtypes.names(number, wire[:start] + (b"\x3f" + b"a" * 63) * 4 + b"\0")[1] == -1


@pytest.mark.parametrize("line", NAMES)
def test_compression_is_that_of_dnspython(line: str) -> None:
    number, wire, rdata = uncompressed(line)
    name = dns.name.from_text("host.example.")
    out = io.BytesIO()
    compress: dict[dns.name.Name, int] = {}
    name.to_wire(out, compress)
    head = out.tell()
    rdata.to_wire(out, compress)
    assert (len(out.getvalue()) - head < len(wire)) == ("compressible" in rrtypes.layout(number))


@pytest.mark.parametrize("line", NAMES)
def test_canonical_form_is_that_of_dnspython(line: str) -> None:
    number, wire, rdata = uncompressed(line)
    mnemonic = rrtypes.TYPES[number]
    lowers = rdata.to_digestable() != wire
    assert lowers == ("canonical" in rrtypes.flags(number)) or mnemonic in KEEPS_CASE
    if {"canonical", "zone lower"} & rrtypes.flags(number):
        start, end = rrtypes.names(number, wire)
        assert lower(number, wire) == wire[:start] + wire[start:end].lower() + wire[end:]
    else:
        assert lower(number, wire) == wire


def message(number: int, rdata: bytes) -> bytes:
    """A reply whose question is Host.Example., which stands at octet 12, with one record."""
    question = name_wire("Host.Example.") + b"\0\1\0\1"
    record = b"\xc0\x0c" + number.to_bytes(2, "big") + b"\0\1\0\0\0\5" + len(rdata).to_bytes(2, "big") + rdata
    return b"\0\1\x81\x80\0\1\0\1\0\0\0\0" + question + record


@pytest.mark.parametrize("line", NAMES)
def test_names_that_arrive_compressed_are_expanded(line: str) -> None:
    number, wire, _ = uncompressed(line)
    first = name_wire("Host.Example.")
    compressed = wire.replace(first, b"\xc0\x0c", 1)
    expanded = wire if "received" in rrtypes.flags(number) else compressed
    assert records(message(number, wire))[0][5] == wire
    assert records(message(number, compressed))[0][5] == expanded
    if "received" in rrtypes.flags(number):
        for cut in range(1, len(compressed)):
            whole = rrtypes.layout(number)[-1] == "remainder" and cut >= compressed.index(b"\xc0\x0c") + 2
            if not whole:
                with pytest.raises(ValueError, match="malformed"):
                    records(message(number, compressed[:cut]))
        if rrtypes.layout(number)[-1] != "remainder":
            with pytest.raises(ValueError, match="malformed"):
                records(message(number, compressed + b"\0"))
