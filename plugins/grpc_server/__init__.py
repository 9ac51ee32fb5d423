"""grpc_server: limits of DNS over gRPC."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.limits import parse_limits
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``grpc_server { max_streams N; max_connections N }``"""
    controller.config.values["grpc_server"] = parse_limits(controller, {"max_streams": 0, "max_connections": 0})
