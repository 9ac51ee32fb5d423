"""The rules of acl as the Corefile has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastdns.corefile.address import network_of
from fastdns.corefile.errors import quoted
from fastdns.corefile.lexer import Token
from fastdns.protocol.parameters import TYPES
from fastdns.setup import Controller

__all__ = [
    "ACTIONS",
    "ANY_TARGET",
    "EVERYWHERE",
    "KIND",
    "LABEL",
    "NAMESPACE",
    "NAMES_MAX",
    "OWN",
    "TABLE_MAX",
    "VALUE_MAX",
    "Policy",
    "Rule",
    "Rules",
    "Unsynced",
    "names_of",
    "networks_of",
    "parse",
    "value_of",
]

#: In the order of the numbers that the native handler knows them by.
ACTIONS = ("allow", "block", "filter", "drop", "nxdomain")

#: Octets and length of a prefix.
Network = tuple[bytes, int]

#: Both families as a whole.
EVERYWHERE: tuple[Network, ...] = ((bytes(4), 0), (bytes(16), 0))

#: Before an action: queries pass, and are counted and logged.
AUDIT = "audit"

SECTIONS = ("type", "net", "client", "namespace", "label", "target")

#: What a client may be known by, as publishers name it (`NativeHandler.client_label`): what it is, its namespace, and each label.
KIND = "client-kind"
NAMESPACE = "client-namespace"
LABEL = "client-label/"

KINDS = ("pod", "node", "unknown")

#: Targets that are no names: the client's own namespace, and any.
OWN = "own"
ANY_TARGET = "*"

#: Policies of a table, of which the native handler makes as many as it needs.
TABLE_MAX = 4096

#: Most of these that the rules of a block may look at, and octets of a value: Kubernetes has no longer ones.
NAMES_MAX = 32
VALUE_MAX = 63

#: One of these values must be that of the client: name and value.
Condition = tuple[tuple[str, str], ...]

#: Property of a rule, and what it defaults to.
UNSYNCED = "unsynced"
UNSYNCED_AFTER = 30.0

NUMBERS = {name: number for number, name in TYPES.items()}


class Policy(NamedTuple):
    """One line: what to do with queries of these types from these networks, from pods for which all conditions hold, for these namespaces."""

    action: str
    #: Sorted; empty: all.
    types: tuple[int, ...] = ()
    networks: tuple[Network, ...] = EVERYWHERE
    conditions: tuple[Condition, ...] = ()
    #: Namespaces that the question is for, `OWN` and `ANY_TARGET` among them; empty: all names, also those of no namespace.
    targets: tuple[str, ...] = ()
    audit: bool = False
    #: Where it stands.
    place: Token | None = None

    @property
    def by_client(self) -> bool:
        """Whether it looks at the client at all."""
        return bool(self.conditions) or OWN in self.targets or self.networks != EVERYWHERE

    @property
    def names(self) -> Iterable[str]:
        """What it looks at of the client."""
        yield from (name for condition in self.conditions for name, _ in condition)
        if OWN in self.targets:
            yield NAMESPACE


class Unsynced(NamedTuple):
    """The rights that count while the cluster's state may be old: see `fastdns.plugins.kubernetes.watch.problems`."""

    #: ``allow``, ``deny``, or "" for the default.
    mode: str = ""
    #: Seconds.
    after: float = UNSYNCED_AFTER
    #: Where it stands.
    place: Token | None = None


class Rule(NamedTuple):
    """One occurrence of the directive."""

    zones: tuple[str, ...]
    policies: tuple[Policy, ...] = ()


class Rules(list[Rule]):
    """Those of a server block, in their order."""

    unsynced: Unsynced | None = None


def names_of(rules: Iterable[Rule]) -> list[str]:
    """What the policies look at of a client, each once."""
    return list(dict.fromkeys(name for rule in rules for policy in rule.policies for name in policy.names))


def parse(controller: Controller) -> Rules:
    """The rules in their order. Raises CorefileError."""
    rules = Rules()
    while controller.next():
        zones = controller.zones(controller.remaining_args())
        policies = []
        while controller.next_block():
            if controller.val().lower() == UNSYNCED:
                if rules.unsynced is not None:
                    raise controller.err("unsynced is given twice in a server block")
                rules.unsynced = _unsynced(controller)
            else:
                policies.append(_policy(controller))
        rules.append(Rule(tuple(zones), tuple(policies)))
    return rules


