"""The rules of filter_aaaa and filter_a as the Corefile has them."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.corefile.errors import quoted
from fastdns.corefile.lexer import Token
from fastdns.plugins.acl.rules import EVERYWHERE, Network, networks_of, value_of
from fastdns.setup import Controller

__all__ = ["Rule", "parse"]

NO_LOOKUP = "no_lookup"


class Rule(NamedTuple):
    """One occurrence of the directive: for names of these zones and clients for which all conditions hold."""

    zones: tuple[str, ...]
    excluded: tuple[str, ...]
    #: Of the client's address: 4 or 6; 0: both.
    family: int
    networks: tuple[Network, ...]
    #: Of the client's pod; empty: all clients.
    namespaces: tuple[str, ...]
    #: Also where the name has no address of the other family.
    always: bool
    #: Then without looking for the other family.
    no_lookup: bool
    break_dnssec: bool
    #: Where it stands.
    place: Token

    @property
    def by_client(self) -> bool:
        """Whether it looks at the client at all."""
        return bool(self.family or self.namespaces) or self.networks != EVERYWHERE


def parse(controller: Controller) -> list[Rule]:
    """The rules in their order. Raises CorefileError."""
    rules = []
    while controller.next():
        place = controller.place()
        zones = controller.zones(controller.remaining_args())
        excluded: list[str] = []
        namespaces: list[str] = []
        networks: list[Network] = []
        family, always, no_lookup, break_dnssec = 0, False, False, False
        while controller.next_block():
            option = controller.val()
            if option == "family":
                family = _family(controller, controller.one_arg())
            elif option == "net":
                networks = networks_of(controller, controller.args(1), networks)
            elif option == "namespace":
                namespaces += [value_of(controller, name) for name in controller.args(1)]
            elif option == "except":
                excluded += controller.zones(controller.args(1))
            elif option == "always":
                words = controller.args(0, 1)
                if words and words != [NO_LOOKUP]:
                    raise controller.err(f"unexpected token {quoted(words[0])}; expect '{NO_LOOKUP}'")
                always, no_lookup = True, bool(words)
            elif option == "break_dnssec":
                controller.no_args()
                break_dnssec = True
            else:
                raise controller.err(f"unknown property '{option}'")
        everywhere = tuple(networks) or EVERYWHERE
        rules.append(Rule(tuple(zones), tuple(excluded), family, everywhere, tuple(namespaces), always, no_lookup, break_dnssec, place))
    return rules


def _family(controller: Controller, text: str) -> int:
    if text not in ("4", "6"):
        raise controller.err(f"unexpected token {quoted(text)}; expect '4' or '6'")
    return int(text)
