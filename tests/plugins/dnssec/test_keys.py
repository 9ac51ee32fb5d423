"""Private keys from BIND's files: what is read, signed and refused."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from fastdns.corefile import CorefileError
from fastdns.plugins.dnssec.keys import key_of_texts, read_key
from tests.dnskeys import make_key, private_key

ORDERS = {
    13: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    14: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
}


def verify(key: object, algorithm: int, signature: bytes, data: bytes) -> None:
    """Raises InvalidSignature."""
    match key:
        case rsa.RSAPrivateKey():
            scheme = {5: hashes.SHA1, 7: hashes.SHA1, 8: hashes.SHA256, 10: hashes.SHA512}[algorithm]()
            key.public_key().verify(signature, data, padding.PKCS1v15(), scheme)
        case ec.EllipticCurvePrivateKey():
            half = len(signature) // 2
            assert half == {13: 32, 14: 48}[algorithm]
            der = encode_dss_signature(int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
            key.public_key().verify(der, data, ec.ECDSA(hashes.SHA256() if algorithm == 13 else hashes.SHA384()))
        case ed25519.Ed25519PrivateKey():
            key.public_key().verify(signature, data)
        case _:
            raise AssertionError(key)


@pytest.mark.parametrize("algorithm", [5, 7, 8, 10, 13, 14, 15])
def test_signatures(tmp_path: Path, algorithm: int) -> None:
    make_key(tmp_path, "example.org.", algorithm, name="k")
    read = read_key(str(tmp_path / "k"))
    key, _ = private_key(algorithm, 257)
    for data in (b"", b"x", bytes(range(256)) * 300):
        for _ in range(40):  # a number of an ECDSA signature has a leading zero octet once in 256
            verify(key, algorithm, read.sign(data), data)


@pytest.mark.parametrize(
    ("algorithm", "number"),
    [(13, 1), (13, ORDERS[13] - 1), (14, 1), (14, ORDERS[14] - 1), (13, 0), (13, ORDERS[13]), (14, 0), (14, ORDERS[14]), (13, 1 << 300)],
)
def test_secrets_of_curves(tmp_path: Path, algorithm: int, number: int) -> None:
    """From 1 to below the order, of any length; the multiple of another secret is not the public half of this key."""
    make_key(tmp_path, "example.org.", algorithm, name="k")
    secret = base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode()
    text = re.sub("PrivateKey: .*", f"PrivateKey: {secret}", (tmp_path / "k.private").read_text())
    message = "^private key in private is not that of public$" if 0 < number < ORDERS[algorithm] else "^dns: bad private key$"
    with pytest.raises(CorefileError, match=message):
        key_of_texts((tmp_path / "k.key").read_text(), text, "public", "private")


@pytest.mark.parametrize(
    ("algorithm", "field", "value"),
    [
        (15, "PrivateKey", bytes(31)),
        (15, "PrivateKey", bytes(33)),
        (15, "PrivateKey", b""),
        (13, "PrivateKey", b""),
        (8, "Modulus", b"\3" * 256),
        (8, "PrivateExponent", b"\3" * 255),
        (8, "PublicExponent", b"\2"),
        (8, "PublicExponent", b""),
        (8, "Prime1", b""),
        (8, "Prime1", b"\1"),
        (8, "Prime2", b"\2"),
        (8, "Prime2", b"\5" * 128),
    ],
)
def test_numbers_that_do_not_fit(tmp_path: Path, algorithm: int, field: str, value: bytes) -> None:
    make_key(tmp_path, "example.org.", algorithm, name="k")
    text = re.sub(f"{field}: .*", f"{field}: {base64.b64encode(value).decode()}", (tmp_path / "k.private").read_text())
    with pytest.raises(CorefileError, match="^dns: bad private key$"):
        key_of_texts((tmp_path / "k.key").read_text(), text, "public", "private")


@pytest.mark.parametrize("algorithm", [8, 13, 15])
def test_a_key_of_another_zone(tmp_path: Path, algorithm: int) -> None:
    for number in (1, 2):
        make_key(tmp_path, "example.org.", algorithm, name=f"k{number}", number=number)
    with pytest.raises(CorefileError, match="^private key in private is not that of public$"):
        key_of_texts((tmp_path / "k1.key").read_text(), (tmp_path / "k2.private").read_text(), "public", "private")
