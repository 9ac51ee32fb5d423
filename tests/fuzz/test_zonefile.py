"""Mutated master files: records that are valid, or an error with its place; nothing else (R1)."""

from __future__ import annotations

import os
import random

import pytest

from fastdns.zonefile import parser
from fastdns.zonefile.rdata import valid
from tests.fuzz.mutating import mutate
from tests.zonefile.test_zonefile import BAD, FILES, RDATA

COUNT = int(os.environ.get("FASTDNS_ZONEFILES", "20000"))

SEEDS = [f"$TTL 300\nname IN {rdata}\n".encode() for rdata in RDATA] + [text.encode() for text in (*FILES, *BAD)]
WORDS = [
    *(
        b"(",
        b")",
        b'"',
        b"\\",
        b"\\000",
        b"\\255",
        b"\\999",
        b"\n",
        b"\r\n",
        b"\t",
        b" ",
        b";",
        b"@",
        b".",
        b"..",
        b"$",
        b"${",
        b"}",
        b"\0",
        b"\xff",
        b"-",
        b"=",
    ),
    *(b"$TTL ", b"$ORIGIN ", b"$INCLUDE ", b"$GENERATE ", b"0-9", b"/3", b"TYPE65535", b"CLASS1", b"\\# ", b"\\# 4 ", b"IN", b"NSEC", b"HTTPS", b"HIP"),
    *(b"4294967295", b"4294967296", b"99999999999999999999", b"65535", b"1w", b"x" * 64, b"x." * 120, b"x" * 300, b"alpn=", b"key65534=", b"mandatory="),
]


@pytest.mark.timeout(3600)
def test_R1_mutated_master_files() -> None:
    chance = random.Random(7)
    parsed = failed = 0
    for _ in range(COUNT):
        text = mutate(chance.choice(SEEDS), WORDS, chance)
        try:
            records = parser.parse(text, "example.org.", "/nonexistent/db")
        except parser.ZoneFileError as error:
            failed += error.line >= 1
            continue
        parsed += 1
        for owner, kind, _, _, rdata in records:
            assert 1 <= len(owner) <= 255
            assert owner[-1] == 0
            assert valid(kind, rdata), (text, kind, rdata)
    assert parsed
    assert failed
