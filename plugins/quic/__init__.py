"""quic: limits of DNS over QUIC."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.limits import parse_limits
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``quic { max_streams N; max_connections N; worker_pool_size N }``"""
    controller.config.values["quic"] = parse_limits(controller, {"max_streams": 1, "max_connections": 0, "worker_pool_size": 1})
