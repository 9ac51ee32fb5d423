"""bind: the addresses that a server block listens on."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.address import is_address
from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``bind ADDRESS|INTERFACE... { except ADDRESS|INTERFACE... }``, repeatable; each ``except`` counts for its own line."""
    hosts: list[str] = []
    while controller.next():
        wanted = controller.remaining_args()
        if not wanted:
            raise CorefileError("at least one address or interface name is expected")
        unwanted: list[str] = []
        while controller.next_block():
            if controller.val() != "except":
                raise CorefileError(f"invalid option {quoted(controller.val())}")
            unwanted = controller.remaining_args()
            if not unwanted:
                raise CorefileError("at least one address or interface must be given to except subdirective")
        excluded = set(_resolve(unwanted))
        hosts += [host for host in _resolve(wanted) if host not in excluded]
    controller.config.listen_hosts = hosts


def _resolve(words: list[str]) -> list[str]:
    """Addresses as they are, interfaces as all their addresses."""
    found: list[str] = []
    interfaces: dict[str, list[str]] | None = None
    for word in words:
        if is_address(word):
            found.append(word)
            continue
        if interfaces is None:
            from fastdns.system.interfaces import addresses

            interfaces = addresses()
        if word not in interfaces:
            raise CorefileError(f"not a valid IP address or interface name: {quoted(word)}")
        found += interfaces[word]
    return found
