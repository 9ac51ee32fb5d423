"""Names of DNS's numbers (IANA "Domain Name System Parameters"), as the Go library behind CoreDNS prints them."""

from __future__ import annotations

__all__ = ["CLASSES", "RCODES", "TYPES", "class_text", "rcode_number", "rcode_text", "type_number", "type_text"]

#: Record types; 16 numbers a line would not be easier to check.
TYPES = {
    0: "None", 1: "A", 2: "NS", 3: "MD", 4: "MF", 5: "CNAME", 6: "SOA", 7: "MB", 8: "MG", 9: "MR", 10: "NULL", 12: "PTR", 13: "HINFO",
    14: "MINFO", 15: "MX", 16: "TXT", 17: "RP", 18: "AFSDB", 19: "X25", 20: "ISDN", 21: "RT", 23: "NSAP-PTR", 24: "SIG", 25: "KEY",
    26: "PX", 27: "GPOS", 28: "AAAA", 29: "LOC", 30: "NXT", 31: "EID", 32: "NIMLOC", 33: "SRV", 34: "ATMA", 35: "NAPTR", 36: "KX",
    37: "CERT", 39: "DNAME", 41: "OPT", 42: "APL", 43: "DS", 44: "SSHFP", 45: "IPSECKEY", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY",
    49: "DHCID", 50: "NSEC3", 51: "NSEC3PARAM", 52: "TLSA", 53: "SMIMEA", 55: "HIP", 56: "NINFO", 57: "RKEY", 58: "TALINK", 59: "CDS",
    60: "CDNSKEY", 61: "OPENPGPKEY", 62: "CSYNC", 63: "ZONEMD", 64: "SVCB", 65: "HTTPS", 99: "SPF", 100: "UINFO", 101: "UID", 102: "GID",
    103: "UNSPEC", 104: "NID", 105: "L32", 106: "L64", 107: "LP", 108: "EUI48", 109: "EUI64", 128: "NXNAME", 249: "TKEY", 250: "TSIG",
    251: "IXFR", 252: "AXFR", 253: "MAILB", 254: "MAILA", 255: "ANY", 256: "URI", 257: "CAA", 258: "AVC", 260: "AMTRELAY",
    261: "RESINFO", 32768: "TA", 32769: "DLV", 65535: "Reserved",
}  # fmt: skip

CLASSES = {1: "IN", 2: "CS", 3: "CH", 4: "HS", 254: "NONE", 255: "ANY"}

#: 16 is BADVERS in a reply with EDNS, too: the library prints the name of RFC 2845.
RCODES = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET", 8: "NXRRSET",
    9: "NOTAUTH", 10: "NOTZONE", 11: "DSOTYPENI", 16: "BADSIG", 17: "BADKEY", 18: "BADTIME", 19: "BADMODE", 20: "BADNAME", 21: "BADALG",
    22: "BADTRUNC", 23: "BADCOOKIE",
}  # fmt: skip


def type_text(number: int) -> str:
    """``TYPE123`` where it has no name (RFC 3597 5)."""
    return TYPES.get(number) or f"TYPE{number}"


def class_text(number: int) -> str:
    """``CLASS123`` where it has no name."""
    return CLASSES.get(number) or f"CLASS{number}"


def rcode_text(number: int) -> str:
    """``RCODE123`` where it has no name."""
    return RCODES.get(number) or f"RCODE{number}"


def type_number(name: str) -> int:
    """Number of a type's name in any case, ``TYPE123`` included. Raises ValueError."""
    upper = name.upper()
    for number, text in TYPES.items():
        if text == upper:
            return number
    if upper.startswith("TYPE") and upper[4:].isdigit() and int(upper[4:]) < 65536:
        return int(upper[4:])
    raise ValueError(f"no record type: {name}")


def rcode_number(rcode: int | str) -> int:
    """Number of a response code's name in any case (BADVERS is 16); a number is kept. Raises ValueError."""
    if isinstance(rcode, int):
        return rcode
    upper = rcode.upper()
    if upper == "BADVERS":
        return 16
    for number, text in RCODES.items():
        if text == upper:
            return number
    raise ValueError(f"no response code: {rcode}")
