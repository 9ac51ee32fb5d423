"""Conversion of rdata from presentation form, for Python code and Python plugins."""

from __future__ import annotations

from typing import Final

from fastdns.protocol.parameters import type_text
from fastdns.zonefile.rdata import parse

__all__ = ["CLASS_IN", "rdata_wire"]

CLASS_IN: Final = 1


def rdata_wire(qtype: int, text: str) -> bytes:
    """Rdata in wire form with uncompressed names; relative names are taken as absolute. Raises ValueError when the text is malformed."""
    try:
        return parse(qtype, text)
    except ValueError as error:
        raise ValueError(f"bad {type_text(qtype)} rdata {text!r}: {error}") from None
