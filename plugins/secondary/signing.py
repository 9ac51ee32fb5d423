"""Signatures of what is asked of primaries, and of what they answer (RFC 8945)."""

from __future__ import annotations

import base64
import binascii
import time
from functools import cached_property
from typing import Any

from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.plugins.secondary._receive import signature_place

__all__ = ["Key", "Signing"]

#: Messages of a transfer without a signature in a row (RFC 8945 5.3.1).
UNSIGNED_MOST = 99

ALGORITHMS = ("hmac-md5", "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512")


class Key:
    """A key that is shared with a primary. Raises CorefileError for what is none. dnspython is imported where a primary is asked, after the start."""

    def __init__(self, name: str, secret: str, algorithm: str = "hmac-sha256") -> None:
        algorithm = algorithm.lower().removesuffix(".")
        if algorithm not in ALGORITHMS:
            raise CorefileError(f"unknown algorithm '{algorithm}'")
        try:
            #: Lower-case wire form.
            self.name = name_wire(name.lower())
            self.secret = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorefileError(f"bad key '{name}': {error}") from error
        self.algorithm = algorithm
        #: Same texts, same key: identifies the zone.
        self.identity = (name.lower(), secret, algorithm)

    @cached_property
    def key(self) -> Any:
        """What dnspython signs with."""
        import dns.name
        import dns.tsig

        return dns.tsig.Key(dns.name.from_wire(self.name, 0)[0], self.secret, self.algorithm)


class Signing:
    """One question and its answers; without a key nothing is signed, and nothing checked."""

    def __init__(self, key: Key | None) -> None:
        self.key = key
        self.mac = b""
        self.context: Any = None
        self.unsigned = 0
        self.first = True

    def sign(self, request: bytes) -> bytes:
        if self.key is None:
            return request
        import dns.rdataclass
        import dns.rdatatype
        import dns.tsig
        from dns.rdtypes.ANY.TSIG import TSIG

        ident = int.from_bytes(request[:2], "big")
        make: Any = TSIG
        sign: Any = dns.tsig.sign
        rdata = make(dns.rdataclass.ANY, dns.rdatatype.TSIG, self.key.key.algorithm, int(time.time()), 300, b"", ident, 0, b"")
        signed, _ = sign(request, self.key.key, rdata, int(time.time()))
        self.mac = signed.mac
        record = self.key.name + b"\x00\xfa\x00\xff\x00\x00\x00\x00"
        wire: bytes = signed.to_wire()
        additional = int.from_bytes(request[10:12], "big") + 1
        return request[:10] + additional.to_bytes(2, "big") + request[12:] + record + len(wire).to_bytes(2, "big") + wire

    def check(self, message: bytes, *, last: bool) -> None:
        """Raises ValueError unless the message, or the one after it, is signed as it has to be."""
        if self.key is None:
            return
        import dns.exception
        import dns.rdata
        import dns.rdataclass
        import dns.rdatatype
        import dns.tsig

        place = signature_place(message)
        try:
            if place is None:
                self.unsigned += 1
                if self.first or last or self.unsigned > UNSIGNED_MOST:
                    raise ValueError("dns: no signature found")
                self.context.update(message)
                return
            begin, owner, rdata_at, length = place
            if owner != self.key.name:
                raise ValueError("dns: bad key")
            rdata = dns.rdata.from_wire(dns.rdataclass.ANY, dns.rdatatype.TSIG, message, rdata_at, length)
            validate: Any = dns.tsig.validate
            self.context = validate(
                message, self.key.key, self.key.key.name, rdata, int(time.time()), self.mac, begin, None if self.first else self.context, True
            )
            self.first = False
            self.unsigned = 0
        except dns.exception.DNSException as error:
            raise ValueError(f"dns: bad signature: {str(error) or type(error).__name__}") from error
