"""Names of DNS's numbers (IANA "Domain Name System Parameters"), as the Go library behind CoreDNS prints them."""

from __future__ import annotations

from typing import Final

from fastdns.protocol.rrtypes import TYPES

__all__ = [
    "CLASSES",
    "RCODES",
    "TYPES",
    "TYPE_A",
    "TYPE_AAAA",
    "TYPE_ANY",
    "TYPE_AXFR",
    "TYPE_CNAME",
    "TYPE_DNAME",
    "TYPE_DNSKEY",
    "TYPE_IXFR",
    "TYPE_NS",
    "TYPE_NSEC",
    "TYPE_NSEC3",
    "TYPE_OPT",
    "TYPE_PTR",
    "TYPE_RRSIG",
    "TYPE_SOA",
    "TYPE_TXT",
    "TYPE_ZONEMD",
    "class_text",
    "rcode_number",
    "rcode_text",
    "type_number",
    "type_text",
]

_NUMBERS = {mnemonic: number for number, mnemonic in TYPES.items()}

TYPE_A: Final = _NUMBERS["A"]
TYPE_NS: Final = _NUMBERS["NS"]
TYPE_CNAME: Final = _NUMBERS["CNAME"]
TYPE_SOA: Final = _NUMBERS["SOA"]
TYPE_PTR: Final = _NUMBERS["PTR"]
TYPE_TXT: Final = _NUMBERS["TXT"]
TYPE_AAAA: Final = _NUMBERS["AAAA"]
TYPE_DNAME: Final = _NUMBERS["DNAME"]
TYPE_OPT: Final = _NUMBERS["OPT"]
TYPE_RRSIG: Final = _NUMBERS["RRSIG"]
TYPE_NSEC: Final = _NUMBERS["NSEC"]
TYPE_NSEC3: Final = _NUMBERS["NSEC3"]
TYPE_DNSKEY: Final = _NUMBERS["DNSKEY"]
TYPE_ZONEMD: Final = _NUMBERS["ZONEMD"]
TYPE_IXFR: Final = _NUMBERS["IXFR"]
TYPE_AXFR: Final = _NUMBERS["AXFR"]
TYPE_ANY: Final = _NUMBERS["ANY"]

CLASSES = {1: "IN", 2: "CS", 3: "CH", 4: "HS", 254: "NONE", 255: "ANY"}

#: 16 is BADVERS in a reply with EDNS, too: the library prints the name of RFC 2845.
RCODES = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET", 8: "NXRRSET",
    9: "NOTAUTH", 10: "NOTZONE", 11: "DSOTYPENI", 16: "BADSIG", 17: "BADKEY", 18: "BADTIME", 19: "BADMODE", 20: "BADNAME", 21: "BADALG",
    22: "BADTRUNC", 23: "BADCOOKIE",
}  # fmt: skip


def type_text(number: int) -> str:
    """The mnemonic of a type, or ``TYPE123`` (RFC 3597 5)."""
    return TYPES.get(number) or f"TYPE{number}"


def class_text(number: int) -> str:
    """The mnemonic of a class, or ``CLASS123`` (RFC 3597 5)."""
    return CLASSES.get(number) or f"CLASS{number}"


def rcode_text(number: int) -> str:
    """The name of a response code, or ``RCODE123``."""
    return RCODES.get(number) or f"RCODE{number}"


def type_number(name: str) -> int:
    """The number of a type's mnemonic in any case, or of ``TYPE123``. Raises ValueError when it is unknown."""
    upper = name.upper()
    if upper in _NUMBERS:
        return _NUMBERS[upper]
    if upper.startswith("TYPE") and upper[4:].isdigit() and int(upper[4:]) < 65536:
        return int(upper[4:])
    raise ValueError(f"no record type: {name}")


def rcode_number(rcode: int | str) -> int:
    """The number of a response code's name in any case (BADVERS is 16), or of a decimal number. Raises ValueError when it is unknown."""
    if isinstance(rcode, int):
        return rcode
    upper = rcode.upper()
    if upper == "BADVERS":
        return 16
    for number, text in RCODES.items():
        if text == upper:
            return number
    raise ValueError(f"no response code: {rcode}")
