"""filter_aaaa and filter_a: withhold the addresses of one family from clients that cannot use them."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.plugins.acl.rules import NAMESPACE
from fastdns.plugins.filter_aaaa.rules import Rule, parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """Add one handler for all occurrences in the block. The directive's name says which family it is."""
    rules = parse(controller)
    from fastdns.plugins.filter_aaaa._filter import FilterHandler

    handler = FilterHandler(controller.directive, rules, controller.directive == "filter_a")
    config = controller.config
    config.add_handler(handler)

    def connect() -> None:
        """Has a plugin of the block say in which namespace a client is, and what the SOA of the cluster's zones is."""
        named: Rule | None = next((rule for rule in rules if rule.namespaces), None)
        if named is not None:
            label = config.client_label(NAMESPACE)
            if label is None:
                place = named.place
                raise CorefileError(
                    f"{place.file}:{place.line} - Error during parsing: namespace needs a plugin in the server block that knows which pod asks: "
                    "kubernetes with 'pods verified'",
                    place.file,
                    place.line,
                )
            handler.use(label)
        knowing = next((other for other in config.handlers if hasattr(other, "cluster_names")), None)
        if knowing is not None:
            handler.use_cluster(knowing.cluster_names(guarded=False))

    controller.on_complete(connect)
