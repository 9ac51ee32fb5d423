"""acl: allows, blocks, filters or drops queries by where they come from and what they ask for."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.lexer import Token
from fastdns.plugins.acl._acl import AclHandler
from fastdns.plugins.acl.rules import LABEL, NAMES_MAX, names_of, parse
from fastdns.setup import Config, Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """Add one handler for all occurrences in the block."""
    rules = parse(controller)
    config = controller.config
    names = names_of(rules)
    places = [policy.place for rule in rules for policy in rule.policies if policy.place is not None]
    if len(names) > NAMES_MAX:
        raise _error(places[0], f"the rules of a server block look at {len(names)} different labels; {NAMES_MAX} at most")
    handler = AclHandler("acl", rules)
    config.add_handler(handler)
    if places:
        if any(name.startswith(LABEL) for name in names):
            config.values["client labels"] = True
        controller.on_complete(lambda: _connect(handler, names, config, places[0]))


def _connect(handler: AclHandler, names: list[str], config: Config, place: Token) -> None:
    """Has a plugin of the block say which pod a client is."""
    for name in names:
        label = config.client_label(name)
        if label is None:
            raise _error(place, "namespace and label need a plugin in the server block that knows which pod asks: kubernetes with 'pods verified'")
        handler.use(name, label)


def _error(place: Token, text: str) -> CorefileError:
    return CorefileError(f"{place.file}:{place.line} - Error during parsing: {text}", place.file, place.line)
