"""minimal: positive answers without authority and additional section."""

from __future__ import annotations

from fastdns.plugins.minimal._minimal import MinimalHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``minimal``, without arguments."""
    controller.next()
    controller.no_args()
    controller.config.add_handler(MinimalHandler("minimal"))
