"""Prefixes of IPv6 addresses that have an IPv4 address in them (RFC 6052 2.2)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import NamedTuple

from fastdns.corefile import CorefileError
from fastdns.corefile.address import network_of
from fastdns.corefile.errors import quoted
from fastdns.setup import Controller

__all__ = ["WELL_KNOWN", "Prefix", "prefix_of"]

#: The octets of 64:ff9b::/96 (RFC 6052 2.1).
WELL_KNOWN = bytes.fromhex("0064ff9b0000000000000000")


class Prefix(NamedTuple):
    """A prefix of a whole number of octets or not."""

    #: Those that it fills whole.
    octets: bytes
    bits: int
    #: The network in double quotes, for errors.
    text: str


def prefix_of(controller: Controller, text: str) -> Prefix:
    """An IPv6 prefix of any length. Raises CorefileError."""
    network = network_of(text)
    if network is None:
        raise CorefileError(f"invalid CIDR address: {text}")
    octets, bits = network
    whole = quoted(str(ip_network((octets, bits), strict=False)))
    if len(octets) != 16:
        raise controller.err(f"invalid netmask 32 IPv6 address: {whole}")
    return Prefix(octets[: bits // 8], bits, whole)
