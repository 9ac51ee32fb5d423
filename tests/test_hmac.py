"""Digests and HMACs, beside Python's own."""

from __future__ import annotations

import hashlib
import hmac
import random

import pytest

from fastdns.system.hmac import KINDS, hash_of, hmac_of, same


@pytest.mark.parametrize("kind", KINDS)
def test_every_length(kind: str) -> None:
    """Around each block's end and the padding's."""
    data = random.Random(1).randbytes(600)
    for length in range(len(data)):
        assert hash_of(kind, [data[:length]]) == hashlib.new(kind, data[:length]).digest(), length


@pytest.mark.parametrize("kind", KINDS)
def test_in_parts(kind: str) -> None:
    generator = random.Random(2)
    for _ in range(300):
        parts = [generator.randbytes(generator.choice([0, 1, 63, 64, 65, 127, 128, 129, 300])) for _ in range(generator.randrange(6))]
        whole = b"".join(parts)
        secret = generator.randbytes(generator.choice([0, 1, 16, 63, 64, 65, 127, 128, 129, 500]))
        assert hash_of(kind, parts) == hashlib.new(kind, whole).digest()
        assert hmac_of(kind, secret, parts) == hmac.digest(secret, whole, kind)


def test_a_long_message() -> None:
    data = random.Random(3).randbytes(70000)
    for kind in KINDS:
        assert hmac_of(kind, b"key", [data]) == hmac.digest(b"key", data, kind)


def test_comparison() -> None:
    octets = bytes(range(32))
    assert same(octets, bytes(octets))
    for at in range(32):
        for bit in range(8):
            other = bytearray(octets)
            other[at] ^= 1 << bit
            assert not same(octets, bytes(other))
    with pytest.raises(ValueError, match="different lengths"):
        same(b"a", b"ab")