def _unsynced(controller: Controller) -> Unsynced:
    mode, *rest = controller.args(1, 2)
    if mode not in ("allow", "deny") or (mode == "allow" and rest):
        raise controller.err("expect 'unsynced allow' or 'unsynced deny [AFTER]'")
    try:
        after = controller.seconds(rest[0]) if rest else UNSYNCED_AFTER
    except ValueError as error:
        raise controller.err(f"invalid duration {quoted(rest[0])}: {error}") from None
    if after < 0:
        raise controller.err(f"invalid duration {quoted(rest[0])}: it is negative")
    return Unsynced(mode, after, controller.place())


def _policy(controller: Controller) -> Policy:
    words = [controller.val(), *controller.remaining_args()]
    audit = words[0].lower() == AUDIT
    if audit:
        words.pop(0)
        if not words:
            raise controller.err("no action after 'audit'; expect 'block', 'filter', 'drop' or 'nxdomain'")
    action = words[0].lower()
    if action not in ACTIONS or (audit and action == "allow"):
        wanted = "'block', 'filter', 'drop' or 'nxdomain'" if audit else "'allow', 'block', 'filter' or 'drop', or 'nxdomain'"
        raise controller.err(f"unexpected token {quoted(words[0])}; expect {wanted}")
    words.pop(0)
    types: set[int] | None = None
    networks: list[Network] | None = None
    namespaces: list[tuple[str, str]] = []
    kinds: list[tuple[str, str]] = []
    labels: list[Condition] = []
    targets: list[str] = []
    while words:
        section = words.pop(0)
        if section.lower() not in SECTIONS:
            raise controller.err(f"unexpected token {quoted(section)}; expect 'type | net', or 'client | namespace | label | target'")
        values = []
        while words and words[0].lower() not in SECTIONS:
            values.append(words.pop(0))
        if not values:
            raise controller.err(f"no token specified in {quoted(section.lower())} section")
        if section.lower() == "type":
            types = _types(controller, values, types or set())
        elif section.lower() == "net":
            networks = networks_of(controller, values, networks or [])
        elif section.lower() == "namespace":
            namespaces += [(NAMESPACE, value_of(controller, name)) for name in values]
        elif section.lower() == "client":
            kinds += [(KIND, _kind(controller, kind)) for kind in values]
        elif section.lower() == "target":
            targets += [value_of(controller, name.lower()) for name in values]
        else:
            labels.append(tuple(_label(controller, text) for text in values))
    conditions = ((tuple(kinds),) if kinds else ()) + ((tuple(namespaces),) if namespaces else ()) + tuple(labels)
    # 0 stands for every type.
    every = types is None or 0 in types
    return Policy(
        action,
        () if types is None or every else tuple(sorted(types)),
        EVERYWHERE if networks is None else tuple(networks),
        conditions,
        tuple(targets),
        audit,
        controller.place(),
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


def networks_of(controller: Controller, texts: list[str], networks: list[Network]) -> list[Network]:
    """These networks, and those that texts name: prefixes, addresses or ``*``. Raises CorefileError."""
    for text in texts:
        if text == "*":
            return list(EVERYWHERE)
        whole = text if "/" in text else f"{text}/{128 if ':' in text else 32}"
        network = network_of(whole)
        if network is None:
            raise controller.err(f"illegal CIDR notation {quoted(whole)}")
        networks.append(network)
    return networks


def _kind(controller: Controller, text: str) -> str:
    if text not in KINDS:
        raise controller.err(f"unexpected token {quoted(text)}; expect 'pod', 'node' or 'unknown'")
    return text


def _label(controller: Controller, text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise controller.err(f"unexpected token {quoted(text)}; expect KEY=VALUE")
    return LABEL + key, value_of(controller, value)


def value_of(controller: Controller, text: str) -> str:
    """A namespace or the value of a label. Raises CorefileError for one that is too long."""
    if len(text.encode("utf-8", "surrogateescape")) > VALUE_MAX:
        raise controller.err(f"{quoted(text)} is longer than {VALUE_MAX} octets")
    return text
