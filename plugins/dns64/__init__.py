"""dns64: makes AAAA records from A records, for clients that have only IPv6."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.plugins.dns64.prefix import WELL_KNOWN, prefix_of
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


class Settings(NamedTuple):
    """What the directive says."""

    #: Octets of the prefix, without those behind its length: 4 to 12 of them.
    prefix: bytes = WELL_KNOWN
    translate_all: bool = False
    allow_ipv4: bool = False


def setup(controller: Controller) -> None:
    """``dns64 [PREFIX]`` or ``dns64 { prefix PREFIX; translate_all; allow_ipv4 }``."""
    settings = parse(controller)
    from fastdns.plugins.dns64._dns64 import Dns64Handler

    controller.config.add_handler(Dns64Handler("dns64", *settings))


def parse(controller: Controller) -> Settings:
    """All occurrences together. Raises CorefileError."""
    settings = Settings()
    while controller.next():
        arguments = controller.args(0, 1)
        if arguments:
            settings = settings._replace(prefix=_prefix(controller, arguments[0]))
            continue  # and no block, as in CoreDNS
        while controller.next_block():
            option = controller.val()
            if option == "prefix":
                settings = settings._replace(prefix=_prefix(controller, controller.arg()))
            elif option == "translate_all":
                settings = settings._replace(translate_all=True)
            elif option == "allow_ipv4":
                settings = settings._replace(allow_ipv4=True)
            else:
                raise controller.err(f"unknown property '{option}'")
    return settings


def _prefix(controller: Controller, text: str) -> bytes:
    """The prefix's octets; its length is one of RFC 6052 2.2, or another whole number of octets between them."""
    prefix = prefix_of(controller, text)
    if prefix.bits % 8 or not 32 <= prefix.bits <= 96:
        raise controller.err(f"invalid prefix length {prefix.text}")
    return prefix.octets
