"""minimal: positive answers without authority and additional section."""

from __future__ import annotations

from fastdns.plugins.minimal._minimal import MinimalHandler
from fastdns.setup import Controller

__all__ = ["setup"]


def setup(controller: Controller) -> None:
    """``minimal``, without arguments."""
    controller.next()
    controller.no_args()
    controller.config.add_handler(MinimalHandler("minimal"))
