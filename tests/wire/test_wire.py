"""Reading messages: names, questions, records; against dnspython, and with damage done."""

from __future__ import annotations

import random
import struct

import dns.message
import dns.name
import dns.rrset
import pytest

from fastdns import _wire

HEADER = struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 0)
QUESTION = b"\3www\7example\3org\0\0\1\0\1"
ACCEPT, IGNORE, REJECT_HEADER, REJECT_QUESTION = range(4)


@pytest.mark.parametrize(
    "text",
    [".", "example.org.", "a\\.b.example.org.", "\\000\\255.x.", "w w.example.", "A" * 63 + ".x.", ".".join(["a"] * 127) + "."],
)
def test_names_there_and_back(text: str) -> None:
    wire = _wire.name_wire(text)
    assert wire == dns.name.from_text(text).to_wire()
    assert _wire.name_wire(_wire.name_text(wire)) == wire


@pytest.mark.parametrize("text", ["a..b.", ".a.", "A" * 64 + ".x.", ".".join(["a"] * 128) + ".", "a\\", "a\\999."])
def test_names_refused(text: str) -> None:
    with pytest.raises(ValueError):
        _wire.name_wire(text)


def test_hashes_fold_case_and_tell_suffixes_apart() -> None:
    hashes = _wire.suffix_hashes(_wire.name_wire("WWW.Example.ORG."))
    assert hashes == _wire.suffix_hashes(_wire.name_wire("www.example.org."))
    assert hashes[1:] == _wire.suffix_hashes(_wire.name_wire("example.org."))
    assert len({*hashes, *_wire.suffix_hashes(_wire.name_wire("ww.wexample.org."))[:2]}) == 6
    # Octets outside of A-Z are not folded: 0x5B is '[', 0x7B is '{'.
    assert _wire.suffix_hashes(b"\1[\0") != _wire.suffix_hashes(b"\1{\0")
    assert _wire.suffix_hashes(b"\1\xc1\0") != _wire.suffix_hashes(b"\1\xe1\0")


@pytest.mark.parametrize("lengths", [(), (1,), (2,), (3, 2), (7,), (8, 1), (9, 2, 3), (5, 7, 15, 16, 17), (63, 63, 63, 61), (1,) * 127])
def test_a_name_is_read_alike_whatever_follows_it(lengths: tuple[int, ...]) -> None:
    """What stands behind a question's name decides how it is read, not what it is; nor does a pointer to it."""
    random_octets = random.Random(len(lengths) + sum(lengths)).randbytes
    wire = b"".join(bytes([length]) + random_octets(length) for length in lengths) + b"\0"
    hashes = _wire.suffix_hashes(wire)
    assert len(hashes) == len(lengths) + 1
    for count in range(1, 20):
        assert _wire.suffix_hashes(wire + random_octets(count)) == hashes
        assert _wire.accept(HEADER + wire + b"\0\1\0\1" + random_octets(count - 1))[2] == _wire.name_text(wire)
    if lengths:
        (answer,) = _wire.records(struct.pack("!6H", 1, 0x8000, 1, 1, 0, 0) + wire + bytes(4) + b"\xc0\x0c" + bytes(10))
        assert answer[1] == wire


