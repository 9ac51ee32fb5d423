"""rewrite: changes queries for the plugins below, and answers back for the client."""

from __future__ import annotations

from dataclasses import replace

from fastdns.plugins.rewrite.rules import Rule, doubt, parse_rule
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """Add the block's handler; metadata that rules read is looked up once all plugins of the block are there."""
    rules = parse(controller)
    from fastdns.plugins.rewrite._rewrite import RewriteHandler

    handler = RewriteHandler("rewrite", rules)
    controller.config.add_handler(handler)
    controller.on_startup(lambda: handler.resolve(controller.config))


def parse(controller: Controller) -> list[Rule]:
    """All rules of the block, in order. Raises CorefileError."""
    rules = []
    while controller.next():
        words = controller.remaining_args()
        if len(words) < 2:
            while controller.next_block():
                words.append(controller.val())
        place = controller.place()
        rule = parse_rule(words)
        if found := doubt(rule):
            controller.suspect(found)
        rules.append(replace(rule, place=f"{place.file}:{place.line}"))
    return rules
