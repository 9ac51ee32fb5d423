"""Size, TC, OPT and compression of replies (spec/server.md 6 and 7), read back by dnspython."""

from __future__ import annotations

import random
import struct

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest

from fastdns._wire import records
from fastdns.walk.finish import finished

NAME = "www.example.org."


def question(name: str = NAME, rdtype: str = "A", payload: int | None = None, **options: object) -> dns.message.Message:
    query = dns.message.make_query(name, rdtype, **options)  # type: ignore[arg-type]
    if payload is not None:
        query.use_edns(0, 0, payload, options=options.get("options"))  # type: ignore[arg-type]
    return query


def reply_to(query: dns.message.Message, *lines: str, rcode: int = 0, compress: bool = True) -> bytes:
    """A plugin's reply: records as ``SECTION OWNER TTL IN TYPE RDATA`` with section 0, 1 or 2, each a record of its own."""
    head = struct.pack("!6H", 0, 0x8400 | rcode, 1, *(sum(line[0] == str(section) for line in lines) for section in range(3)))
    head += query.question[0].name.to_wire() + struct.pack("!HH", query.question[0].rdtype, query.question[0].rdclass)
    for line in sorted(lines, key=lambda line: line[0]):
        _, owner, ttl, _, rdtype, rdata = line.split(None, 5)
        rrset = dns.rrset.from_text(owner, int(ttl), "IN", rdtype, rdata)
        octets = rrset[0].to_wire()
        head += rrset.name.to_wire() + struct.pack("!HHIH", rrset.rdtype, rrset.rdclass, rrset.ttl, len(octets)) + octets
    return head


def sent(query: dns.message.Message, reply: bytes, **how: object) -> tuple[dns.message.Message, bytes]:
    octets, _ = finished(query.to_wire(), reply, **how)  # type: ignore[arg-type]
    return dns.message.from_wire(octets, one_rr_per_rrset=True), octets


def addresses(count: int, owner: str = NAME) -> list[str]:
    return [f"0 {owner} 60 IN A 10.0.{i >> 8}.{i & 255}" for i in range(count)]


# ---- what fits ----


def test_sixty_addresses_without_edns() -> None:
    """Bit for bit: 508 octets, 30 answers, TC."""
    query = question("sixty.test.")
    reply, octets = sent(query, reply_to(query, *addresses(60, "sixty.test.")))
    assert len(reply.answer) == 30
    assert reply.flags & dns.flags.TC
    assert len(octets) == 508
    assert [rrset[0].to_text() for rrset in reply.answer] == [f"10.0.0.{i}" for i in range(30)]


