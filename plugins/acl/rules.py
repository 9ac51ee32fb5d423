"""The rules of acl as the Corefile has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastdns.corefile.address import network_of
from fastdns.corefile.errors import quoted
from fastdns.corefile.lexer import Token
from fastdns.protocol.parameters import TYPES
from fastdns.setup import Controller

__all__ = ["ACTIONS", "EVERYWHERE", "LABEL", "NAMESPACE", "NAMES_MAX", "VALUE_MAX", "Policy", "Rule", "names_of", "parse"]

#: In the order of the numbers that the native handler knows them by.
ACTIONS = ("allow", "block", "filter", "drop")

#: Octets and length of a prefix.
Network = tuple[bytes, int]

#: Both families as a whole.
EVERYWHERE: tuple[Network, ...] = ((bytes(4), 0), (bytes(16), 0))

SECTIONS = ("type", "net", "namespace", "label")

#: What a client may be known by, as publishers name it (`NativeHandler.client_label`): its namespace, and each label.
NAMESPACE = "client-namespace"
LABEL = "client-label/"

#: Most of these that the rules of a block may look at, and octets of a value: Kubernetes has no longer ones.
NAMES_MAX = 32
VALUE_MAX = 63

#: One of these values must be that of the client: name and value.
Condition = tuple[tuple[str, str], ...]

NUMBERS = {name: number for number, name in TYPES.items()}


class Policy(NamedTuple):
    """One line: what to do with queries of these types from these networks, and from pods for which all conditions hold."""

    action: str
    #: Sorted; empty: all.
    types: tuple[int, ...] = ()
    networks: tuple[Network, ...] = EVERYWHERE
    conditions: tuple[Condition, ...] = ()
    #: Where it stands, if it has conditions.
    place: Token | None = None


class Rule(NamedTuple):
    """One occurrence of the directive."""

    zones: tuple[str, ...]
    policies: tuple[Policy, ...] = ()


def names_of(rules: Iterable[Rule]) -> list[str]:
    """What the conditions look at, each once."""
    return list(
        dict.fromkeys(name for rule in rules for policy in rule.policies for condition in policy.conditions for name, _ in condition),
    )


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
    namespaces: list[tuple[str, str]] = []
    labels: list[Condition] = []
    while words:
        section = words.pop(0)
        if section.lower() not in SECTIONS:
            raise controller.err(f"unexpected token {quoted(section)}; expect 'type | net', or 'namespace | label'")
        values = []
        while words and words[0].lower() not in SECTIONS:
            values.append(words.pop(0))
        if not values:
            raise controller.err(f"no token specified in {quoted(section.lower())} section")
        if section.lower() == "type":
            types = _types(controller, values, types or set())
        elif section.lower() == "net":
            networks = _networks(controller, values, networks or [])
        elif section.lower() == "namespace":
            namespaces += [(NAMESPACE, _value(controller, name)) for name in values]
        else:
            labels.append(tuple(_label(controller, text) for text in values))
    conditions = ((tuple(namespaces),) if namespaces else ()) + tuple(labels)
    # 0 stands for every type.
    every = types is None or 0 in types
    return Policy(
        action,
        () if types is None or every else tuple(sorted(types)),
        EVERYWHERE if networks is None else tuple(networks),
        conditions,
        controller.place() if conditions else None,
    )


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


def _label(controller: Controller, text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise controller.err(f"unexpected token {quoted(text)}; expect KEY=VALUE")
    return LABEL + key, _value(controller, value)


def _value(controller: Controller, text: str) -> str:
    if len(text.encode("utf-8", "surrogateescape")) > VALUE_MAX:
        raise controller.err(f"{quoted(text)} is longer than {VALUE_MAX} octets")
    return text
