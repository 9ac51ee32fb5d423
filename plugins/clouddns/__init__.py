"""clouddns: answers from managed zones of Google Cloud DNS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastdns.plugins.clouddns.settings import Settings, parse
from fastdns.plugins.file.hosted import HostedZone, HostedZones, refusal
from fastdns.setup import Controller
from fastdns.setup.extras import extra_package
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.clouddns.api import Api

__all__ = ["setup"]

TRAITS = Traits()


def setup(controller: Controller) -> None:
    """Add a handler for each directive; its zones are read before the block serves."""
    while controller.next():
        settings = parse(controller)
        with extra_package("google-auth", "clouddns"):
            from fastdns.plugins.clouddns.api import Api
        _hosted(controller, settings, Api(settings)).serve(controller, settings.fall)


def _hosted(controller: Controller, settings: Settings, api: Api) -> HostedZones:
    zones = [
        HostedZone("clouddns", origin, f"{project}:{zone}", partial(api.records, project, zone), settings.snapshot) for origin, project, zone in settings.zones
    ]
    hosted = HostedZones(zones, settings.refresh, "gcp")
    hosted.verify = [partial(api.verify, project, zone) for _, project, zone in settings.zones]
    hosted.refused = refusal(controller, "create plugin")
    hosted.unread = refusal(controller, "initialize plugin")
    return hosted
