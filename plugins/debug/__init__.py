"""debug: more log lines, and no recovery from defects."""

from __future__ import annotations

from fastdns.setup import Controller

__all__ = ["setup"]


def setup(controller: Controller) -> None:
    """``debug``, without arguments."""
    while controller.next():
        controller.no_args()
        controller.config.debug = True
