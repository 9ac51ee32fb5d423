"""any: the short answer to queries of type ANY (RFC 8482)."""

from __future__ import annotations

from fastdns.plugins.any._any import AnyHandler
from fastdns.setup.controller import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(runs_in_check=True)


def setup(controller: Controller) -> None:
    """``any``, without arguments."""
    controller.next()
    controller.no_args()
    controller.config.add_handler(AnyHandler("any"))
