"""siit: makes A records from AAAA records, for clients that have only IPv4."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from fastdns.corefile.address import packed
from fastdns.corefile.errors import quoted
from fastdns.plugins.dns64.prefix import WELL_KNOWN, prefix_of
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Bits that a prefix may have (RFC 6052 2.2).
LENGTHS = (32, 40, 48, 56, 64, 96)
#: The octet of an address that is always zero (likewise).
RESERVED = 8


class Settings(NamedTuple):
    """What the directive says."""

    #: Octets of the prefix, without those behind its length: 4 to 12 of them.
    prefix: bytes
    #: IPv6 addresses to the IPv4 ones that they become, in network order.
    mapped: dict[bytes, bytes]


def setup(controller: Controller) -> None:
    """``siit { ipv6_prefix PREFIX; eam IPV4 IPV6 }``."""
    settings = parse(controller)
    from fastdns.plugins.siit._siit import SiitHandler

    controller.config.add_handler(SiitHandler("siit", *settings))


def parse(controller: Controller) -> Settings:
    """All occurrences together; of several pairs with one IPv6 address the last one counts. Raises CorefileError."""
    settings = Settings(WELL_KNOWN, {})
    while controller.next():
        if controller.remaining_args():
            raise controller.arg_err()
        while controller.next_block():
            option = controller.val()
            if option == "ipv6_prefix":
                settings = settings._replace(prefix=_prefix(controller, controller.arg()))
            elif option == "eam":
                four, six = _pair(controller)
                settings.mapped[six] = four
            else:
                raise controller.err(f"unknown property '{option}'")
    return settings


def _prefix(controller: Controller, text: str) -> bytes:
    prefix = prefix_of(controller, text)
    if prefix.bits not in LENGTHS:
        raise controller.err(f"invalid prefix length {prefix.text}: must be one of /32, /40, /48, /56, /64, /96")
    if prefix.octets[RESERVED : RESERVED + 1] > b"\0":
        raise controller.err(f"invalid prefix {prefix.text}: reserved octet (byte 8) must be zero")
    return prefix.octets


def _pair(controller: Controller) -> tuple[bytes, bytes]:
    """An explicit address mapping (RFC 7757): an IPv4 address and an IPv6 one."""
    arguments = controller.remaining_args()
    if len(arguments) != 2:
        raise controller.arg_err()
    return _address(controller, arguments[0], 4), _address(controller, arguments[1], 6)


def _address(controller: Controller, text: str, version: int) -> bytes:
    octets = packed(text)
    if octets is None:
        raise controller.err('invalid IP address: "<nil>"')  # CoreDNS's text, whatever stands there
    if len(octets) != (4 if version == 4 else 16):
        raise controller.err(f"invalid IPv{version} address: {quoted(str(ip_address(octets)))}")
    return octets
