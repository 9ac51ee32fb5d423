"""What is kept of the TLVs of a PROXY header, beside a reference."""

from __future__ import annotations

import random

import pytest

from fastdns.proxy.tlvs import keep
from tests.proxying import tlv

INPUTS = 20_000


def reference(octets: bytes) -> bytes:
    """As CoreDNS's library splits TLVs and joins them again: no-ops lose their values."""
    kept = b""
    while octets:
        size = int.from_bytes(octets[1:3], "big")
        if len(octets) < 3 + size or len(octets) < 3:
            return b""
        kept += tlv(octets[0], b"" if octets[0] == 4 else octets[3 : 3 + size])
        octets = octets[3 + size :]
    return kept


@pytest.mark.parametrize(
    ("octets", "kept"),
    [
        (b"", b""),
        (tlv(1, b""), tlv(1, b"")),
        (tlv(4, b"xyz"), tlv(4, b"")),
        (tlv(1, b"h2") + tlv(4, bytes(600)) + tlv(0xEA, b"x"), tlv(1, b"h2") + tlv(4, b"") + tlv(0xEA, b"x")),
        (tlv(0xE0, bytes(4081)), tlv(0xE0, bytes(4081))),
        (tlv(0xE0, b"") * 1300, tlv(0xE0, b"") * 1300),
        (b"\0", b""),
        (b"\0\0", b""),
        (b"\0\0\1", b""),
        (tlv(1, b"h2") + b"\1", b""),
        (b"\1\xff\xff" + bytes(4000), b""),
    ],
)
def test_keep(octets: bytes, kept: bytes) -> None:
    assert keep(octets) == kept
    assert reference(octets) == kept


def test_random_octets() -> None:
    """TLVs of any kind and length, changed a little, and cut."""
    rng = random.Random(7)
    seen = 0
    for _ in range(INPUTS):
        octets = bytearray(b"".join(tlv(rng.choice([1, 4, 0x20, 0xEA]), rng.randbytes(rng.choice([0, 1, 3, 40, 300]))) for _ in range(rng.randrange(6))))
        for _ in range(rng.randrange(3)):
            if octets:
                octets[rng.randrange(len(octets))] = rng.choice([0, 1, 4, 255])
        if rng.random() < 0.3:
            del octets[rng.randrange(len(octets) + 1) :]
        assert keep(bytes(octets)) == reference(bytes(octets)), bytes(octets)
        seen += bool(octets and not reference(bytes(octets)))
    assert seen > INPUTS // 20
