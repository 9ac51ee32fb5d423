"""debug: more log lines, and no recovery from defects."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``debug``, without arguments."""
    while controller.next():
        controller.no_args()
        controller.config.debug = True
