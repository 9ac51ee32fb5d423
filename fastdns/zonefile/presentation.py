"""Conversion of rdata from and to presentation form, for Python code and Python plugins."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop
from typing import Final

from fastdns._wire import name_text
from fastdns.protocol.parameters import TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_DNAME, TYPE_NS, TYPE_PTR, type_text
from fastdns.zonefile.rdata import parse

__all__ = ["CLASS_IN", "rdata_text", "rdata_wire"]

CLASS_IN: Final = 1


def rdata_wire(qtype: int, text: str) -> bytes:
    """Rdata in wire form with uncompressed names; relative names are taken as absolute. Raises ValueError when the text is malformed."""
    try:
        return parse(qtype, text)
    except ValueError as error:
        raise ValueError(f"bad {type_text(qtype)} rdata {text!r}: {error}") from None


def rdata_text(rtype: int, rdata: bytes) -> str:
    """Presentation form of rdata; that of RFC 3597 when the rdata is malformed."""
    if rtype in (TYPE_A, TYPE_AAAA):
        return inet_ntop(AF_INET6 if len(rdata) == 16 else AF_INET, rdata)
    if rtype in (TYPE_NS, TYPE_CNAME, TYPE_PTR, TYPE_DNAME):
        return name_text(rdata).lower()
    import dns.exception
    import dns.rdata
    import dns.rdataclass
    import dns.rdatatype

    try:
        return dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RdataType.make(rtype), rdata, 0, len(rdata)).to_text()
    except (dns.exception.DNSException, ValueError):
        return f"\\# {len(rdata)} {rdata.hex()}"
