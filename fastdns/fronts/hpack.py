"""Fields of responses, encoded (RFC 7541) without a dynamic table: they are few, most are always the same, and this costs a look-up each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["Encoder"]

#: Places in the static table (appendix A): of whole fields, and of names.
WHOLE = {(b":status", b"200"): 8, (b":status", b"400"): 12, (b":status", b"404"): 13, (b":status", b"500"): 14}
NAMES = {b":status": 8, b"cache-control": 24, b"content-length": 28, b"content-type": 31, b"date": 33}

#: That our table has no room: said once, it satisfies whatever the client says of its own.
NO_TABLE = b"\x20"


class Encoder:
    """Of one connection."""

    def __init__(self) -> None:
        self.header_table_size = 0
        self._began = False

    def encode(self, fields: Iterable[tuple[bytes, bytes]], huffman: bool = True) -> bytes:
        """A block of trusted fields."""
        block = b"".join([_field(name, value) for name, value in fields])
        if self._began:
            return block
        self._began = True
        return NO_TABLE + block


@lru_cache(maxsize=1024)
def _field(name: bytes, value: bytes) -> bytes:
    place = WHOLE.get((name, value))
    if place is not None:
        return bytes([0x80 | place])
    known = NAMES.get(name)
    head = _number(known, 4) if known is not None else b"\0" + _number(len(name), 7) + name
    return head + _number(len(value), 7) + value


def _number(value: int, bits: int) -> bytes:
    """With a prefix of so many bits, the others 0 (5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    octets = bytearray([most])
    value -= most
    while value >= 0x80:
        octets.append(0x80 | value & 0x7F)
        value >>= 7
    octets.append(value)
    return bytes(octets)
