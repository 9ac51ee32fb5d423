"""Keys in BIND's format: ``K*.key`` with the DNSKEY record, ``K*.private`` with its private half; and signatures made with them."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING

from fastdns._wire import name_text
from fastdns.corefile.errors import CorefileError, system_error
from fastdns.plugins.dnssec._private_key import ecdsa_key, ed25519_key, rsa_key
from fastdns.protocol.parameters import TYPE_DNSKEY
from fastdns.zonefile import parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdns.plugins.dnssec._private_key import PrivateKey
    from fastdns.setup import Controller

    Signer = Callable[[bytes], bytes]

__all__ = ["Key", "key_of_texts", "key_path", "read_key", "rrsig"]

#: Flags of a DNSKEY record (RFC 4034 2.1.1).
ZONE = 0x0100
SECURE_ENTRY_POINT = 0x0001

#: Octets of a coordinate, by algorithm.
COORDINATES = {13: 32, 14: 48}
#: What RSA hashes with, by algorithm (RFC 3110, 5155, 5702).
RSA_HASHES = {5: "SHA1", 7: "SHA1", 8: "SHA256", 10: "SHA512"}
#: What a file has of an RSA key that is not computed from the rest.
RSA_NUMBERS = ("modulus", "publicexponent", "privateexponent", "prime1", "prime2")
ED25519 = 15


class Key:
    """A key that signs; ``owner`` and ``rdata`` are those of its DNSKEY record, in wire form."""

    def __init__(self, owner: bytes, ttl: int, rdata: bytes, sign: Signer) -> None:
        self.owner = owner.lower()
        self.ttl = ttl
        self.rdata = rdata
        self.flags = int.from_bytes(rdata[:2], "big")
        self.algorithm = rdata[3]
        self.tag = key_tag(rdata)
        self.sign = sign

    @property
    def is_ksk(self) -> bool:
        """A zone key that is a secure entry point."""
        return self.flags & (ZONE | SECURE_ENTRY_POINT) == ZONE | SECURE_ENTRY_POINT

    @property
    def is_zsk(self) -> bool:
        """A zone key that is none."""
        return self.flags & (ZONE | SECURE_ENTRY_POINT) == ZONE

    @property
    def name(self) -> str:
        """The owner as text."""
        return name_text(self.owner)


def key_tag(rdata: bytes) -> int:
    """RFC 4034, appendix B."""
    total = sum(octet if at & 1 else octet << 8 for at, octet in enumerate(rdata))
    return (total + (total >> 16 & 0xFFFF)) & 0xFFFF


def rrsig(key: Key, signer: bytes, body: bytes, inception: int, expiration: int, original_ttl: int) -> bytes:
    """Rdata of the RRSIG record for an RRset in canonical form (RFC 4034 3.1.8.1; TTLs in it are the original one). Times are Unix seconds."""
    labels = at = 0
    while body[at]:
        labels += 1
        at += body[at] + 1
    kind = struct.unpack("!H", body[at + 1 : at + 3])[0]
    if body[:2] == b"\1*":  # RFC 4034 3.1.3
        labels -= 1
    rdata = struct.pack("!HBBIIIH", kind, key.algorithm, labels, original_ttl, expiration & 0xFFFFFFFF, inception & 0xFFFFFFFF, key.tag) + signer
    return rdata + key.sign(rdata + body)


def base_name(path: str) -> str:
    """Path of a key without ``.key`` or ``.private``."""
    return path.removesuffix(".key") if path.endswith(".key") else path.removesuffix(".private")


def key_path(controller: Controller, name: str) -> str:
    """Path of a key's files without their endings, both of which are read."""
    base = controller.path(base_name(name), reads=False)
    controller.reads(base + ".key")
    controller.reads(base + ".private")
    return base


def read_key(base: str) -> Key:
    """The key of ``BASE.key`` and ``BASE.private``. Raises CorefileError."""
    return key_of_texts(_text(base + ".key"), _text(base + ".private"), base + ".key", base + ".private")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise CorefileError(system_error(error, "open", path)) from error


def key_of_texts(public: str, private: str, public_name: str = "", private_name: str = "") -> Key:
    """A key from the texts of its two files, whose names are for messages. Raises CorefileError."""
    try:
        records = parser.parse(public, ".", public_name, ttl=3600)
    except ValueError as error:
        raise CorefileError(str(error)) from error
    if not records or records[0][1] != TYPE_DNSKEY:
        raise CorefileError("no public key found")
    owner, _, _, ttl, rdata = records[0]
    algorithm = rdata[3]
    key = _private(_fields(private, private_name), algorithm, private_name)
    if key.public != rdata[4:]:
        raise CorefileError(f"private key in {private_name} is not that of {public_name}")
    return Key(owner, ttl, rdata, key.sign)


def _fields(text: str, path: str) -> dict[str, str]:
    """``Name: value`` lines, names in lower case."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.lstrip().startswith(";"):
            found[name.strip().lower()] = value.strip()
    if not found.get("private-key-format", "").startswith("v1."):
        raise CorefileError("dns: bad private key")
    return found


def _octets(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields.get(name, ""), validate=True)
    except (binascii.Error, ValueError):
        raise CorefileError("dns: bad private key") from None


def _private(fields: dict[str, str], algorithm: int, path: str) -> PrivateKey:
    named = fields.get("algorithm", "").split(" ")[0]
    if named != str(algorithm):
        raise CorefileError("dns: bad private key" if not named.isdigit() else f"private key in {path} has algorithm {named}, not {algorithm}")
    try:
        if algorithm in COORDINATES:
            return ecdsa_key(_octets(fields, "privatekey"), COORDINATES[algorithm])
        if algorithm == ED25519:
            return ed25519_key(_octets(fields, "privatekey"))
        if algorithm in RSA_HASHES:
            n, e, d, p, q = (int.from_bytes(_octets(fields, name), "big") for name in RSA_NUMBERS)
            return rsa_key((n, e, d, p, q), RSA_HASHES[algorithm])
    except ValueError:
        raise CorefileError("dns: bad private key") from None
    raise CorefileError("no private key found")
