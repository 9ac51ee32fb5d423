"""acl: allows, blocks, filters or drops queries by where they come from and what they ask for."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.corefile import Controller
from fastdns.corefile.address import network_of
from fastdns.corefile.errors import quoted
from fastdns.parameters import TYPES

__all__ = ["ACTIONS", "EVERYWHERE", "Policy", "Rule", "parse", "setup"]

#: In the order of the numbers that the native handler knows them by.
ACTIONS = ("allow", "block", "filter", "drop")

#: Octets and length of a prefix.
Network = tuple[bytes, int]

#: Both families as a whole.
EVERYWHERE: tuple[Network, ...] = ((bytes(4), 0), (bytes(16), 0))

SECTIONS = ("type", "net")
NUMBERS = {name: number for number, name in TYPES.items()}


class Policy(NamedTuple):
    """One line: what to do with queries of these types from these networks."""

    action: str
    #: Sorted; empty: all.
    types: tuple[int, ...] = ()
    networks: tuple[Network, ...] = EVERYWHERE


class Rule(NamedTuple):
    """One occurrence of the directive."""

    zones: tuple[str, ...]
    policies: tuple[Policy, ...] = ()


def setup(controller: Controller) -> None:
    """Add one handler for all occurrences in the block."""
    rules = parse(controller)
    from fastdns.plugins.acl._acl import AclHandler

    controller.config.add_handler(AclHandler("acl", rules))


def parse(controller: Controller) -> list[Rule]:
    """The rules in their order. Raises CorefileError."""
    rules = []
    while controller.next():
        zones = controller.zones(controller.remaining_args())
        policies = []
        while controller.next_block():
            policies.append(_policy(controller))
        rules.append(Rule(tuple(zones), tuple(policies)))
    return rules


def _policy(controller: Controller) -> Policy:
    action = controller.val().lower()
    if action not in ACTIONS:
        raise controller.err(f"unexpected token {quoted(controller.val())}; expect 'allow', 'block', 'filter' or 'drop'")
    words = controller.remaining_args()
    types: set[int] | None = None
    networks: list[Network] | None = None
    while words:
        section = words.pop(0)
        if section.lower() not in SECTIONS:
            raise controller.err(f"unexpected token {quoted(section)}; expect 'type | net'")
        values = []
        while words and words[0].lower() not in SECTIONS:
            values.append(words.pop(0))
        if not values:
            raise controller.err(f"no token specified in {quoted(section.lower())} section")
        if section.lower() == "type":
            types = _types(controller, values, types or set())
        else:
            networks = _networks(controller, values, networks or [])
    # 0 stands for every type.
    return Policy(action, () if types is None or 0 in types else tuple(sorted(types)), EVERYWHERE if networks is None else tuple(networks))


def _types(controller: Controller, names: list[str], types: set[int]) -> set[int]:
    for name in names:
        if name == "*":
            types.add(0)
            break
        if name not in NUMBERS:
            raise controller.err(f"unexpected token {quoted(name)}; expect legal QTYPE")
        types.add(NUMBERS[name])
    return types


def _networks(controller: Controller, texts: list[str], networks: list[Network]) -> list[Network]:
    for text in texts:
        if text == "*":
            return list(EVERYWHERE)
        whole = text if "/" in text else f"{text}/{128 if ':' in text else 32}"
        network = network_of(whole)
        if network is None:
            raise controller.err(f"illegal CIDR notation {quoted(whole)}")
        networks.append(network)
    return networks
