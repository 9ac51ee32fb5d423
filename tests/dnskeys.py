"""Keys for tests, in the files that BIND's dnssec-keygen would write."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.DNSKEY
import dns.rrset
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

NAMES = {5: "RSASHA1", 7: "NSEC3RSASHA1", 8: "RSASHA256", 10: "RSASHA512", 13: "ECDSAP256SHA256", 14: "ECDSAP384SHA384", 15: "ED25519"}


def text(number: int) -> str:
    return base64.b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).decode()


@cache
def private_key(algorithm: int, number: int) -> tuple[object, str]:
    """A key, and what stands in its .private file behind the algorithm; `number` tells keys of one algorithm apart."""
    if algorithm in (13, 14):
        curve = ec.generate_private_key(ec.SECP256R1() if algorithm == 13 else ec.SECP384R1())
        size = 32 if algorithm == 13 else 48
        return curve, f"PrivateKey: {base64.b64encode(curve.private_numbers().private_value.to_bytes(size, 'big')).decode()}\n"
    if algorithm == 15:
        edwards = ed25519.Ed25519PrivateKey.generate()
        return edwards, f"PrivateKey: {base64.b64encode(edwards.private_bytes_raw()).decode()}\n"
    key = rsa.generate_private_key(65537, 1024 if algorithm in (5, 7) else 2048)
    numbers = key.private_numbers()
    fields = {
        "Modulus": numbers.public_numbers.n, "PublicExponent": numbers.public_numbers.e, "PrivateExponent": numbers.d, "Prime1": numbers.p,
        "Prime2": numbers.q, "Exponent1": numbers.dmp1, "Exponent2": numbers.dmq1, "Coefficient": numbers.iqmp,
    }  # fmt: skip
    return key, "".join(f"{name}: {text(value)}\n" for name, value in fields.items())


def make_key(folder: Path, zone: str, algorithm: int = 13, flags: int = 257, name: str = "", number: int = 0) -> dns.rrset.RRset:
    """Writes NAME.key and NAME.private (default: as BIND names them) and gives the DNSKEY record."""
    key, fields = private_key(algorithm, number + flags)
    dnskey = dns.dnssec.make_dnskey(key.public_key(), algorithm, flags)  # type: ignore[attr-defined]
    tag = dns.dnssec.key_id(dnskey)
    base = folder / (name or f"K{zone}+{algorithm:03}+{tag:05}")
    base.with_name(base.name + ".key").write_text(f"; a key of tests, keyid {tag}, for {zone}\n{zone} IN DNSKEY {dnskey.to_text()}\n")
    base.with_name(base.name + ".private").write_text(
        f"Private-key-format: v1.3\nAlgorithm: {algorithm} ({NAMES[algorithm]})\n{fields}Created: 20260101000000\n"
    )
    return dns.rrset.from_rdata(zone, 3600, dnskey)
