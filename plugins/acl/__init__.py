"""acl: allows, blocks, filters or drops queries, or answers NXDOMAIN, by where they come from, what they ask for and whose names these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastdns.corefile import CorefileError
from fastdns.corefile.lexer import Token
from fastdns.plugins.acl._acl import AclHandler
from fastdns.plugins.acl.rules import LABEL, NAMES_MAX, Rule, Rules, Unsynced, names_of, parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """Add one handler for all occurrences in the block."""
    rules = parse(controller)
    config = controller.config
    names = names_of(rules)
    policies = [policy for rule in rules for policy in rule.policies]
    if len(names) > NAMES_MAX:
        place = next(policy.place for policy in policies if policy.names)
        raise _error(place, f"the rules of a server block look at {len(names)} different labels; {NAMES_MAX} at most")
    handler = AclHandler("acl", rules)
    config.add_handler(handler)
    if any(name.startswith(LABEL) for name in names):
        config.values["client labels"] = True
    if names or any(policy.targets or policy.action == "nxdomain" for policy in policies):
        controller.on_complete(lambda: _connect(handler, names, controller, rules))


def _connect(handler: AclHandler, names: list[str], controller: Controller, rules: Rules) -> None:
    """Has a plugin of the block say which pod a client is, and which namespaces questions are for."""
    config = controller.config
    policies = [policy for rule in rules for policy in rule.policies]
    for name in names:
        label = config.client_label(name)
        if label is None:
            place = next(policy.place for policy in policies if name in policy.names)
            raise _error(
                place,
                "client, namespace, label and 'target own' need a plugin in the server block that knows which pod asks: kubernetes with 'pods verified'",
            )
        handler.use(name, label)
    publisher = next((other for other in config.handlers if hasattr(other, "unsynced")), None)
    chosen = rules.unsynced or Unsynced()
    if publisher is not None and chosen.mode != "allow":
        handler.use_unsynced(publisher.unsynced(chosen.mode, chosen.after))
    targeted = next((policy.place for policy in policies if policy.targets), None)
    knowing = next((other for other in config.handlers if hasattr(other, "cluster_names")), None)
    if knowing is not None:
        cluster = knowing.cluster_names(guarded=targeted is not None)
        handler.use_cluster(cluster)
        _suspect(controller, rules, cluster.zones)
    elif targeted is not None:
        raise _error(targeted, "target needs a plugin in the server block that knows whose names these are: kubernetes")


def _suspect(controller: Controller, rules: list[Rule], zones: Sequence[str]) -> None:
    """Reports zones of the cluster to which no rule with a target that is not allowed applies."""
    closing = [(rule, policy) for rule in rules for policy in rule.policies if policy.targets and policy.action != "allow"]
    left_open = [zone for zone in zones if not any(_holds(rule.zones, zone) for rule, _ in closing)]
    if closing and left_open:
        controller.suspect(
            f"no rule with 'target' applies to {', '.join(left_open)}, for which the cluster's names are answered too",
            "add these zones to the rule: by them a client finds names of other namespaces",
            closing[0][1].place,
        )


def _holds(zones: Iterable[str], name: str) -> bool:
    """Whether a name is at or below one of the zones."""
    return any(zone == "." or name.lower() == zone.lower() or name.lower().endswith(f".{zone.lower()}") for zone in zones)


def _error(place: Token | None, text: str) -> CorefileError:
    if place is None:
        return CorefileError(f"Error during parsing: {text}")
    return CorefileError(f"{place.file}:{place.line} - Error during parsing: {text}", place.file, place.line)
