"""Rdata from its presentation form: what the control side and Python plugins write."""

from __future__ import annotations

import socket
from typing import Final

from fastdns._wire import name_wire
from fastdns.parameters import type_text

__all__ = ["CLASS_IN", "rdata_wire"]

CLASS_IN: Final = 1

#: Types whose rdata is one name.
_ONE_NAME = frozenset((2, 5, 12, 39))


def rdata_wire(qtype: int, text: str) -> bytes:
    """Rdata in wire form, names uncompressed and absolute, from its presentation form. Raises ValueError."""
    if qtype == 1:
        return _address(socket.AF_INET, text)
    if qtype == 28:
        return _address(socket.AF_INET6, text)
    if qtype in _ONE_NAME:
        return name_wire(text.strip())
    import dns.exception
    import dns.name
    import dns.rdata
    import dns.rdataclass
    import dns.rdatatype

    try:
        return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.RdataType.make(qtype), text, origin=dns.name.root, relativize=False).to_wire() or b""
    except dns.exception.DNSException as error:
        raise ValueError(f"bad {type_text(qtype)} rdata {text!r}: {error}") from error


def _address(family: int, text: str) -> bytes:
    try:
        return socket.inet_pton(family, text.strip())
    except OSError:
        raise ValueError(f"not an address: {text}") from None