@pytest.mark.parametrize(("payload", "size", "kept"), [(1232, 1218, 18), (4096, 12 + 25 + 11 + 60 * 65 + 18, 60)])
def test_sixty_texts_with_edns(payload: int, size: int, kept: int) -> None:
    """Bit for bit: 18 answers in 1218 octets, the NS dropped; all of it, compressed, where 4096 may be sent."""
    query = question("sixty.texts.example.", "TXT", payload=payload)
    lines = [f'0 sixty.texts.example. 60 IN TXT "{i:052d}"' for i in range(60)] + ["1 texts.example. 60 IN NS ns1.texts.example."]
    reply, octets = sent(query, reply_to(query, *lines))
    assert (len(octets), len(reply.answer), len(reply.authority)) == (size, kept, kept // 60)
    assert bool(reply.flags & dns.flags.TC) == (kept < 60)
    assert reply.payload == payload


@pytest.mark.parametrize(("payload", "limit"), [(None, 512), (100, 512), (512, 512), (1232, 1232), (4096, 4096), (65535, 65535)])
def test_udp_never_exceeds_what_the_client_takes(payload: int | None, limit: int) -> None:
    query = question(payload=payload)
    for count in (1, 28, 29, 30, 31, 32, 60, 70, 80, 255, 300, 4000, 4300):
        reply, octets = sent(query, reply_to(query, *addresses(count)))
        assert len(octets) <= limit
        opt = 0 if payload is None else 11
        room = (limit - opt - 12 - len(NAME) - 1 - 4) // 16
        assert len(reply.answer) == min(count, room)
        assert bool(reply.flags & dns.flags.TC) == (count > room)


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("payload", [None, 700, 1232])
def test_exact_fit(payload: int | None, tcp: bool) -> None:
    """A last record that ends exactly at the limit stays, one octet more does not."""
    query = question(payload=payload, rdtype="TXT")
    limit = 65535 if tcp else payload or 512
    opt = 0 if payload is None else 11
    room = limit - opt - 12 - len(NAME) - 1 - 4
    for more in (-1, 0, 1):
        left = room + more - 12  # of one record's rdata, its owner a pointer
        record = NAME_WIRE + struct.pack("!HHIH", 16, 1, 60, left) + bytes([0] * left)
        message = struct.pack("!6H", 0, 0x8400, 1, 1, 0, 0) + NAME_WIRE + struct.pack("!HH", 16, 1) + record
        if len(message) > 65535:
            record = b"\xc0\x0c" + record[len(NAME_WIRE) :]
            message = struct.pack("!6H", 0, 0x8400, 1, 1, 0, 0) + NAME_WIRE + struct.pack("!HH", 16, 1) + record
        if len(message) > 65535:
            continue
        octets, _ = finished(query.to_wire(), message, tcp=tcp)
        counts = struct.unpack("!4H", octets[4:12])
        assert counts == (1, 1 if more <= 0 else 0, 0, 1 if opt else 0)
        assert bool(octets[2] & 2) == (more > 0)
        assert len(octets) == (limit + more if more <= 0 else limit - room)


NAME_WIRE = dns.name.from_text(NAME).to_wire()


def test_sections_behind_the_one_that_overflows_are_dropped() -> None:
    query = question(payload=1232)
    lines = [*addresses(100), "1 example.org. 60 IN NS ns.example.org.", "2 ns.example.org. 60 IN A 10.0.0.1"]
    reply, octets = sent(query, reply_to(query, *lines))
    assert reply.flags & dns.flags.TC
    assert not reply.authority
    assert not reply.additional
    assert reply.edns == 0
    assert 1232 - 16 < len(octets) <= 1232


def test_only_what_is_behind_is_dropped() -> None:
    query = question()
    text = "x" * 200
    lines = ["0 www.example.org. 60 IN A 10.0.0.1", f'1 a.example.org. 60 IN TXT "{text}"', f'1 b.example.org. 60 IN TXT "{text}"']
    lines += [f'1 c.example.org. 60 IN TXT "{text}"', "2 d.example.org. 60 IN A 10.0.0.2"]
    reply, _ = sent(query, reply_to(query, *lines))
    assert (len(reply.answer), len(reply.authority), len(reply.additional)) == (1, 2, 0)
    assert reply.flags & dns.flags.TC


def test_nothing_is_lost_where_compression_is_enough() -> None:
    query = question()
    lines = [f"0 {NAME} 60 IN A 10.0.0.{i}" for i in range(25)]
    plain = 12 + len(NAME) + 1 + 4 + 25 * (len(NAME) + 1 + 14)
    reply, octets = sent(query, reply_to(query, *lines))
    assert plain > 512 > len(octets)
    assert len(reply.answer) == 25
    assert not reply.flags & dns.flags.TC


@pytest.mark.parametrize(("count", "payload", "whole"), [(20, None, True), (60, None, False), (60, 1232, True), (60, 700, False)])
def test_a_signed_reply_is_whole_or_empty(count: int, payload: int | None, whole: bool) -> None:
    """RFC 8945 5.3. Nor does a TSIG record of an upstream have more sent than the client takes."""
    query = question(payload=payload)
    message = reply_to(query, *addresses(count))
    tsig = b"\x03key\0" + struct.pack("!HHIH", 250, 255, 0, 17) + bytes(17)
    message = message[:10] + b"\0\1" + message[12:] + tsig
    octets, _ = finished(query.to_wire(), message)
    opt = payload is not None
    assert struct.unpack("!4H", octets[4:12]) == ((1, count, 0, 1 + opt) if whole else (1, 0, 0, opt))
    assert len(octets) <= (payload or 512)
    assert bool(octets[2] & 2) != whole


def test_a_signature_that_is_not_the_last_record_signs_nothing() -> None:
    """An upstream that puts one elsewhere does not have more sent than the client takes."""
    query = question()
    tsig = b"\x03key\0" + struct.pack("!HHIH", 250, 255, 0, 17) + bytes(17)
    message = reply_to(query, *addresses(60))
    for before in (message[:6] + b"\0\x3d" + message[8:] + tsig, message[:10] + b"\0\2" + message[12:] + tsig + reply_to(query, *addresses(1))[-31:]):
        octets, _ = finished(query.to_wire(), before)
        assert len(octets) <= 512
        assert octets[2] & 2


@pytest.mark.parametrize(("count", "tcp", "ipv6"), [(85, False, False), (86, False, False), (68, False, True), (69, False, True), (200, True, False)])
def test_udp_compresses_beyond_an_ethernet_frame(count: int, tcp: bool, ipv6: bool) -> None:
    """Nothing has to go, but replies over 1480 (IPv6: 1220) octets are compressed."""
    query = question("x.", payload=4096)
    other = "y."
    reply, octets = sent(query, reply_to(query, *addresses(count, other)), tcp=tcp, ipv6=ipv6)
    plain = 12 + 3 + 4 + 11 + count * 17
    assert len(reply.answer) == count
    compressed = not tcp and plain > (1220 if ipv6 else 1480)
    assert len(octets) == (plain - (count - 1) if compressed else plain)


def test_four_thousand_records_over_tcp() -> None:
    """Whole where 65,535 octets are enough, cut with TC where they are not."""
    query = question("x.", "A")
    for count in (4093, 4094, 4096, 4367, 4368, 4369, 4400):
        message = struct.pack("!6H", 0, 0x8400, 1, count, 0, 0) + b"\x01x\0\0\1\0\1"
        message += b"".join(b"\0" + struct.pack("!HHIH4s", 1, 1, 60, 4, struct.pack("!I", i)) for i in range(count))
        if len(message) > 65535:
            message = message[: 65535 - (65535 - 19) % 15]
        octets, _ = finished(query.to_wire(), message, tcp=True)
        got = struct.unpack("!H", octets[6:8])[0]
        assert len(octets) <= 65535
        assert got == min(count, (65535 - 19) // 15)
        assert [rdata for _, _, _, _, _, rdata in records(octets)] == [struct.pack("!I", i) for i in range(got)]


def test_a_reply_with_more_records_than_the_table_holds() -> None:
    """4,400 records are the bound; what is refused sets TC or the reply."""
    query = question("x.", "A")
    count = 5000
    message = struct.pack("!6H", 0, 0x8400, 1, count, 0, 0) + b"\x01x\0\0\1\0\1" + b"\0\0\1\0\1\0\0\0\x3c\0\0" * count
    with pytest.raises(ValueError, match="too big"):
        finished(query.to_wire(), message, tcp=True)


@pytest.mark.parametrize("copied", ["", "own", "append"])
@pytest.mark.parametrize("count", [1, 19, 20, 21, 22, 40, 41, 100, 1000])
def test_tiny_records_cross_into_the_large_buffer(copied: str, count: int) -> None:
    """Records so small that the table is full before the arena is: the table then moves while a record is being made."""
    query = question(".", "A")
    message = struct.pack("!6H", 0, 0x8400, 1, count, 0, 0) + b"\0\0\1\0\1"
    message += b"".join(b"\0" + struct.pack("!HHIH4s", 1, 1, 60, 4, struct.pack("!I", i)) for i in range(count))
    octets, _ = finished(query.to_wire(), message, tcp=True, copied=copied)
    assert [(owner, rdata) for _, owner, _, _, _, rdata in records(octets)] == [(b"\0", struct.pack("!I", i)) for i in range(count)]


@pytest.mark.parametrize("copied", ["", "own", "append"])
@pytest.mark.parametrize("count", [10, 20, 30, 300])
def test_copies_of_replies_of_any_size(copied: str, count: int) -> None:
    query = question(rdtype="TXT")
    lines = [f'{i % 3} {"a" * (i % 60 + 1)}.example.org. {i} IN TXT "{"t" * (i % 90)}{i}"' for i in range(count)]
    message = reply_to(query, *lines)
    octets, _ = finished(query.to_wire(), message, tcp=True, copied=copied)
    assert records(octets) == records(message)


# ---- OPT ----


def test_options_that_are_echoed() -> None:
    """NSID; not those that are hop by hop (EXPIRE, cookie, keepalive, padding)."""
    options = [dns.edns.GenericOption(code, b"abcdefgh") for code in (3, 9, 10, 11, 12, 15, 65001)]
    query = question(payload=1400, options=options)
    octets, _ = finished(query.to_wire(), reply_to(query, *addresses(1)))
    opt = [rdata for _, _, rdtype, _, _, rdata in records(octets) if rdtype == 41]
    assert opt == [struct.pack("!HH", 3, 8) + b"abcdefgh"]
    assert octets.endswith(opt[0])  # the OPT stands last


@pytest.mark.parametrize(("flags", "wanted"), [(0x8000, 0x8000), (0xC001, 0xC000), (0x00FF, 0), (0, 0)])
def test_flags_of_the_opt(flags: int, wanted: int) -> None:
    query = question().to_wire()[:10] + b"\0\1" + NAME_WIRE + b"\0\1\0\1" + b"\0\0\x29" + struct.pack("!HIH", 999, flags, 0)
    octets, _ = finished(query, reply_to(question(), *addresses(1)))
    assert octets[-11:] == b"\0\0\x29" + struct.pack("!HIH", 999, wanted, 0)


def test_no_opt_without_the_clients() -> None:
    query = question()
    reply, _ = sent(query, reply_to(query, *addresses(1)))
    assert reply.edns == -1


def test_a_plugins_opt() -> None:
    """Its options stay, size and DO become the client's; without one of the client's it is not sent."""
    own = b"\0\0\x29" + struct.pack("!HIH", 512, 0x00011234, 6) + b"\0\x0f\0\2\0\x12"

    def with_opt(query: dns.message.Message) -> bytes:
        message = reply_to(query, *addresses(1))
        return message[:10] + b"\0\1" + message[12:] + own

    query = question()
    query.use_edns(0, 0x8000, 1400)
    octets, _ = finished(query.to_wire(), with_opt(query))
    assert octets[-17:] == b"\0\0\x29" + struct.pack("!HIH", 1400, 0x9200, 6) + b"\0\x0f\0\2\0\x12"
    query = question()
    octets, _ = finished(query.to_wire(), with_opt(query))
    assert octets == finished(query.to_wire(), reply_to(query, *addresses(1)))[0]


def test_an_opt_that_fills_a_message() -> None:
    """Options of an upstream that leave no room for header and question go; the frame of TCP never says less than it holds."""
    query = question("a" * 63 + "." + "b" * 63 + ".", payload=1232)
    own = b"\0\0\x29" + struct.pack("!HIH", 512, 0, 65500) + struct.pack("!HH", 65001, 65496) + bytes(65496)
    message = struct.pack("!6H", 0, 0x8400, 0, 0, 0, 1) + own
    octets, _ = finished(query.to_wire(), message, tcp=True)
    assert len(octets) <= 65535
    assert struct.unpack("!4H", octets[4:12]) == (1, 0, 0, 1)


def test_an_extended_rcode() -> None:
    query = question(payload=1232)
    message = struct.pack("!6H", 0, 0x8007, 0, 0, 0, 1) + b"\0\0\x29" + struct.pack("!HIH", 512, 0x01000000, 0)
    reply, _ = sent(query, message)
    assert reply.rcode() == 0x17


def test_an_extended_rcode_without_an_opt_is_a_failure() -> None:
    """Its lower bits alone would be another rcode, and an OPT is for clients that sent one (RFC 6891 7)."""
    query = question()
    message = reply_to(query, *addresses(3), "2 . 0 IN A 192.0.2.1")
    message = message[:3] + b"\x07" + message[4:-15] + b"\0\0\x29" + struct.pack("!HIH", 512, 0x01000000, 0)
    reply, _ = sent(query, message)
    assert (reply.rcode(), reply.edns, reply.answer) == (dns.rcode.SERVFAIL, -1, [])


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_do_is_the_clients(asked: bool, given: bool) -> None:
    """RFC 3225 3, whatever a plugin or an upstream has put into its OPT."""
    query = question(payload=1232)
    query.ednsflags = dns.flags.DO if asked else 0
    message = struct.pack("!6H", 0, 0x8400, 0, 0, 0, 1) + b"\0\0\x29" + struct.pack("!HIH", 4096, 0x8000 if given else 0, 0)
    reply, _ = sent(query, message)
    assert (bool(reply.ednsflags & dns.flags.DO), reply.payload) == (asked, 1232)


def test_an_opt_that_nobody_asked_for() -> None:
    query = question()
    message = struct.pack("!6H", 0, 0x8400, 0, 0, 0, 1) + b"\0\0\x29" + struct.pack("!HIH", 4096, 0x8000, 0)
    reply, octets = sent(query, message)
    assert (reply.edns, octets[10:12]) == (-1, b"\0\0")


# ---- header ----


@pytest.mark.parametrize(("asked", "wanted"), [(0x0100, 0x8500), (0x0110, 0x8510), (0x0130, 0x8510), (0x2100, 0xA400), (0x07F0, 0x8510)])
def test_header_bits(asked: int, wanted: int) -> None:
    """Opcode always, RD and CD of queries; AA comes from the reply; AD, TC, RA, Z and AA of the request do not come back."""
    query = struct.pack("!6H", 0x1234, asked, 1, 0, 0, 0) + NAME_WIRE + b"\0\1\0\1"
    octets, _ = finished(query, reply_to(question(), *addresses(1)))
    assert octets[:4] == struct.pack("!HH", 0x1234, wanted)


def test_the_questions_case_is_kept() -> None:
    query = question("wWw.ExAmPlE.oRg.")
    octets, _ = finished(query.to_wire(), reply_to(query, *addresses(1, "www.example.org.")))
    assert dns.name.from_text("wWw.ExAmPlE.oRg.").to_wire() == octets[12 : 12 + len(NAME_WIRE)]
    # An owner in other case is no pointer to the question: it would change.
    assert NAME_WIRE in octets


# ---- compression ----

LABELS = ["a", "b", "A", "www", "Www", "x" * 63, "example", "EXAMPLE", "org", "\\000", "\\.", "xn--fasd", "1"]
TYPES = {
    "A": lambda name: "10.0.0.1",
    "NS": lambda name: name(),
    "CNAME": lambda name: name(),
    "PTR": lambda name: name(),
    "DNAME": lambda name: name(),
    "MX": lambda name: f"10 {name()}",
    "SRV": lambda name: f"1 2 3 {name()}",
    "SOA": lambda name: f"{name()} {name()} 1 2 3 4 5",
    "NAPTR": lambda name: f'1 2 "s" "SIP+D2U" "" {name()}',
    "RP": lambda name: f"{name()} {name()}",
    "TXT": lambda name: '"some text"',
}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("copied", ["", "own", "append"])
def test_what_is_compressed_reads_back_as_it_was(seed: int, copied: str) -> None:
    source = random.Random(seed)

    def name() -> str:
        labels = [source.choice(LABELS) for _ in range(source.randrange(4))]
        return ".".join([*labels, source.choice(["example.org.", "Example.org.", "org.", ""])]) or "."

    lines = []
    for _ in range(source.choice([1, 5, 30, 120])):
        rdtype = source.choice(list(TYPES))
        lines.append(f"{source.randrange(3)} {name()} {source.randrange(1000)} IN {rdtype} {TYPES[rdtype](name)}")
    query = question(name(), payload=source.choice([None, 65535, 1232, 4096]))
    message = reply_to(query, *lines)
    tcp = source.random() < 0.3
    octets, size = finished(query.to_wire(), message, tcp=tcp, copied=copied)
    assert size == len(message)
    wanted, got = records(message), [record for record in records(octets) if record[2] != 41]
    # Octet for octet, letter case included, but for what was cut at the end.
    assert got == wanted[: len(got)]
    assert bool(octets[2] & 2) == (len(got) < len(wanted))
    # And dnspython reads the same.
    read = dns.message.from_wire(octets, one_rr_per_rrset=True)
    assert sum(map(len, (read.answer, read.authority, read.additional))) == len(got)
    for (_, owner, rdtype, _, _, rdata), rrset in zip(got, [*read.answer, *read.authority, *read.additional], strict=True):
        assert (owner, rdtype, rdata) == (rrset.name.to_wire(), rrset.rdtype, rrset[0].to_wire())


def test_rdata_of_types_unknown_then_is_not_compressed() -> None:
    """RFC 3597 4: only the types of RFC 1035 have compressed names in rdata."""
    query = question("example.org.", "SRV")
    lines = [f"0 example.org. 60 IN SRV 1 2 3 target{i}.example.org." for i in range(30)]
    _, octets = sent(query, reply_to(query, *lines))
    assert octets.count(b"\x07example\x03org\0") > 1
    assert b"\xc0" not in b"".join(octets[12:].split(b"\xc0\x0c"))  # without the id, which may have it


#: A type of each form: rdata, and what the name in it is compressed to.
POINTED_AT = {
    "AFSDB": "1 {}", "CNAME": "{}", "DNAME": "{}", "KX": "1 {}", "LP": "1 {}", "MX": "1 {}", "NAPTR": '1 1 "U" "E2U" "" {}', "NS": "{}", "NSEC": "{} A",
    "PTR": "{}", "PX": "1 {0} {0}", "RP": "{0} {0}", "RRSIG": "A 8 2 60 20300101000000 20200101000000 1 {} AAAA", "RT": "1 {}", "SOA": "{0} {0} 1 2 3 4 5",
    "SRV": "1 2 3 {}", "SVCB": "1 {}",
}  # fmt: skip


@pytest.mark.parametrize("rdtype", POINTED_AT)
def test_owners_point_to_names_in_rdata(rdtype: str) -> None:
    """Of any type: an owner that was in rdata before has two octets."""
    query = question("q.example.org.", rdtype, payload=4096)
    targets = [f"target{i}.of.some.length.example.com." for i in range(24)]
    lines = [f"0 q.example.org. 60 IN {rdtype} {POINTED_AT[rdtype].format(target)}" for target in targets]
    reply, octets = sent(query, reply_to(query, *lines, *(f"2 {target} 60 IN A 10.0.0.1" for target in targets)))
    assert (len(reply.answer), len(reply.additional)) == (24, 24)
    assert all(octet & 0xC0 == 0xC0 for octet in octets[-11 - 16 * 24 : -11 : 16])
    assert [rrset.name.to_text() for rrset in reply.additional] == targets


# Octets of CoreDNS 1.14.7's replies with so many targets and their addresses: type, targets, EDNS size of the client, octets, answers, additional, TC.
SIZES: list[tuple[str, int, int | None, int, int, int, bool]] = [
    ("SOA", 8, None, 498, 8, 3, True),
    ("SOA", 30, 1232, 1198, 24, 0, True),
    ("SOA", 40, 4096, 2574, 40, 40, False),
    ("SOA", 90, 16000, 5674, 90, 90, False),
    ("SOA", 250, 65535, 15595, 250, 250, False),
    ("MX", 8, None, 418, 8, 8, False),
    ("MX", 30, 1232, 1226, 30, 22, True),
    ("MX", 40, 4096, 1774, 40, 40, False),
    ("MX", 90, 16000, 3874, 90, 90, False),
    ("MX", 250, 65535, 10595, 250, 250, False),
    ("SRV", 8, None, 498, 8, 3, True),
    ("SRV", 30, 1232, 1190, 22, 0, True),
    ("SRV", 40, 4096, 2766, 40, 40, False),
    ("SRV", 90, 16000, 6166, 90, 90, False),
    ("SRV", 250, 65535, 17047, 250, 250, False),
    ("NAPTR", 8, None, 506, 8, 1, True),
    ("NAPTR", 30, 1232, 1186, 20, 0, True),
    ("NAPTR", 40, 4096, 2966, 40, 40, False),
    ("NAPTR", 90, 16000, 6616, 90, 90, False),
    ("NAPTR", 250, 65535, 18297, 250, 250, False),
    ("SVCB", 8, None, 498, 8, 5, True),
    ("SVCB", 30, 1232, 1198, 24, 0, True),
    ("SVCB", 40, 4096, 2606, 40, 40, False),
    ("SVCB", 90, 16000, 5806, 90, 90, False),
    ("SVCB", 250, 65535, 16047, 250, 250, False),
    ("RRSIG", 8, None, 503, 7, 0, True),
    ("RRSIG", 30, 1232, 1185, 17, 0, True),
    ("RRSIG", 40, 4096, 3366, 40, 40, False),
    ("RRSIG", 90, 16000, 7516, 90, 90, False),
    ("RRSIG", 250, 65535, 20857, 250, 250, False),
]


@pytest.mark.parametrize(("rdtype", "count", "payload", "size", "answers", "additional", "cut"), SIZES)
def test_sizes_are_those_of_coredns(rdtype: str, count: int, payload: int | None, size: int, answers: int, additional: int, cut: bool) -> None:
    query = question(f"{count}.q.example0.org.", rdtype, payload=payload)
    targets = [f"target{i:03}.some.long.example{i % 3}.org." for i in range(count)]
    lines = [f"0 {count}.q.example0.org. 60 IN {rdtype} {POINTED_AT[rdtype].format(target)}" for target in targets]
    reply, octets = sent(query, reply_to(query, *lines, *(f"2 {target} 60 IN A 10.0.0.{i}" for i, target in enumerate(targets))))
    assert (len(octets), len(reply.answer), len(reply.additional)) == (size, answers, additional)
    assert bool(reply.flags & dns.flags.TC) == cut


def test_pointers_reach_16383_octets() -> None:
    query = question("example.org.", "TXT", payload=65535)
    lines = [f'0 n{i % 40}.example.org. 60 IN TXT "{"x" * 250}"' for i in range(120)]
    reply, octets = sent(query, reply_to(query, *lines))
    assert len(octets) > 0x4000
    assert [rrset.name.to_text() for rrset in reply.answer] == [f"n{i % 40}.example.org." for i in range(120)]


# ---- whatever an upstream says ----


def mutated(source: random.Random, message: bytes) -> bytes:
    octets = bytearray(message)
    for _ in range(source.choice([1, 1, 2, 5])):
        kind = source.randrange(4)
        at = source.randrange(len(octets))
        if kind == 0:
            octets[at] = source.randrange(256)
        elif kind == 1:
            octets[at : at + 2] = struct.pack("!H", source.choice([0, 1, 12, 41, 255, 0xC00C, 0xC000, 0xFFFF, 0x3FFF]))
        elif kind == 2 and len(octets) > 20:
            del octets[at : at + source.randrange(1, 9)]
        else:
            octets[at:at] = octets[source.randrange(len(octets)) :][: source.randrange(1, 40)]
        if not octets:
            return b""
    return bytes(octets)


@pytest.mark.parametrize("seed", range(20))
def test_fuzzed_replies_are_refused_or_read_back(seed: int) -> None:
    """parse, write, parse again: the same records, or a prefix of them with TC."""
    source = random.Random(seed)
    query = question(payload=1232)
    seeds = []
    for compress in (True, False):
        lines = ["0 www.example.org. 60 IN CNAME a.example.org.", "0 a.example.org. 60 IN A 10.0.0.1", "1 example.org. 60 IN NS ns.example.org."]
        lines += ["1 example.org. 60 IN SOA ns.example.org. h.example.org. 1 2 3 4 5", "2 ns.example.org. 60 IN MX 10 a.b.example.org."]
        message = dns.message.from_wire(reply_to(query, *lines))
        message.use_edns(0, 0x8000, 1232, options=[dns.edns.GenericOption(10, b"12345678")])
        seeds.append(message.to_wire() if compress else reply_to(query, *lines))
    refused = read = 0
    for _ in range(1500):
        message = mutated(source, source.choice(seeds))
        tcp = source.random() < 0.5
        copied = source.choice(["", "own", "append"])
        try:
            octets, _ = finished(query.to_wire(), message, tcp=tcp, copied=copied)
        except ValueError:
            refused += 1
            continue
        read += 1
        # A TTL with the high bit is 0 (RFC 2181 8).
        wanted = [(*record[:4], record[4] if record[4] < 1 << 31 else 0, record[5]) for record in records(message) if record[2] != 41 or record[0] != 2]
        got = [record for record in records(octets) if record[2] != 41 or record[0] != 2]
        assert got == wanted[: len(got)]
        assert len(got) == len(wanted) or octets[2] & 2
    assert refused > 100
    assert read > 100