@pytest.mark.parametrize(
    ("packet", "wanted"),
    [
        (HEADER + QUESTION, (ACCEPT, 0, "www.example.org.", 1, 1)),
        (HEADER + QUESTION + b"\xde\xad", (ACCEPT, 0, "www.example.org.", 1, 1)),
        (HEADER[:11], (IGNORE, 0, None, 0, 0)),
        (struct.pack("!6H", 1, 0x8100, 1, 0, 0, 0) + QUESTION, (IGNORE, 0, None, 0, 0)),
        (struct.pack("!6H", 1, 0x2900, 1, 0, 0, 0) + QUESTION, (REJECT_HEADER, 4, None, 0, 0)),
        (struct.pack("!6H", 1, 0x0100, 2, 0, 0, 0) + QUESTION * 2, (REJECT_HEADER, 1, None, 0, 0)),
        (struct.pack("!6H", 1, 0x0100, 1, 2, 0, 0) + QUESTION, (REJECT_HEADER, 1, None, 0, 0)),
        (struct.pack("!6H", 1, 0x0100, 1, 0, 0, 3) + QUESTION, (REJECT_HEADER, 1, None, 0, 0)),
        (struct.pack("!6H", 1, 0x0100, 1, 1, 1, 2) + QUESTION, (ACCEPT, 0, "www.example.org.", 1, 1)),  # counts that lie
        (HEADER, (REJECT_HEADER, 2, None, 0, 0)),  # no question at all
        (HEADER + QUESTION[:-2], (ACCEPT, 0, "www.example.org.", 1, 0)),
        (HEADER + QUESTION[:-4], (ACCEPT, 0, "www.example.org.", 0, 0)),
        (HEADER + QUESTION[:-3], (REJECT_HEADER, 1, None, 0, 0)),
        (HEADER + QUESTION[:-5] + b"\x40", (REJECT_HEADER, 1, None, 0, 0)),
        (HEADER + b"\xc0\x0c\0\1\0\1", (REJECT_HEADER, 1, None, 0, 0)),  # a pointer to itself
        (HEADER + b"\xc0\x40\0\1\0\1", (REJECT_HEADER, 1, None, 0, 0)),  # forwards
        (struct.pack("!6H", 1, 0x0100, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\x04\xd0\0\0\0\0\0\4\0\3\0\5", (REJECT_QUESTION, 1, None, 0, 0)),
        (struct.pack("!6H", 1, 0x0100, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\x04\xd0\0\0\0\0\0\4\0\3\0\0", (ACCEPT, 0, "www.example.org.", 1, 1)),
        (struct.pack("!6H", 1, 0x0100, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\x04", (REJECT_QUESTION, 1, None, 0, 0)),
        (HEADER + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 + b"\0\0\1\0\1", (REJECT_HEADER, 1, None, 0, 0)),
    ],
)
def test_accept(packet: bytes, wanted: tuple[object, ...]) -> None:
    how, rcode, *rest = _wire.accept(packet)
    assert (how, rcode if how not in (IGNORE,) else 0, *rest) == wanted


def test_pointer_chains_end() -> None:
    """Whatever two octets stand at each place of a name full of pointers, reading ends and stays inside."""
    for target in range(64):
        body = b"".join(struct.pack("!H", 0xC000 | (12 + 2 * i - 2)) for i in range(1, 200))
        _wire.accept(HEADER + b"\0\0" + body + struct.pack("!H", 0xC000 | target) + b"\0\1\0\1")
    chain = b"\1a\0" + b"".join(struct.pack("!H", 0xC000 | at) for at in (12, *range(15, 15 + 2 * 200, 2)))
    packet = struct.pack("!6H", 1, 0x8000, 0, 1, 0, 0) + chain
    with pytest.raises(ValueError):
        _wire.records(packet)


RRSETS = [
    ("example.org.", "A", "192.0.2.1"),
    ("example.org.", "AAAA", "2001:db8::1"),
    ("example.org.", "MX", "10 mail.example.org."),
    ("example.org.", "SOA", "ns.example.org. admin.example.org. 1 2 3 4 5"),
    ("example.org.", "NAPTR", '10 20 "u" "E2U+sip" "!^.*$!sip:info@example.org!" .'),
    ("example.org.", "SRV", "1 2 53 ns.example.org."),
    ("example.org.", "TXT", '"one" "two"'),
    ("www.example.org.", "CNAME", "example.org."),
    ("example.org.", "RRSIG", "A 8 2 3600 20300101000000 20200101000000 12345 example.org. AAAA"),
    ("example.org.", "TYPE65280", "\\# 4 01020304"),
]


def test_records_agree_with_dnspython() -> None:
    message = dns.message.make_query("example.org.", "ANY")
    message = dns.message.make_response(message)
    for owner, rdtype, rdata in RRSETS:
        message.answer.append(dns.rrset.from_text(owner, 300, "IN", rdtype, rdata))
    found = _wire.records(message.to_wire())
    wanted = [(0, r.name.to_wire(), r.rdtype, 1, 300, r[0].to_wire()) for r in message.answer]
    assert sorted(found) == sorted(wanted)


def test_damage_is_refused_or_read_never_worse() -> None:
    message = dns.message.make_response(dns.message.make_query("example.org.", "ANY", use_edns=0))
    for owner, rdtype, rdata in RRSETS:
        message.answer.append(dns.rrset.from_text(owner, 300, "IN", rdtype, rdata))
    good = message.to_wire()
    chance = random.Random(7)
    refused = 0
    for _ in range(20000):
        octets = bytearray(good[: chance.randrange(12, len(good) + 1)] if chance.random() < 0.3 else good)
        for _ in range(chance.randrange(1, 6)):
            octets[chance.randrange(len(octets))] = chance.choice((0, 255, 0xC0, 12, chance.randrange(256)))
        try:
            _wire.records(bytes(octets))
        except ValueError:
            refused += 1
        _wire.accept(bytes(octets))
    assert 1000 < refused < 20000
