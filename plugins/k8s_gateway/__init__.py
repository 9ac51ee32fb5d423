"""k8s_gateway: names of what comes into a cluster."""

from __future__ import annotations

from fastdns.plugins.k8s_gateway.gateway import Gateway
from fastdns.plugins.k8s_gateway.settings import parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(runs_in_check=True)


def setup(controller: Controller) -> None:
    """``k8s_gateway [ZONES...] { ... }``, see README.md."""
    settings = parse(controller)
    try:
        zones = Gateway(controller.directive or "k8s_gateway", settings)
    except ValueError as error:
        raise controller.err(str(error)) from None
    controller.config.add_handler(zones.serve(controller))
