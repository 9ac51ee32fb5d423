"""https3: limits of DNS over HTTP/3."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.limits import parse_limits
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``https3 { max_streams N; max_connections N }``"""
    controller.config.values["https3"] = parse_limits(controller, {"max_streams": 0, "max_connections": 0})
