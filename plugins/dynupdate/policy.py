"""Which types an UPDATE may name, and what a key may change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fastdns.protocol.parameters import TYPE_ANY, TYPES, type_number

__all__ = ["KNOWN", "META", "UNSUPPORTED", "Permission", "Permissions", "policy_type"]

#: Types of which CoreDNS has no record: to name one is FORMERR.
_NONE = {"None", "ATMA", "UNSPEC", "IXFR", "AXFR", "MAILA", "MAILB", "Reserved"}
KNOWN: Final = frozenset(number for number, mnemonic in TYPES.items() if mnemonic not in _NONE)
#: Types of questions and of the message itself.
META: Final = frozenset(map(type_number, ["ANY", "AXFR", "IXFR", "MAILA", "MAILB", "OPT", "TKEY", "TSIG"]))
#: Records of DNSSEC and digests of a zone: they would have to be made anew after each change, and nothing here does that. To name one is NOTIMP.
UNSUPPORTED: Final = frozenset(
    map(type_number, ["SIG", "KEY", "NXT", "DS", "RRSIG", "NSEC", "DNSKEY", "NSEC3", "NSEC3PARAM", "TALINK", "CDS", "CDNSKEY", "TA", "DLV", "ZONEMD"]),
)


class Permission(NamedTuple):
    """One ``allow`` line."""

    #: In lower-case wire form, as names below.
    key: bytes
    #: None: any name.
    name: bytes | None
    #: None: any type.
    types: frozenset[int] | None


class Permissions:
    """What the keys of a directive may change."""

    def __init__(self, lines: Iterable[Permission]) -> None:
        self._by_key: dict[bytes, list[Permission]] = {}
        for line in lines:
            self._by_key.setdefault(line.key, []).append(line)

    @property
    def keys(self) -> list[bytes]:
        """In lower-case wire form."""
        return list(self._by_key)

    def knows(self, key: bytes) -> bool:
        """Whether a line names this key."""
        return key in self._by_key

    def allow(self, key: bytes, name: bytes, kind: int) -> bool:
        """Whether a key may change records of this name and type; `TYPE_ANY` stands for all RRsets of the name."""
        return any((one.name is None or one.name == name) and (one.types is None or kind in one.types) for one in self._by_key.get(key, ()))


def policy_type(text: str) -> int | None:
    """The type of an ``allow`` line; None: no record of that type can be changed."""
    try:
        number = type_number(text)
    except ValueError:
        return None
    if number == TYPE_ANY:
        return number
    return number if number in KNOWN and number not in UNSUPPORTED and number not in META else None
